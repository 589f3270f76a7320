"""Logins in the addresses that environments name are sealed from here on.

The tables stay as they are. What older versions stored in clear is sealed before this revision is
noted (``control/resealing.py``), for which the server's key is needed.
"""

from __future__ import annotations

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    pass
