"""Registered environments, version by version."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "environments",
        sa.Column(
            "seq",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("version", sa.String(length=255), nullable=False),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("context_id", sa.String(length=64), nullable=True),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(length=255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_environments_workspace_id")
        ),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_environments")),
        sa.UniqueConstraint(
            "workspace_id",
            "name",
            "version",
            name=op.f("uq_environments_workspace_id_name_version"),
        ),
    )
    op.create_index(
        "ix_environments_workspace_id_name_seq", "environments", ["workspace_id", "name", "seq"]
    )
    op.create_index("ix_environments_context_id", "environments", ["context_id"])
