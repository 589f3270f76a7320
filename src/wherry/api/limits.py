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

MAX_PROXIED = 500  # requests and websockets to compute instances, at once
ANSWER_S = 300  # for one of them to begin its answer

_OTHER_FILES = 300
_FILES_OF_PROXIED = 2  # behind the client's own, on the way through an agent


def connections() -> int:
    """As many as there may be, leaving room for files, the database and what is passed on."""
    files = _files()
    if files is None:
        return MAX_CONNECTIONS
    room = files - _OTHER_FILES - _FILES_OF_PROXIED * proxied()
    return max(20, min(MAX_CONNECTIONS, room))


def proxied() -> int:
    files = _files()
    return MAX_PROXIED if files is None else max(10, min(MAX_PROXIED, (files - _OTHER_FILES) // 8))


def _files() -> int | None:
    """How many the system lets this process open, if it says so."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if files == resource.RLIM_INFINITY else files
