"""Agents that answer nonsense, too much, or nothing: trouble of their machine, and of no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.resources import Resources
from wherry.drivers import frames
from wherry.drivers.agent_driver import AgentDriver
from wherry.drivers.agent_start import READY
from wherry.drivers.agent_streams import AgentStreams
from wherry.drivers.base import Handle, Launch
from wherry.drivers.streams import WINDOW

HELLO: dict[str, Any] = {
    "protocol": frames.PROTOCOL,
    "pid": 1,
    "identity": "x",
    "python": "/usr/bin/python3",
    "version": "3.11.0",
    "system": "Linux",
    "host": "n",
}
LAUNCH = Launch("a1", ["true"], program={"runner": b"program"})
Answer = Callable[[dict[str, Any]], bytes]


@dataclass(frozen=True)
class Spot:
    """A place of the tests' own; ``name`` keeps their lines apart."""

    name: str
    python: str = ""
    trial: str = "ssh n"
    where: str = "n"

    def __str__(self) -> str:
        return self.name


class Talker:
    """A process that answers as the test says."""

    def __init__(self, answer: Answer, hello: bytes) -> None:
        self._answer = answer
        self._said = asyncio.StreamReader(limit=1 << 30)
        self._said.feed_data(f'\n{READY}{{"have": true, "platform": "linux"}}\n'.encode() + hello)

    def write(self, data: bytes) -> None:
        text, _ = frames.sizes(data[: frames.HEAD_SIZE])
        request = json.loads(data[frames.HEAD_SIZE : frames.HEAD_SIZE + text])
        self._said.feed_data(self._answer(request))

    async def read_exactly(self, size: int) -> bytes:
        return await self._said.readexactly(size)

    async def read_line(self) -> bytes:
        return await self._said.readline()

    async def read_words(self) -> bytes:
        return b""

    def close(self) -> None:
        self._said.feed_eof()

    async def wait_closed(self) -> None: ...


class Way:
    def __init__(self, answer: Answer, hello: bytes) -> None:
        self._process = answer, hello

    async def start(self, command: str) -> Talker:
        return Talker(*self._process)

    async def forward(self, port: int, address: str, to: int) -> int:
        return 1

    async def close(self) -> None: ...


Attack = Callable[..., AgentDriver]


@pytest.fixture
def attacked(request: pytest.FixtureRequest) -> Iterator[Attack]:
    """A driver whose machine is the test's."""
    made: list[AgentDriver] = []

    def make(answer: Answer, hello: bytes | None = None) -> AgentDriver:
        async def connect(_place: Any) -> Way:
            return Way(answer, frames.pack(HELLO) if hello is None else hello)

        made.append(AgentDriver(Spot(f"{request.node.name}-{len(made)}"), connect))
        return made[-1]

    yield make
    for driver in made:
        driver.close()


def saying(fields: Any, data: bytes = b"") -> Answer:
    """To whatever it is asked."""
    return lambda request: frames.pack({**fields, "id": request["id"]}, data)


NODE = {"name": "n", "resources": {"cpu": 1, "memory_bytes": 1, "gpu": 0}, "gpus": []}
CHECKS: list[Any] = [
    {},
    {"nodes": None},
    {"nodes": []},
    {"nodes": 5},
    {"nodes": [NODE, NODE], "version": "1"},
    {"nodes": [NODE], "version": 5},
    {"nodes": [{**NODE, "name": None}], "version": "1"},
    {"nodes": [{**NODE, "resources": {}}], "version": "1"},
    {"nodes": [{**NODE, "resources": {"cpu": "many", "memory_bytes": 1, "gpu": 0}}], "version": ""},
    {"nodes": [{**NODE, "resources": {"cpu": 1e300, "memory_bytes": 1, "gpu": 0}}], "version": ""},
    {"nodes": [{**NODE, "resources": {"cpu": 1, "memory_bytes": -1, "gpu": 0}}], "version": ""},
    {"nodes": [{**NODE, "gpus": [1]}], "version": "1"},
]


@pytest.mark.parametrize("fields", CHECKS)
def test_what_a_machine_has_is_told_in_numbers(attacked: Attack, fields: Any) -> None:
    with pytest.raises(TargetUnavailableError, match="make no sense") as error:
        attacked(saying(fields)).check()
    assert error.value.fields["cause"] == "nonsense"


SEEN: list[Any] = [
    {},
    {"seen": None},
    {"seen": []},
    {"seen": [{}]},
    {"seen": [5]},
    {"seen": [{"phase": "flying", "exit": None, "detail": ""}]},
    {"seen": [{"phase": [], "exit": None, "detail": ""}]},
    {"seen": [{"phase": "running", "exit": 5, "detail": ""}]},
    {"seen": [{"phase": "running", "exit": None, "detail": 5}]},
    {"seen": [{"phase": "running", "exit": None, "detail": ""}] * 2},
]


@pytest.mark.parametrize("fields", SEEN)
def test_what_is_seen_is_what_was_asked_about(attacked: Attack, fields: Any) -> None:
    with pytest.raises(TargetUnavailableError, match="make no sense"):
        attacked(saying(fields)).observe([Handle("h")])


