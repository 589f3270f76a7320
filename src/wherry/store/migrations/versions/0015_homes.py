"""Folders that outlive the nodes of a target."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.create_table(
        "homes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("site", sa.String(length=255), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_homes")),
    )
