"""Which server works for a target: of those that share a database, one at a time."""

from __future__ import annotations

import time

from wherry.core.errors import WherryError
from wherry.store import leases

from .plane import Plane

LEASE_S = 30.0


class TargetLease:
    def __init__(self, plane: Plane, target: str) -> None:
        self._plane = plane
        self._name = _name(target)
        self._until = 0.0
        self._terms = 0

    @property
    def term(self) -> int | None:
        """The same number for as long as no other server can have held it; None if one may."""
        return self._terms if time.monotonic() < self._until else None

    def hold(self) -> bool:
        """Whether it is this server's, now and for a while."""
        if time.monotonic() < self._until - LEASE_S / 2:
            return True
        with self._plane.write() as connection:
            now, owner = self._plane.now(), self._plane.owner
            held = leases.claim(connection, self._name, owner, now, LEASE_S)
        self._terms += self.term is None
        self._until = time.monotonic() + LEASE_S if held else 0.0
        return held

    def drop(self) -> None:
        with self._plane.write() as connection:
            leases.drop(connection, self._name, self._plane.owner)


def claim_targets(plane: Plane) -> None:
    """Refuse a database that another home's server works with: its files are in that home."""
    with plane.write() as connection:
        for target in plane.drivers:
            name = _name(target)
            if not leases.claim(connection, name, plane.owner, plane.now(), LEASE_S):
                raise WherryError(
                    f"the database is in use by the server of {leases.owner(connection, name)}",
                    hint="two homes cannot share a database: stop the other server, "
                    f"wait {LEASE_S:.0f} s if it was killed, or set another WHERRY_DATABASE_URL",
                )


def _name(target: str) -> str:
    return f"target:{target}"
