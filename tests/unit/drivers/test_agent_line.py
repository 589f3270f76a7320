"""A line that was refused is left alone, until there is reason to hope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from wherry.core.errors import TargetUnavailableError
from wherry.drivers.agent_line import Line
from wherry.drivers.places import Opened
from wherry.drivers.ssh_host import Host


class Door:
    """Which lets nobody in, and counts who knocks."""

    def __init__(self) -> None:
        self.knocks = 0

    async def connect(self, place: object) -> Opened:
        self.knocks += 1
        raise TargetUnavailableError(f"{place} refused user me", cause="credentials")


async def refused(line: Line) -> None:
    with pytest.raises(TargetUnavailableError, match="refused user me"):
        await line.link()


def line_to(door: Door) -> Line:
    return Line(Host("node1.lab"), "", lambda _root, _reports: None, door.connect)


def test_credentials_that_were_refused_are_not_tried_again_before_it_is_woken() -> None:
    async def story() -> None:
        line = line_to(door)
        await refused(line)
        await refused(line)
        assert door.knocks == 1
        line.wake()
        await refused(line)
        assert door.knocks == 2

    door = Door()
    asyncio.run(story())


def test_one_that_waits_to_connect_again_goes_on_at_once() -> None:
    async def story() -> None:
        line = line_to(door)
        keeping = asyncio.ensure_future(line._reconnect())
        await until(lambda: door.knocks == 1)
        for _ in range(20):  # it waits by now
            await asyncio.sleep(0)
        line.wake()
        await until(lambda: door.knocks == 2)
        keeping.cancel()

    door = Door()
    asyncio.run(story())


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")
