"""How long a run may take, and by when one that fills a gap has to have begun."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("runs", sa.Column("limit_s", sa.Double()))
    op.add_column("attempts", sa.Column("ready_by", sa.BigInteger()))
