"""Where one frame of a websocket ends and the next begins: only there something can be added."""

from __future__ import annotations

_LONGER = {126: 2, 127: 8}
_MASKED, _MASK_BYTES = 0x80, 4

GOING_AWAY = b"\x88\x02" + (1001).to_bytes(2, "big")
"""A frame that ends a websocket, as a server does that stops."""


class Edges:
    """Of what one side says, told to it piece by piece."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0

    @property
    def between(self) -> bool:
        """Whether all that has begun is whole."""
        return not self._head and not self._left

    def feed(self, data: bytes) -> None:
        at, size = 0, len(data)
        while at < size:
            if self._left:
                step = min(self._left, size - at)
                self._left -= step
            else:
                step = min(_head_bytes(self._head) - len(self._head), size - at)
                self._head += data[at : at + step]
                if len(self._head) == _head_bytes(self._head):
                    self._left, self._head = _body_bytes(self._head), b""
            at += step


def _head_bytes(head: bytes) -> int:
    """How many it has, as far as is known by now."""
    if len(head) < 2:
        return 2
    mask = _MASK_BYTES if head[1] & _MASKED else 0
    return 2 + _LONGER.get(head[1] & ~_MASKED, 0) + mask


def _body_bytes(head: bytes) -> int:
    short = head[1] & ~_MASKED
    more = _LONGER.get(short, 0)
    return int.from_bytes(head[2 : 2 + more], "big") if more else short
