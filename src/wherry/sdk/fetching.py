"""A run's files on their way from the server: whole, checked, and in as many goes as it takes."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from ..core.errors import ServerUnavailableError, WherryError
from .client import Client, Outage, quote
from .sending import LARGE, SMALL
from .transport import Response

_PATIENCE_S = 60.0
_BATCH = 4 << 20
_BATCH_FILES = 1000
_CHUNK = 1 << 20
_TRIES = 2


class Wanted(NamedTuple):
    """A stored file, and where it is to lie."""

    name: str
    size: int
    digest: str
    target: str

    @property
    def small(self) -> bool:
        return bool(self.digest) and self.size <= SMALL


def download(client: Client, place: str, file: Any) -> None:
    """Fetch into an open file; where the connection breaks, go on from there."""
    outage, tag = Outage(_PATIENCE_S), ""
    while True:
        try:
            with client.open("GET", place, headers=_from(file.tell(), tag)) as response:
                tag = response.header("ETag") or ""
                if response.status != 206:
                    file.seek(0)
                    file.truncate()
                for chunk in response.chunks():
                    file.write(chunk)
                    outage.over()
                return
        except ServerUnavailableError as failure:
            outage.bear(client.unavailable(failure))


def fetch(client: Client, place: str, path: str) -> None:
    """Fetch a file to a path: all of it, as the server has it, or nothing.

    What has arrived of a large one stays beside it, and whoever fetches it again goes on there.
    """
    for _ in range(_TRIES):
        part = _Part(os.path.dirname(os.path.abspath(path)))
        try:
            _fill(client, place, part)
            if part.is_right():
                part.become(path)
                return
            part.discard()
        finally:
            part.close()
    raise WherryError(f"the content of {path!r} did not arrive as the server has it")


def batches(wanted: Sequence[Wanted]) -> List[List[Wanted]]:
    """Small files, grouped as they can be asked for together."""
    groups: List[List[Wanted]] = []
    size = 0
    for each in wanted:
        if not groups or size + each.size > _BATCH or len(groups[-1]) >= _BATCH_FILES:
            groups.append([])
            size = 0
        groups[-1].append(each)
        size += each.size
    return groups


def fetch_batch(client: Client, run_path: str, wanted: Sequence[Wanted]) -> None:
    """Fetch small files with one request; each lies whole at its place, or not at all."""
    names = {"paths": [each.name for each in wanted]}
    outage = Outage(_PATIENCE_S)
    while True:
        try:
            with client.open("POST", f"{run_path}/files/read", json=names, retry=True) as response:
                content = memoryview(response.read())
            break
        except ServerUnavailableError as failure:
            outage.bear(client.unavailable(failure))
    start = 0
    for each in wanted:
        head = b"%s " % quote(each.name, safe="/").encode()
        line = bytes(content[start : start + len(head) + 20]).partition(b"\n")[0]
        size = int(line[len(head) :]) if line.startswith(head) else -1
        start += len(line) + 1
        _write(each, content[start : start + size])
        start += size


def _write(wanted: Wanted, content: memoryview) -> None:
    from hashlib import sha256

    part = _scratch_name(os.path.dirname(os.path.abspath(wanted.target)))
    if sha256(content).hexdigest() != wanted.digest:
        raise WherryError(
            f"{wanted.name!r} has another content than it was listed with",
            hint="it was replaced meanwhile: fetch again",
        )
    try:
        with open(part, "xb", 0) as file:
            file.write(content)
        os.replace(part, wanted.target)
    finally:
        if os.path.exists(part):
            os.unlink(part)


def _fill(client: Client, place: str, part: _Part) -> None:
    outage = Outage(_PATIENCE_S)
    while True:
        try:
            with client.open("GET", place, headers=_from(part.size, part.tag)) as response:
                if part.begin(response):
                    for chunk in response.chunks():
                        part.write(chunk)
                        outage.over()
                    return
            if part.complete:
                return
        except ServerUnavailableError as failure:
            outage.bear(client.unavailable(failure))


class _Part:
    """What has arrived of a file, with its digest so far."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = ""
        self._file: Any = None
        self._digest: Any = None
        self._lasting = False
        self._total = -1
        self.size = 0
        self.tag = ""

    def begin(self, response: Response) -> bool:
        """Whether the answer is what to go on with; not if more of it is here than it knew."""
        first = self._file is None
        if first or response.status != 206:
            self.tag = response.header("ETag") or ""
            self._total = int(response.header("Content-Length") or -1)
        if first:
            self._open()
            return not self.size
        if response.status != 206:
            self._empty()
        return True

    @property
    def complete(self) -> bool:
        return self.size == self._total

    def write(self, chunk: bytes) -> None:
        self._file.write(chunk)
        self._digest.update(chunk)
        self.size += len(chunk)

    def is_right(self) -> bool:
        return not self.tag or self.tag == f'"{self._digest.hexdigest()}"'

    def become(self, path: str) -> None:
        self._file.flush()
        os.replace(self._path, path)
        self._lasting = True

    def discard(self) -> None:
        self._lasting = False

    def close(self) -> None:
        if self._file is None:
            return
        self._file.close()
        if not self._lasting and os.path.exists(self._path):
            os.unlink(self._path)

    def _open(self) -> None:
        from hashlib import sha256

        self._digest = sha256()
        self._lasting = bool(self.tag) and self._total >= LARGE
        if not (self._lasting and self._take_up()):
            self._lasting = False
            self._path = _scratch_name(self._folder)
            self._file = open(self._path, "xb")  # noqa: SIM115
            return
        for piece in iter(lambda: self._file.read(_CHUNK), b""):
            self._digest.update(piece)
            self.size += len(piece)
        if self.size > self._total:
            self._empty()

    def _take_up(self) -> bool:
        """Whether what an earlier call left, or left nothing of, is ours alone now."""
        import fcntl

        self._path = os.path.join(self._folder, f".wherry-{self.tag.strip(chr(34))[:32]}.part")
        self._file = open(self._path, "a+b")  # noqa: SIM115
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            mine = os.path.samestat(os.fstat(self._file.fileno()), os.stat(self._path))
        except OSError:
            mine = False
        if not mine:
            self._file.close()
            return False
        self._file.seek(0)
        return True

    def _empty(self) -> None:
        from hashlib import sha256

        self._file.seek(0)
        self._file.truncate()
        self._digest, self.size = sha256(), 0


def _from(offset: int, tag: str) -> Optional[Dict[str, str]]:
    if not offset:
        return None
    asked = {"Range": f"bytes={offset}-"}
    return {**asked, "If-Range": tag} if tag else asked


def _scratch_name(folder: str) -> str:
    return os.path.join(folder, f".wherry-{os.getpid()}-{time.monotonic_ns()}")
