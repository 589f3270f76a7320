"""A line that was refused is left alone, until there is reason to hope."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from wherry.core.errors import TargetUnavailableError
from wherry.drivers import agent_talk
from wherry.drivers.agent_line import Line
from wherry.drivers.agent_talk import Answer
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


def test_the_agent_of_a_connection_that_was_lost_is_ended_by_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        line = Line(Host("node1.lab"), "", lambda _root, _reports: None, connect)
        await line.link()
        agents[0].lost.set()
        await until(lambda: len(agents) == 2 and line.connected)
        assert agents[1].asked == [{"do": "end_other", "pid": 1, "identity": "a"}]
        agents[1].lost.set()
        await until(lambda: len(agents) == 3 and line.connected)
        assert agents[2].asked == [{"do": "end_other", "pid": 2, "identity": "a"}]
        await line.close()

    async def start(*_: object) -> SilentAgent:
        agents.append(SilentAgent(len(agents) + 1))
        return agents[-1]

    async def connect(_place: object) -> Opened:
        return cast(Opened, Gone())

    agents: list[SilentAgent] = []
    monkeypatch.setattr(agent_talk, "start", start)
    asyncio.run(story())


class SilentAgent:
    """Which notes what it is asked."""

    def __init__(self, pid: int) -> None:
        self.hello = {"pid": pid, "identity": "a"}
        self.lost = asyncio.Event()
        self.asked: list[Mapping[str, Any]] = []

    async def ask(self, fields: Mapping[str, Any], _data: bytes, _limit_s: float) -> Answer:
        self.asked.append(fields)
        return {}, b""

    def close(self) -> None:
        pass


class Gone:
    async def close(self) -> None:
        pass


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("waited in vain")
