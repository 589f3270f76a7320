"""Hashes files, and remembers the hashes so that an unchanged file is not read again.

The memory is one compact file for each captured tree, replaced as a whole by rename: concurrent
writers lose nothing but time, and a damaged file counts as none. SQLite took four times as long.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import heapq
import os
import stat
import sys
import time
import weakref
import zlib
from array import array
from functools import cached_property, partial
from typing import (
    IO,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

from ..core.errors import SnapshotException
from ..core.snapshots import FileEntry
from .scout import NO_MARK, identity, read_index, stat_key, write_index
from .scouting import WORTH_IT, Scouting

UNUSED_DAYS = 30
CHUNK = 2**17
TRIES = 3

_MARK_BYTES = 8
# Measured: reading one small file takes as long as writing down this many.
_WRITTEN_PER_READ = 32
_THREADS = 4
_MEMORY_BYTES = 8 * 2**20
# Not to be kept waiting, should the file have become a pipe since it was looked at.
_OPEN = os.O_RDONLY | os.O_NONBLOCK
# Another interpreter may hash or store numbers in another way; its memory is of no use then.
_MAGIC = f"wherry-hashes-3 {sys.byteorder} {hash((1, 2**40))} ".encode("ascii")
_HEAD_BYTES = len(_MAGIC) + 9
# A kernel stamps files with the time of its last tick, at most 10 ms ago.
_TICK_NS = 100_000_000
# FAT counts in steps of two seconds, others in whole ones.
_COARSE_TICK_NS = 2_000_000_000


class SnapshotChangedError(SnapshotException):
    """A file changed while it was sent."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path!r} changed while it was sent")
        self.path = path


class Reading(NamedTuple):
    """What one reading of a file gave. ``steady``: the file did not change meanwhile."""

    digest: str
    stat: os.stat_result
    read_at_ns: int
    size: int
    steady: bool

    def entry(self, path: str) -> FileEntry:
        mode = 0o755 if self.stat.st_mode & stat.S_IXUSR else 0o644
        return FileEntry(path, self.digest, self.size, mode)

    def mark(self) -> int:
        """By which the file will be known again."""
        return mark_of(self.stat, self.read_at_ns) if self.steady else NO_MARK


def mark_of(found: os.stat_result, looked_at_ns: int) -> int:
    """By which a file or folder will be known again.

    What changed just before it was looked at may change again within the same tick of the clock,
    and its stat would not show it (git calls this "racily clean"): it gets ``NO_MARK``.
    """
    newest = max(found.st_mtime_ns, found.st_ctime_ns)
    tick = _TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS
    return hash(stat_key(found)) if newest + tick < looked_at_ns else NO_MARK


class Wanted(NamedTuple):
    """A file to be read: ``name`` in ``files``, and where it lies."""

    files: Files
    name: str
    path: str
    real: str
    size: int


