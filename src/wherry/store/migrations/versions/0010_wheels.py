"""Wheels that workspaces keep for their environments."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.create_table(
        "wheels",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_wheels_workspace_id")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_wheels")),
        sa.UniqueConstraint(
            "workspace_id", "digest", "name", name=op.f("uq_wheels_workspace_id_digest_name")
        ),
    )
    op.create_index("ix_wheels_workspace_id_name", "wheels", ["workspace_id", "name"])
