"""A snapshot may be kept by how it differs from another."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("snapshots", sa.Column("base_id", sa.String(64)))
    op.add_column("snapshots", sa.Column("changes", sa.JSON()))
