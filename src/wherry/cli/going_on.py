"""What somebody who stops waiting for a compute target is told."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Iterator

from .ending import Detached


@contextmanager
def going_on(doing: str, name: str) -> Iterator[None]:
    """Ctrl-C ends the waiting alone; the server goes on."""
    try:
        yield
    except KeyboardInterrupt:
        ways = [(f"wherry compute show {name}", "see how far it is")]
        if doing == "making":
            ways.append((f"wherry compute delete {name}", "remove it"))
        width = max(len(command) for command, _ in ways)
        lines = "\n".join(f"  {command:{width}}   {what}" for command, what in ways)
        raise Detached(f"\n{doing} {name} goes on; only the waiting has ended\n\n{lines}") from None
