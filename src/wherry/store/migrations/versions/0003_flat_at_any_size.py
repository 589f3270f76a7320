"""Indexes so that no question reads all runs, and tallies of how runs ended."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    for columns in (
        ("workspace_id", "target", "seq"),
        ("workspace_id", "type", "seq"),
        ("experiment_id", "status", "seq"),
        ("parent_id", "seq"),
        ("snapshot_id",),
    ):
        op.create_index(f"ix_runs_{'_'.join(columns)}", "runs", list(columns))
    op.drop_index("ix_runs_parent_id", "runs")
    op.drop_index("ix_runs_root_id", "runs")
    for name, condition, columns in (
        ("listed", "parent_id IS NULL AND archived_at IS NULL", ("workspace_id", "seq")),
        ("archived", "archived_at IS NOT NULL", ("workspace_id", "seq")),
        ("open", "ended_at IS NULL", ("status",)),
        ("canceling", "cancel_requested_at IS NOT NULL", ("workspace_id", "status", "seq")),
        ("canceling_on", "cancel_requested_at IS NOT NULL", ("target", "status", "seq")),
    ):
        where = sa.text(condition)
        op.create_index(
            f"ix_runs_{name}", "runs", list(columns), sqlite_where=where, postgresql_where=where
        )
    is_sqlite = op.get_bind().dialect.name == "sqlite"
    whole = "id" if is_sqlite else '(id COLLATE "C")'
    ending = "substr(id, length(rtrim(id, replace(id, '_', ''))) + 1)"
    op.create_index("ix_runs_by_id", "runs", ["workspace_id", sa.text(f"substr({whole}, 1, 100)")])
    op.create_index("ix_runs_by_ending", "runs", ["workspace_id", sa.text(ending)])
    _tally()


def _tally() -> None:
    op.create_table(
        "tallies",
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            autoincrement=True,
            nullable=False,
        ),
        sa.Column("status", sa.String(length=20), nullable=False),
        sa.Column("change", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_tallies")),
    )
    op.execute(
        "INSERT INTO tallies (status, change) SELECT status, count(*) FROM runs "
        "WHERE status IN ('Completed', 'Failed', 'Canceled') GROUP BY status"
    )
