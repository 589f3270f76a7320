"""What is written in one turn of the loop leaves together, and never later than that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from wherry.api.joined import Joined


class Recorded:
    """A transport that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.closing = False

    def writelines(self, pieces: Iterable[bytes]) -> None:
        self.asked.append(b"".join(pieces))

    def write_eof(self) -> None:
        self.asked.append("eof")

    def close(self) -> None:
        self.asked.append("close")
        self.closing = True

    def abort(self) -> None:
        self.asked.append("abort")
        self.closing = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return 5


def asked(act: Callable[[Joined, Recorded], object]) -> list[Any]:
    """What is asked of the transport by the end of the turn in which ``act`` is called."""

    async def turn() -> list[Any]:
        recorded = Recorded()
        act(Joined(recorded), recorded)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        return recorded.asked

    return asyncio.run(turn())


def write(*pieces: bytes) -> Callable[[Joined, Recorded], None]:
    def act(joined: Joined, _: Recorded) -> None:
        for piece in pieces:
            joined.write(piece)

    return act


def test_a_head_and_its_body_leave_together() -> None:
    assert asked(write(b"head ", b"body")) == [b"head body"]


def test_a_head_without_a_body_leaves_with_the_turn() -> None:
    assert asked(write(b"head")) == [b"head"]


def test_much_is_not_kept_back() -> None:
    def act(joined: Joined, recorded: Recorded) -> None:
        joined.write(bytes(1 << 20))
        assert recorded.asked == [bytes(1 << 20)]
        joined.write(b"more")

    assert asked(act) == [bytes(1 << 20), b"more"]


@pytest.mark.parametrize(("end", "name"), [(Joined.close, "close"), (Joined.write_eof, "eof")])
def test_what_was_written_goes_before_the_end(end: Callable[[Joined], None], name: str) -> None:
    def act(joined: Joined, _: Recorded) -> None:
        joined.write(b"last words")
        end(joined)

    assert asked(act) == [b"last words", name]


def test_what_is_broken_off_is_not_sent() -> None:
    def act(joined: Joined, _: Recorded) -> None:
        joined.write(b"never")
        joined.abort()

    assert asked(act) == ["abort"]


def test_what_is_kept_back_counts_as_not_sent() -> None:
    def act(joined: Joined, _: Recorded) -> None:
        joined.write(b"123")
        assert joined.get_write_buffer_size() == 8
        assert joined.is_closing() is False

    asked(act)


def test_nothing_is_written_to_a_client_that_left() -> None:
    def act(joined: Joined, recorded: Recorded) -> None:
        joined.write(b"too late")
        recorded.closing = True

    assert asked(act) == []
