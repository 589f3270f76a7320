"""What a server and the agent on a node say to each other: an object of JSON, and bytes with it.

Each has its length in front. The agent's answers and the server's requests look alike; ``id`` says
which belong together.
"""

from __future__ import annotations

import json
import struct
from typing import Any, Callable, Dict, Mapping, Tuple

PROTOCOL = 1
LARGEST = 1 << 30
LARGEST_ANSWER = 1 << 26

_HEAD = struct.Struct(">II")
HEAD_SIZE = _HEAD.size


class FrameError(Exception):
    """What came is no frame: the other side is another program, or out of step."""


def pack(fields: Mapping[str, Any], data: bytes = b"") -> bytes:
    text = json.dumps(fields).encode()
    return _HEAD.pack(len(text), len(data)) + text + data


def sizes(head: bytes, most: int = LARGEST) -> Tuple[int, int]:
    """How long the two parts are that follow."""
    text, data = _HEAD.unpack(head)
    if text > most or data > most:
        raise FrameError(f"a frame of more than {most >> 10} KiB is announced")
    return text, data


def parse(text: bytes) -> Dict[str, Any]:
    try:
        fields = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise FrameError("a frame is not JSON") from None
    if not isinstance(fields, dict):
        raise FrameError("a frame is not an object")
    return fields


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def read(exactly: Callable[[int], bytes]) -> Tuple[Dict[str, Any], bytes]:
    """One frame, by a function that reads so many bytes."""
    text, data = sizes(exactly(HEAD_SIZE))
    return parse(exactly(text)), exactly(data)
