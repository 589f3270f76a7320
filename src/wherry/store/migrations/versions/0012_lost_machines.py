"""Machines that somebody declared lost, and what may still be on them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "lost_machines",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("site", sa.String(length=255), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("secrets", sa.Text()),
        sa.Column("handles", sa.JSON(), nullable=False),
        sa.Column("given_up_by", sa.String(length=255), nullable=False),
        sa.Column("given_up_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_lost_machines")),
    )
