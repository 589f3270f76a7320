"""How much of the server one client can take. docs/reference/limits.md lists them for people."""

from __future__ import annotations

import resource

MAX_CONNECTIONS = 1000
MAX_HEAD_BYTES = 64 << 10
MAX_HEADERS = 100
MAX_PIPELINED = 20

HEAD_S = 20  # for all of a request's head
BODY_S = 30  # for each BODY_BYTES of its body
BODY_BYTES = 16 << 10
READER_S = 120  # for any byte of an answer to be taken
LINGER_S = 10  # for a client to see that it was refused
IDLE_S = 75  # between requests

MAX_HELD_BYTES = 256 << 20  # of all bodies that are being received, in memory

_OTHER_FILES = 300


def connections() -> int:
    """As many as there may be, leaving room for files and the database."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    return max(20, min(MAX_CONNECTIONS, files - _OTHER_FILES))