class Reader:
    """Reads whole files, and holds the content of those that will not stay as they are.

    What is held is in memory up to a few megabytes, then in an unnamed temporary file.
    """

    def __init__(self) -> None:
        self._stopped = False
        self._held: Dict[str, Tuple[int, int]] = {}
        self._file: Optional[IO[bytes]] = None

    def read(self, real: str) -> Reading:
        """The file in a state that it really had, unless it changes at every try; then held."""
        return self.read_steady(real) or self.hold(real)

    def read_steady(self, real: str) -> Optional[Reading]:
        for _ in range(TRIES):
            reading = self._read(real)
            if reading.steady:
                return reading
        return None

    def read_all(
        self, wanted: Sequence[Wanted]
    ) -> Iterator[Tuple[Wanted, Union[Reading, OSError]]]:
        """Read all these files, or tell why not; in no particular order.

        Two threads read large files twice as fast as one, and small ones at a third of the pace.
        """
        large = [each for each in wanted if each.size > CHUNK]
        for each in wanted:
            if each.size <= CHUNK:
                yield each, self._outcome(each, partial(self.read_steady, each.real))
        if not large:
            return
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(min(_THREADS, os.cpu_count() or 1)) as pool:
            futures = {each: pool.submit(self.read_steady, each.real) for each in large}
            try:
                for each, future in futures.items():
                    yield each, self._outcome(each, future.result)
            except BaseException:
                self._stopped = True
                for future in futures.values():
                    future.cancel()
                raise

    def hold(self, real: str) -> Reading:
        if self._file is None:
            from tempfile import SpooledTemporaryFile

            self._file = SpooledTemporaryFile(_MEMORY_BYTES)  # noqa: SIM115 - closed by finalize
            weakref.finalize(self, self._file.close)
        self._file.seek(0, os.SEEK_END)
        start = self._file.tell()
        reading = self._read(real, self._file)
        self._held[reading.digest] = (start, reading.size)
        return reading

    def content(self, real: str, entry: FileEntry) -> Optional[bytes]:
        """What the entry stands for, from the file or as held; None if it is no longer there."""
        if entry.digest in self._held:
            return b"".join(self.chunks(real, entry))
        try:
            with open(real, "rb", buffering=0) as stream:
                content = stream.read(entry.size)
        except OSError:
            return None
        return content if hashlib.sha256(content).hexdigest() == entry.digest else None

    def chunks(self, real: str, entry: FileEntry) -> Iterator[bytes]:
        """The same in pieces; the last one is kept back if the file turns out to have changed."""
        if entry.digest in self._held and self._file is not None:
            yield from _chunks(self._file, *self._held[entry.digest])
            return
        hasher, count = hashlib.sha256(), 0
        with contextlib.suppress(OSError), open(real, "rb", buffering=0) as stream:
            for chunk in _chunks(stream, 0, entry.size):
                hasher.update(chunk)
                count += len(chunk)
                if count < entry.size:
                    yield chunk
                elif hasher.hexdigest() == entry.digest:
                    yield chunk
                    return
        raise SnapshotChangedError(entry.path)

    def _outcome(
        self, wanted: Wanted, read: Callable[[], Optional[Reading]]
    ) -> Union[Reading, OSError]:
        try:
            return read() or self.hold(wanted.real)
        except OSError as error:
            return error

    def _read(self, real: str, copy: Optional[IO[bytes]] = None) -> Reading:
        file = os.open(real, _OPEN)
        try:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                raise OSError(errno.EINVAL, "it is no longer a regular file")
            now = time.time_ns()
            if before.st_size <= CHUNK and copy is None:
                content = os.read(file, before.st_size)
                size, digest = len(content), hashlib.sha256(content).hexdigest()
            else:
                size, digest = self._read_chunks(file, before.st_size, copy)
            after = os.fstat(file)
        finally:
            os.close(file)
        steady = size == before.st_size and stat_key(before) == stat_key(after)
        return Reading(digest, before, now, size, steady)

    def _read_chunks(self, file: int, size: int, copy: Optional[IO[bytes]]) -> Tuple[int, str]:
        """No more than the size it had at the start: a log that is written to has no end."""
        hasher, count = hashlib.sha256(), 0
        while count < size and not self._stopped:
            chunk = os.read(file, min(CHUNK, size - count))
            if not chunk:
                break
            hasher.update(chunk)
            count += len(chunk)
            if copy is not None:
                copy.write(chunk)
        return count, hasher.hexdigest()


def _chunks(stream: IO[bytes], start: int, size: int) -> Iterator[bytes]:
    at, end = start, start + size
    while at < end:
        stream.seek(at)
        chunk = stream.read(min(CHUNK, end - at))
        if not chunk:
            return
        at += len(chunk)
        yield chunk


class Page(NamedTuple):
    """The remembered files of one folder: name, mark and line of text of each, by name.

    A line is canonical JSON, so the size comes last in it. ``mark`` is that of the folder itself,
    if there was nothing else in it.
    """

    rules: str
    known: Dict[str, int]
    text: str
    size: int
    largest: int
    mark: int = NO_MARK

    @classmethod
    def make(
        cls,
        rules: str,
        rows: Mapping[str, Tuple[int, str]],
        sizes: Collection[int],
        mark: int = NO_MARK,
    ) -> Page:
        names = sorted(rows)
        known = {name: rows[name][0] for name in names}
        text = "\n".join([rows[name][1] for name in names])
        return cls(rules, known, text, sum(sizes), max(sizes, default=0), mark)

    def lines(self) -> Dict[str, str]:
        return dict(zip(self.known, self.text.split("\n")))

    def sizes(self) -> Dict[str, int]:
        return {name: _size_of(line) for name, line in self.lines().items()}


