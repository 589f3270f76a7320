"""How the hosts of pools were when they were last looked at: kept as long as the server runs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from wherry.core.errors import WherryError
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


def of_node(
    known: dict[Place, Sighting], node: Row[Any], at: datetime, error: WherryError | None
) -> None:
    """What was met at a node is told of its host, too, if that is one of a pool."""
    if "port" not in node.config or "container" in node.config:
        return
    place = (node.site, node.config["address"], node.config["port"])
    if error is None:
        see(known, place, at)
    else:
        miss(known, place, at, error)


def miss(known: dict[Place, Sighting], place: Place, at: datetime, error: WherryError) -> None:
    """The host could not be used."""
    state = SET_ASIDE if error.fields.get("cause") in _NO_USE else UNREACHABLE
    last = known.get(place)
    known[place] = Sighting(at, last.owned if last else None, state, clean(error.message))


def see(
    known: dict[Place, Sighting], place: Place, at: datetime, owned: Resources | None = None
) -> None:
    """The host answered; what it has is what it had, unless it told."""
    last = known.get(place)
    known[place] = Sighting(at, owned or (last.owned if last else None))


def forgive(known: dict[Place, Sighting], site: str) -> None:
    """The site was changed: what was wrong with its hosts may be right now."""
    for place in [place for place in list(known) if place[0] == site and known[place].reason]:
        known.pop(place, None)
