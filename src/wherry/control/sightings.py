"""How the hosts of pools were when they were last looked at: kept as long as the server runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.text import clean

# A site, and the address and port of one of its hosts.
Place = tuple[str, str, int]

UNREACHABLE, SET_ASIDE = "unreachable", "set aside"
# It answers, and somebody has to put it right; with other causes there is no way to it.
_NO_USE = {
    *("host_key", "credentials", "key", "python", "shell", "home", "disk_full"),
    *("forwarding", "tunnel"),
}


@dataclass(frozen=True)
class Sighting:
    """``owned`` is what the host had when it was last seen; ``state`` and ``reason`` say why it
    cannot be used since.
    """

    at: datetime
    owned: Resources | None = None
    state: str = ""
    reason: str = ""


def missed(at: datetime, known: Sighting | None, error: TargetUnavailableError) -> Sighting:
    state = SET_ASIDE if error.fields.get("cause") in _NO_USE else UNREACHABLE
    return Sighting(at, known.owned if known else None, state, clean(error.message))


def forgive(known: dict[Place, Sighting], site: str) -> None:
    """The site was changed: what was wrong with its hosts may be right now."""
    for place in [place for place in list(known) if place[0] == site and known[place].reason]:
        known.pop(place, None)
