"""Sites, compute targets and their nodes; runs on several nodes; what was used."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    for name, value in (("node_count", "1"), ("priority", "0"), ("preemptions", "0")):
        column = sa.Column(name, sa.Integer(), nullable=False, server_default=value)
        op.add_column("runs", column)
    where = sa.text("priority <> 0")
    op.create_index(
        "ix_runs_preferred",
        "runs",
        ["target", "status", "priority", "seq"],
        sqlite_where=where,
        postgresql_where=where,
    )
    with op.batch_alter_table("attempts") as batch:
        batch.add_column(sa.Column("rank", sa.Integer(), nullable=False, server_default="0"))
        batch.add_column(sa.Column("node_id", sa.String(length=36)))
        batch.add_column(sa.Column("stop_wanted_at", sa.BigInteger()))
        batch.add_column(sa.Column("stop_reason", sa.String(length=32)))
        batch.drop_constraint("uq_attempts_run_id_number", type_="unique")
        batch.create_unique_constraint(
            "uq_attempts_run_id_number_rank", ["run_id", "number", "rank"]
        )
    _sites()
    _computes()
    _nodes()
    _costs()


def _sites() -> None:
    op.create_table(
        "sites",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_sites")),
    )


def _computes() -> None:
    op.create_table(
        "computes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("secrets", sa.Text(), nullable=True),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("provisioning_state", sa.String(length=32), nullable=False),
        sa.Column("provisioning_errors", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.Column("stopped_at", sa.BigInteger(), nullable=True),
        sa.Column("deleting_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name=op.f("fk_computes_workspace_id")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_computes")),
        sa.UniqueConstraint("target", name=op.f("uq_computes_target")),
        sa.UniqueConstraint("workspace_id", "name", name=op.f("uq_computes_workspace_id_name")),
    )


def _nodes() -> None:
    op.create_table(
        "nodes",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("site", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("cpu", sa.Double(), nullable=False),
        sa.Column("memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("gpus", sa.JSON(), nullable=False),
        sa.Column("size", sa.String(length=255), nullable=False),
        sa.Column("price", sa.Double(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("ready_at", sa.BigInteger(), nullable=True),
        sa.Column("idle_since", sa.BigInteger(), nullable=True),
        sa.Column("state_since", sa.BigInteger(), nullable=False),
        sa.Column("removed_at", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_nodes")),
    )
    op.create_index("ix_nodes_target_removed_at", "nodes", ["target", "removed_at"])


def _costs() -> None:
    op.create_table(
        "costs",
        sa.Column("target", sa.String(length=255), nullable=False),
        sa.Column("day", sa.String(length=10), nullable=False),
        sa.Column("run_id", sa.String(length=300), nullable=False),
        sa.Column("workspace_id", sa.String(length=36), nullable=False),
        sa.Column("node_seconds", sa.Double(), nullable=False),
        sa.Column("cost", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("target", "day", "run_id", name=op.f("pk_costs")),
    )
    op.create_index("ix_costs_workspace_id", "costs", ["workspace_id"])
