"""Doors of compute instances that were asked for a moment ago, and the instances' ids."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from wherry.control import doors, instance_logins
from wherry.control.doors import Door
from wherry.control.plane import Plane

T = TypeVar("T")
_DOOR_S = 5.0
_ID_S = 1.0
_MOST = 1000

Place = tuple[str, str]


class KnownDoors:
    """By workspace and name."""

    def __init__(self, plane: Plane) -> None:
        self._doors: _Kept[Door] = _Kept(_DOOR_S, lambda at: doors.door(plane, *at))
        self._ids: _Kept[str | None] = _Kept(
            _ID_S, lambda at: instance_logins.instance_id(plane, *at)
        )

    async def door(self, at: Place) -> Door:
        return await self._doors.get(at)

    async def instance_id(self, at: Place) -> str | None:
        return await self._ids.get(at)

    def forget(self, at: Place) -> None:
        """It led nowhere."""
        self._doors.forget(at)


class _Kept(Generic[T]):
    """However many ask at once, one thread finds out. What failed is not kept."""

    def __init__(self, seconds: float, find: Callable[[Place], T]) -> None:
        self._seconds = seconds
        self._find = find
        self._found: dict[Place, tuple[float, asyncio.Future[T]]] = {}

    async def get(self, at: Place) -> T:
        until, found = self._found.get(at, (0.0, None))
        if found is None or (found.done() and (time.monotonic() > until or _failed(found))):
            if len(self._found) >= _MOST:
                self._found.clear()
            found = asyncio.ensure_future(run_in_threadpool(self._find, at))
            self._found[at] = time.monotonic() + self._seconds, found
        return await asyncio.shield(found)

    def forget(self, at: Place) -> None:
        self._found.pop(at, None)


def _failed(found: asyncio.Future[T]) -> bool:
    return found.cancelled() or found.exception() is not None
