"""Compute instances: their sessions and what was last done with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "instances",
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("session_id", sa.String(length=300)),
        sa.Column("sessions", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("created", sa.Boolean(), nullable=False),
        sa.Column("restarting", sa.Boolean(), nullable=False),
        sa.Column("operation", sa.JSON(), nullable=False),
        sa.Column("session_at", sa.BigInteger()),
        sa.Column("active_at", sa.BigInteger(), nullable=False),
        sa.Column("scheduled_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("target", name=op.f("pk_instances")),
    )