_EMPTY = Page("", {}, "", 0, 0)


class HashCache:
    """The pages of one tree. Never raises: without a usable file it is empty and saves nothing."""

    def __init__(self, cache_dir: str, root: str) -> None:
        self.folder = os.path.realpath(os.path.join(cache_dir, "snapshots"))
        name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
        self._file = os.path.join(self.folder, name)
        self._root = root
        self._identity, self._stored = _load_once(self._file)
        self._kept: List[str] = []
        self._new: Dict[str, Page] = {}
        self._effort = 0

    def page(self, folder: str) -> Page:
        stored = self._stored.get(folder)
        return _EMPTY if stored is None else stored.page

    def scouting(self) -> Scouting:
        """To find out, beside the walk, which pages are still right."""
        if self._stored_files() < WORTH_IT:
            return Scouting(self._root, [], [])
        where = [self._file, _HEAD_BYTES, self._root, *self._identity]
        return Scouting(self._root, list(self._stored), where)

    def keep(self, folder: str) -> None:
        """The stored page is still right."""
        self._kept.append(folder)

    def put(self, folder: str, page: Page, effort: int) -> None:
        """A new page; ``effort`` is what making it again would cost, in small files read."""
        self._new[folder] = page
        self._effort += effort

    def save(self) -> None:
        """Store the pages that were kept or put, and forget all others.

        To read a few files again next time is cheaper than to write down all the others now.
        """
        if self._effort * _WRITTEN_PER_READ < self._stored_files():
            _try(_keep_from_pruning, self._file)
            return
        pages = {folder: self._stored[folder] for folder in self._kept}
        pages.update((folder, _pack(page)) for folder, page in self._new.items())
        _try(_replace, self._file, _encode(pages))
        _try(_prune, self.folder)

    def _stored_files(self) -> int:
        return sum(stored.files() for stored in self._stored.values())


class Files:
    """The regular files of one folder in a capture, and what is remembered of them.

    ``reused``: the remembered page stands as it is. Otherwise ``rows`` holds a mark and a line of
    text for each file that has been dealt with; ``sizes`` knows also those still to be read.
    ``folder`` is the mark of the folder and the number of entries in it, as it was when listed.
    """

    def __init__(self, page_id: str, page: Page = _EMPTY) -> None:
        self.page_id = page_id
        self.page = page
        self.rules = ""
        self.reused = False
        self.folder = (NO_MARK, 0)
        self.sizes: Dict[str, int] = {}
        self._rows: Dict[str, Tuple[int, str]] = {}
        self._lines: Optional[Dict[str, str]] = None
        self._effort = 0

    def __contains__(self, name: str) -> bool:
        return name in (self.page.known if self.reused else self.sizes)

    def totals(self) -> Tuple[int, int, int]:
        """How many files, their size together, and that of the largest."""
        if self.reused:
            return len(self.page.known), self.page.size, self.page.largest
        sizes = self.sizes.values()
        return len(sizes), sum(sizes), max(sizes, default=0)

    def all_sizes(self) -> Dict[str, int]:
        return self.page.sizes() if self.reused else self.sizes

    def reuse(self, names: Iterable[str]) -> None:
        """Take these files over from the page."""
        if self._lines is None:
            self._lines = self.page.lines()
        for name in names:
            self._rows[name] = (self.page.known[name], self._lines[name])
            self.sizes[name] = _size_of(self._lines[name])

    def add(self, name: str, reading: Reading, entry: FileEntry) -> None:
        self._rows[name] = (reading.mark(), entry.canonical())
        self.sizes[name] = entry.size
        self._effort += 1 + entry.size // CHUNK

    def settle(self, cache: HashCache) -> None:
        """Every file has been read: the page is made, and remembered."""
        if self.reused:
            cache.keep(self.page_id)
            return
        effort = self._effort + (len(self._rows) if self.rules != self.page.rules else 0)
        mark, entries = self.folder
        mark = mark if entries == len(self._rows) else NO_MARK
        self.page = Page.make(self.rules, self._rows, self.sizes.values(), mark)
        if self._rows:
            cache.put(self.page_id, self.page, effort)


