"""A run holds on to the snapshot that its image is built from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("runs", sa.Column("context_id", sa.String(length=64), nullable=True))
    where = sa.text("context_id IS NOT NULL")
    op.create_index(
        "ix_runs_context_id", "runs", ["context_id"], sqlite_where=where, postgresql_where=where
    )
    path = ("environment", "specification", "docker", "context")
    if op.get_bind().dialect.name == "sqlite":
        found = f"json_extract(spec, '$.{'.'.join(path)}')"
    else:
        found = f"spec #>> '{{{','.join(path)}}}'"
    op.execute(f"UPDATE runs SET context_id = {found} WHERE {found} IS NOT NULL")
