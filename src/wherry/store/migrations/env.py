"""Alembic's entry point: runs on the connection that ``store.migrate`` opened."""

from __future__ import annotations

from alembic import context

from wherry.store.model_tables import every_table as metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    render_as_batch=True,
    transactional_ddl=False,
)
context.run_migrations()