def largest(groups: Iterable[Files], count: int) -> List[Tuple[int, str]]:
    """The sizes and paths of the largest files."""
    likely = heapq.nlargest(count, groups, key=lambda files: files.totals()[2])
    sizes = [
        (size, files.page_id.lstrip("/") + name)
        for files in likely
        for name, size in files.all_sizes().items()
    ]
    return heapq.nlargest(count, sizes)


class _Parts(NamedTuple):
    """A page as it lies in the file."""

    rules: str
    size: int
    largest: int
    mark: int
    names: bytes
    marks: bytes
    text: bytes


class _Stored:
    """A page of the file, unpacked when it is asked for."""

    def __init__(self, parts: _Parts) -> None:
        self.parts = parts

    def files(self) -> int:
        return len(self.parts.marks) // _MARK_BYTES

    @cached_property
    def page(self) -> Page:
        rules, size, largest, mark, names, marks, text = self.parts
        known = dict(zip(names.decode("utf-8").split("/"), array("q", marks)))
        return Page(rules, known, text.decode("ascii"), size, largest, mark)


def _size_of(line: str) -> int:
    return int(line[line.rindex(":") + 1 : -1])


def _pack(page: Page) -> _Stored:
    parts = _Parts(
        page.rules,
        page.size,
        page.largest,
        page.mark,
        "/".join(page.known).encode("utf-8"),
        array("q", page.known.values()).tobytes(),
        page.text.encode("ascii"),
    )
    return _Stored(parts)


def _encode(pages: Dict[str, _Stored]) -> bytes:
    packed = {folder: stored.parts for folder, stored in pages.items()}
    index = [
        (folder, *page[:4], len(page.names), len(page.marks), len(page.text))
        for folder, page in packed.items()
    ]
    parts = [write_index(index)]
    for page in packed.values():
        parts += page[4:]
    body = b"".join(parts)
    return _MAGIC + b"%08x\n" % zlib.crc32(body) + body


# What was loaded last, and the file as it was then: a process often submits one folder again.
_loaded: Tuple[str, Tuple[int, ...], Dict[str, _Stored]] = ("", (), {})


def _load_once(file: str) -> Tuple[Tuple[int, ...], Dict[str, _Stored]]:
    global _loaded  # noqa: PLW0603 - one assignment, so that threads see all of it or nothing
    try:
        found = os.stat(file)
    except OSError:
        return (), {}
    name, known, pages = _loaded
    if (name, known) != (file, identity(found)):
        pages = _load(file)
        _loaded = (file, identity(found), pages)
    return identity(found), pages


def _load(file: str) -> Dict[str, _Stored]:
    try:
        with open(file, "rb", buffering=0) as stream:
            return _decode(stream.readall())
    except (OSError, ValueError, TypeError):
        return {}


def _decode(content: bytes) -> Dict[str, _Stored]:
    body = memoryview(content)[_HEAD_BYTES:]
    if content[:_HEAD_BYTES] != _MAGIC + b"%08x\n" % zlib.crc32(body):
        raise ValueError("damaged, or of another kind")
    index, at = read_index(content, _HEAD_BYTES)
    pages = {}
    for folder, rules, size, largest, mark, names, marks, text in index:
        ends = (at + names, at + names + marks, at + names + marks + text)
        parts = content[at : ends[0]], content[ends[0] : ends[1]], content[ends[1] : ends[2]]
        pages[folder] = _Stored(_Parts(rules, size, largest, mark, *parts))
        at = ends[2]
    return pages


def _replace(file: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
    draft = f"{file}.{os.getpid()}.{time.time_ns()}"
    try:
        with open(draft, "xb") as stream:
            stream.write(content)
        os.replace(draft, file)
    except OSError:
        _try(os.unlink, draft)
        raise


def _keep_from_pruning(file: str) -> None:
    if os.stat(file).st_mtime < time.time() - 86400:
        os.utime(file)


def _prune(folder: str) -> None:
    oldest = time.time() - UNUSED_DAYS * 86400
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                _try(os.unlink, entry.path)


def _try(action: Callable[..., object], *arguments: object) -> None:
    with contextlib.suppress(OSError):
        action(*arguments)
