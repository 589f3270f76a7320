"""What is kept at hand to start attempts on this machine quickly."""

from __future__ import annotations

from .inbox import Inbox
from .nursery import Nursery


class Warm:
    """The pipe through which short runs are handed over, and the process that starts runners."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.nursery: Nursery | None = None

    def close(self) -> None:
        """Attempts go on."""
        nursery, self.nursery = self.nursery, None
        if nursery is not None:
            nursery.close()
