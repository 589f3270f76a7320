"""Indexes for every order of a listing, for labels by value, and for what is to be released."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    for name, key in (
        ("number", "number"),
        ("started", "coalesce(started_at, 0)"),
        ("ended", "coalesce(ended_at, 0)"),
        ("display_name", "substr(display_name, 1, 100)"),
    ):
        op.create_index(f"ix_runs_by_{name}", "runs", ["workspace_id", sa.text(key), "seq"])
    op.create_index(
        "ix_run_labels_by_value",
        "run_labels",
        ["kind", "key", sa.text("substr(value, 1, 100)"), "run_seq"],
    )
    op.drop_index("ix_run_labels_kind_key_run_seq", "run_labels")
    op.create_index(
        "ix_attempts_target_released_at_ended_at",
        "attempts",
        ["target", "released_at", "ended_at"],
    )
    op.drop_index("ix_attempts_target_ended_at_released_at", "attempts")
