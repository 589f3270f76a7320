"""What an agent is started on and talked to through, whatever leads there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Protocol

CONNECT_S = 15.0


class RefusedError(Exception):
    """A place does not let ports be forwarded."""


class Process(Protocol):
    """The agent's input and output. What fails raises an ``OSError`` or ``EOFError``."""

    def write(self, data: bytes) -> None: ...

    async def read_exactly(self, size: int) -> bytes: ...

    async def read_line(self) -> bytes: ...

    async def read_words(self) -> bytes:
        """Some of what it says for people; empty at the end."""
        ...

    def close(self) -> None:
        """Its input ends."""
        ...

    async def wait_closed(self) -> None: ...


class Opened(Protocol):
    """A connection to a place."""

    async def start(self, command: str) -> Process:
        """A command for a shell there."""
        ...

    async def forward(self, port: int, address: str, to: int) -> int:
        """That port of the place's loopback address, or any for 0, leads to the address here.

        Raises ``RefusedError`` where the place has no such thing.
        """
        ...

    async def close(self) -> None: ...


class Place(Hashable, Protocol):
    """A machine, or what stands in for one; its text is what people call it."""

    @property
    def python(self) -> str:
        """The interpreter there, if one was named."""
        ...

    @property
    def where(self) -> Hashable:
        """The same for all who reach it, with whatever credentials."""
        ...

    @property
    def trial(self) -> str:
        """A command by which people see for themselves whether something can be started there."""
        ...


Connect = Callable[[Any], Awaitable[Opened]]