def test_what_is_said_is_short_and_can_be_kept(attacked: Attack) -> None:
    seen = [{"phase": "running", "exit": None, "detail": "\ud800\0" + "x" * 100_000}]
    driver = attacked(saying({"seen": seen}))
    detail = driver.observe([Handle("h")])[Handle("h")].detail
    assert len(detail) < 5000
    detail.encode()
    assert "\0" not in detail


@pytest.mark.parametrize("fields", [{}, {"handle": None}, {"handle": {}}, {"missing": ["x"]}])
def test_a_handle_is_a_text(attacked: Attack, fields: Any) -> None:
    with pytest.raises(TargetUnavailableError, match="make no sense"):
        attacked(saying(fields)).submit(LAUNCH)


def test_more_of_a_log_than_was_asked_for_is_not_taken(attacked: Attack) -> None:
    assert attacked(saying({}, b"x" * 1000)).read_log(Handle("h"), 0, 10) == b"x" * 10


@pytest.mark.parametrize("problem", [5, None, {}, {"detail": []}, {"fields": {"hint": 1}}])
def test_an_error_is_one_of_the_machine(attacked: Attack, problem: Any) -> None:
    with pytest.raises(TargetUnavailableError):
        attacked(saying({"error": problem})).check()


def test_no_error_says_more_than_that_it_failed(attacked: Attack) -> None:
    """A request that left is never ``unsent``, and other errors are not the agent's to raise."""
    told = {"code": "unauthenticated", "detail": "d" * 100_000, "fields": {"unsent": True}}
    with pytest.raises(TargetUnavailableError) as error:
        attacked(saying({"error": told})).check()
    assert error.value.fields == {}
    assert len(error.value.message) < 5000
    with pytest.raises(LaunchRefusedError, match="no"):
        attacked(saying({"error": {"code": "launch_refused", "detail": "no"}})).submit(LAUNCH)


GARBAGE = {
    "too long": b"\xff" * 8,
    "no JSON": frames.pack({})[:8].replace(b"\x02", b"\x05") + b"hello",
    "deep": (100_000).to_bytes(4, "big") + bytes(4) + b"[" * 100_000,
    "a list": (2).to_bytes(4, "big") + bytes(4) + b"[]",
    "not finite": (10).to_bytes(4, "big") + bytes(4) + b'{"id":NaN}',
}


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_what_is_no_frame_ends_the_connection(attacked: Attack, garbage: bytes) -> None:
    driver = attacked(lambda _request: garbage)
    with pytest.raises(TargetUnavailableError, match="was lost"):
        driver.check()


ODD: list[Any] = [
    {"id": []},
    {"id": {}},
    {"id": "0"},
    {"id": 10**30},
    {},
    {"reports": 5},
    {"reports": [5, None], "root": {}},
    {"stream": []},
    {"stream": "n1", "more": "x"},
    {"stream": {}, "open": 5},
]


@pytest.mark.parametrize("odd", ODD)
def test_what_nobody_asked_for_disturbs_nobody(attacked: Attack, odd: Any) -> None:
    right = {"nodes": [NODE], "version": "1"}
    driver = attacked(lambda request: frames.pack(odd) + saying(right)(request))
    assert driver.check().nodes[0].resources == Resources(1, 1, 0)


GREETINGS = [
    b"\xff" * 8,
    frames.pack({}),
    frames.pack({**HELLO, "protocol": "p" * 9999}),
    frames.pack({**HELLO, "python": None}),
    frames.pack({**HELLO, "pid": "x"}),
    (2).to_bytes(4, "big") + bytes(4) + b"[]",
    (2).to_bytes(4, "big") + bytes(4) + b"{x",
]


@pytest.mark.parametrize("hello", GREETINGS)
def test_a_greeting_is_one(attacked: Attack, hello: bytes) -> None:
    with pytest.raises(TargetUnavailableError) as error:
        attacked(saying({}), hello).check()
    assert len(error.value.message) < 500


def test_reports_are_not_hoarded(attacked: Attack) -> None:
    flood = frames.pack({"root": "~/.wherry-node/attempts", "reports": [{"x": "y" * (8 << 20)}]})
    right = {"nodes": [NODE], "version": "1"}
    driver = attacked(lambda request: flood * 12 + saying(right)(request))
    driver.inbox()
    driver.check()
    assert 0 < len(driver.reports()) < 12


def test_streams_are_bounded() -> None:
    said: list[Any] = []

    async def attack() -> None:
        streams = AgentStreams(lambda fields, _data: said.append(dict(fields)))
        streams.server = "127.0.0.1", 1
        for number in range(3000):
            streams.take({"stream": f"n{number}", "open": {}}, b"")
        for _ in range(3):
            streams.take({"stream": "n0"}, b"x" * WINDOW)
        streams.close()
        await asyncio.sleep(0)

    asyncio.run(attack())
    told = [each["closed"] for each in said if "closed" in each]
    assert told.count("there are too many") == 2000
    assert "more was sent than could be taken" in told
