"""A run's files on their way to the server: small ones together, large ones in as many goes as
it takes.
"""

from __future__ import annotations

import os
from typing import Any, Iterable, Iterator, List, Tuple

from ..core.errors import ConflictError, ServerUnavailableError, WherryError
from .client import Client, Outage, quote

LARGE = 8 << 20
SMALL = 64 << 10

_BATCH = 4 << 20
_BATCH_FILES = 1000
_CHUNK = 1 << 20
_PATIENCE_S = 600.0
_STORING_S = 600.0
_TRIES = 3


def put_file(client: Client, run_id: str, name: str, source: str) -> None:
    """Send a local file as the run's file ``name``."""
    if os.path.getsize(source) >= LARGE:
        _put_large(client, run_id, name, source)
        return
    # No length is announced: the file may grow while it is read.
    client.put(_place(run_id, name), data=lambda: _content(source))


def put_files(client: Client, run_id: str, files: Iterable[Tuple[str, str]]) -> None:
    """Send many, each given as name and source; the small ones share requests."""
    frames: List[bytes] = []
    size = 0
    for name, source in files:
        if os.path.getsize(source) > SMALL:
            put_file(client, run_id, name, source)
            continue
        frame = _frame(name, source)
        if size + len(frame) > _BATCH or len(frames) >= _BATCH_FILES:
            _put_frames(client, run_id, frames)
            frames, size = [], 0
        frames.append(frame)
        size += len(frame)
    if frames:
        _put_frames(client, run_id, frames)


def _frame(name: str, source: str) -> bytes:
    with open(source, "rb") as file:
        data = file.read()
    return b"%s %d\n%s" % (quote(name, safe="/").encode(), len(data), data)


def _put_frames(client: Client, run_id: str, frames: List[bytes]) -> None:
    body = b"".join(frames)
    client.post(f"/runs/{quote(run_id)}/files/batch", data=body, retry=True)


def _put_large(client: Client, run_id: str, name: str, source: str) -> None:
    """Whoever sends the same file again, in this process or another, goes on where it broke."""
    outage, reached, tries = Outage(_PATIENCE_S), 0, 0
    while True:
        upload = _name_of(source, tries)
        try:
            offset = int(client.get(f"/runs/{quote(run_id)}/uploads/{upload}")["size"])
            if offset > reached:
                reached = offset
                outage.over()
            stored = _put_rest(client, run_id, name, source, upload, offset)
        except ServerUnavailableError as failure:
            outage.bear(client.unavailable(failure))
        except ConflictError as failure:  # an earlier request of ours was still there
            outage.bear(ServerUnavailableError(failure.message))
        else:
            # What came with one request was checked by the network.
            if not offset or stored["digest"] == digest_of(source):
                return
            tries += 1
            if tries == _TRIES:
                raise WherryError(
                    f"the file {source!r} changes while it is sent as {name!r}",
                    hint="send it when nothing writes to it any more",
                )


def _put_rest(client: Client, run_id: str, name: str, source: str, upload: str, offset: int) -> Any:
    from json import loads

    with client.open(
        "PUT",
        _place(run_id, name),
        params={"upload": upload, "offset": offset},
        data=lambda: _content(source, offset),
        retry=False,
        timeout_s=_STORING_S,
    ) as response:
        return loads(response.read())


def digest_of(path: str) -> str:
    from hashlib import sha256  # slow to load, and most scripts only log numbers

    digest = sha256()
    for piece in _content(path):
        digest.update(piece)
    return digest.hexdigest()


def _name_of(source: str, tries: int) -> str:
    """The same for the same version of the same file."""
    from hashlib import sha256

    about = os.stat(source)
    version = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    told = (os.uname().nodename, os.path.abspath(source), version, tries)
    return sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _content(source: str, offset: int = 0) -> Iterator[bytes]:
    with open(source, "rb", 0) as file:
        file.seek(offset)
        yield from iter(lambda: file.read(_CHUNK), b"")


def _place(run_id: str, name: str) -> str:
    return f"/runs/{quote(run_id)}/files/{quote(name, safe='/')}"
