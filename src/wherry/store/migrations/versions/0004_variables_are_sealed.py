"""Values of environment variables are sealed from here on.

The tables stay as they are. What older versions stored in clear is sealed before this revision is
noted (``control/resealing.py``), for which the server's key is needed.
"""

from __future__ import annotations

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    pass
