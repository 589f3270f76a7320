"""Where the nodes of a run meet, and which node a file comes from."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("meeting", sa.JSON()))
    op.add_column("files", sa.Column("rank", sa.Integer(), nullable=False, server_default="0"))
