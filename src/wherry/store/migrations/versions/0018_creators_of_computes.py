"""Who has created or attached a compute target; of those before, nobody knows."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    creator = sa.Column("created_by", sa.String(length=255), nullable=False, server_default="")
    op.add_column("computes", creator)
