"""One walk through a source directory: what there is, what is left out, in the order of paths."""

from __future__ import annotations

import gc
import hashlib
import os
import posixpath
import stat
import time
from bisect import bisect
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from operator import itemgetter
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Sequence, Set, Tuple, Union

from ..core.errors import SnapshotException
from ..core.sizes import format_bytes
from ..core.snapshots import (
    FileEntry,
    Notice,
    folders_of,
    link_problem,
    path_problem,
    printable,
    resolve,
)
from .hash_cache import Files, HashCache, Reader, Wanted, largest, mark_of
from .ignore import IGNORE_FILES, VENV_MARK, Ignore
from .mounts import trusted_device
from .scout import OPEN_FOLDER, stat_key, unknown, untouched
from .scouting import Entry, Found, Scouting

LARGE_COUNT = 2_000
LARGE_BYTES = 300_000_000

_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}

_NO_FILES = Files("")


@dataclass
class Folder:
    """One folder of the walk.

    ``mounts`` are the real folders that this part of the walk began in, the innermost first: those
    outside to which links led, and the source directory. ``extras`` are links and subfolders, each
    with the text by which it is ordered among the files.
    """

    path: str
    real: str
    ignore: Ignore
    mounts: Sequence[Tuple[str, str]]
    above: Optional[Ignore] = None
    forced: bool = False
    sparse: bool = False
    files: Files = _NO_FILES
    followed: Optional[Files] = None
    extras: List[Tuple[str, Union[str, Folder]]] = field(default_factory=list)

    def is_brought_back(self) -> bool:
        """Whether it is wanted even though our defaults leave it out."""
        path = self.path[:-1]
        name = path.rpartition("/")[2]
        return self.forced or (
            self.above is not None and self.above.brings_back(path, name, is_dir=True)
        )

    def pieces(self) -> List[Union[str, Folder]]:
        """Its lines and subfolders in the order of their paths."""
        extras = self.extras
        if self.followed is not None:
            extras = [*extras, *self.followed.page.lines().items()]
        if not extras:
            return [self.files.page.text]
        names, lines = list(self.files.page.known), self.files.page.text.split("\n")
        pieces: List[Union[str, Folder]] = []
        start = 0
        for place, extra in sorted(extras, key=itemgetter(0)):
            end = bisect(names, place)
            pieces += ("\n".join(lines[start:end]), extra)
            start = end
        return [*pieces, "\n".join(lines[start:])]


class Walk:
    """One capture: gather what there is, warn, read what is not remembered, put it in order."""

    def __init__(self, root: str, cache: HashCache, forced: Set[str]) -> None:
        self.root = root
        self.reader = Reader()
        self.notices: List[Notice] = []
        self.warnings: List[str] = []
        self.links: Dict[str, str] = {}
        self.groups: List[Files] = []
        self._cache = cache
        self._trusted_device = trusted_device(root)
        self._folders: Dict[str, Folder] = {}
        self._wanted: List[Wanted] = []
        self._forced = forced
        self._ways = folders_of(forced)
        self._forced_below: Dict[str, List[str]] = {}
        for path in sorted(forced | self._ways):
            self._forced_below.setdefault(path[: path.rfind("/") + 1], []).append(path)

    def gather(self, scouting: Scouting) -> None:
        waiting = [Folder("", self.root, Ignore(), [("", self.root)])]
        with _no_collections():
            while waiting:
                folder = waiting.pop()
                self._scan(folder, scouting)
                waiting += [extra for _, extra in folder.extras if isinstance(extra, Folder)]
        scouting.stop()

    def warn_if_large(self, warn: Optional[Callable[[str], None]]) -> None:
        totals = [files.totals() for files in self.groups]
        count, size = sum(each[0] for each in totals), sum(each[1] for each in totals)
        if count <= LARGE_COUNT and size <= LARGE_BYTES:
            return
        top = [f"{path} ({format_bytes(each)})" for each, path in largest(self.groups, 5)]
        warning = printable(
            f"{self.root} is large: {count:,} files, {format_bytes(size)}; the largest are "
            f"{', '.join(top)}; list what the run does not need in .amlignore or .wherryignore"
        )
        self.warnings.append(warning)
        if warn is not None:
            warn(warning)

    def read(self) -> None:
        for (files, name, path, *_), reading in self.reader.read_all(self._wanted):
            if isinstance(reading, OSError):
                del files.sizes[name]
                self._tell(path, f"left out: {why(reading)}")
                continue
            if not reading.steady:
                self._tell(path, "changed while it was read: captured as it was last read")
            files.add(name, reading, reading.entry(path))
        for files in self.groups:
            files.settle(self._cache)
        for path, target in self.links.items():
            if not self._has(resolve(path, self.links)):
                self._tell(path, f"a link to {target}, which is left out")

    @property
    def read_paths(self) -> List[str]:
        return [wanted.path for wanted in self._wanted]

    def pieces(self) -> List[str]:
        """The lines of all files, in order, those of a folder in one piece where they can be."""
        found: List[str] = []
        waiting: List[Union[str, Folder]] = [self._folders[""]]
        while waiting:
            item = waiting.pop()
            if isinstance(item, Folder):
                waiting += item.pieces()[::-1]
            elif item:
                found.append(item)
        return found

    def _scan(self, folder: Folder, scouting: Scouting) -> None:
        if folder.real == self.root + f"/{folder.path}"[:-1]:
            rest = scouting.rest(folder.path)
            if rest is not None and self._take_over(folder, rest):
                return
        try:
            descriptor = os.open(folder.real, OPEN_FOLDER)
            try:
                page = self._cache.page(folder.path)
                as_it_was = untouched(descriptor, page.mark, page.known)
                if not (as_it_was and self._take_over(folder, [])):
                    self._sort_out(folder, descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not folder.path:
                raise SnapshotException(
                    f"the source directory {self.root!r} cannot be read: {why(error)}"
                ) from error
            self._tell(folder.path[:-1], f"left out: {why(error)}")

    def _take_over(self, folder: Folder, rest: Sequence[Found]) -> bool:
        """The remembered files as they are, and the rest; False under other rules than theirs."""
        files, above = Files(folder.path, self._cache.page(folder.path)), folder.ignore
        known, names = files.page.known, {entry.name for entry in rest}
        self._read_ignore_file(folder, [n for n in IGNORE_FILES if n in known or n in names])
        files.rules = self._rules(folder)
        if files.rules != files.page.rules:
            folder.ignore = above
            return False
        folder.files = files
        self.groups.append(files)
        if self._take_all(folder, rest, names):
            _reuse(files, known, len(known))
        return True

    def _sort_out(self, folder: Folder, descriptor: int) -> None:
        """Most files are as they were, under the rules that were: to them nothing else happens."""
        now, found = time.time_ns(), os.fstat(descriptor)
        with os.scandir(descriptor) as listing:
            entries = list(listing)
        files = folder.files = self._group(folder.path)
        if found.st_dev == self._trusted_device:
            files.folder = mark_of(found, now), len(entries)
        known = files.page.known
        rest = unknown(entries, known)
        names = {entry.name for entry in rest}
        self._read_ignore_file(folder, [n for n in IGNORE_FILES if n in known or n in names])
        files.rules = self._rules(folder)
        same_rules = files.rules == files.page.rules
        if not same_rules:
            rest, names = entries, {entry.name for entry in entries}
        if self._take_all(folder, rest, names) and same_rules:
            same = (entry.name for entry in entries if entry.name not in names)
            _reuse(files, same, len(entries) - len(rest))

    def _take_all(self, folder: Folder, rest: Sequence[Entry], names: Set[str]) -> bool:
        """What is not remembered; False if the folder itself is left out."""
        is_venv = VENV_MARK in names and folder.path and not folder.is_brought_back()
        if is_venv or folder.real == self._cache.folder:
            return False
        self._folders[folder.path] = folder
        for entry in rest:
            try:
                self._take(folder, entry)
            except OSError as error:
                self._tell(folder.path + entry.name, f"left out: {why(error)}")
        return True

    def _group(self, page_id: str) -> Files:
        files = Files(page_id, self._cache.page(page_id))
        self.groups.append(files)
        return files

    def _read_ignore_file(self, folder: Folder, names: Sequence[str]) -> None:
        for name in names:
            try:
                with open(f"{folder.real}/{name}", "rb") as stream:
                    text = stream.read().decode("utf-8", "surrogateescape")
            except (FileNotFoundError, IsADirectoryError):
                continue
            except OSError as error:
                self._tell(folder.path + name, f"its rules are not followed: {why(error)}")
                continue
            folder.ignore = folder.ignore.below(folder.path, text)
            return

    def _rules(self, folder: Folder) -> str:
        """Stands for all that decides which names of the folder are taken."""
        forced = self._forced_below.get(folder.path)
        if forced is None and not folder.sparse:
            return folder.ignore.fingerprint
        content = ascii((folder.ignore.fingerprint, forced, folder.sparse))
        return hashlib.sha256(content.encode("ascii")).hexdigest()[:16]

    def _take(self, folder: Folder, entry: Entry) -> None:
        name = entry.name
        path = folder.path + name
        forced = path in self._forced
        on_the_way = path in self._ways
        if folder.sparse and not (forced or on_the_way):
            return
        is_dir = entry.is_dir(follow_symlinks=False)
        judge = _judge_folder if is_dir else _judge_file
        ignored, problem = judge(folder.ignore, path, name)
        ignored = ignored and not forced
        if ignored and not (is_dir and on_the_way):
            return
        if problem is not None:
            self._tell(path, f"left out: its path {problem}")
        elif is_dir:
            below = Folder(
                f"{path}/",
                f"{folder.real}/{name}",
                folder.ignore,
                folder.mounts,
                above=folder.ignore,
                forced=forced,
                sparse=ignored or (folder.sparse and not forced),
            )
            folder.extras.append((f"{name}/", below))
        elif entry.is_symlink():
            self._take_link(folder, name, path)
        else:
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(found.st_mode):
                self._add(folder.files, name, path, f"{folder.real}/{name}", found)
            else:
                self._tell(path, f"left out: {_kind(found)}")

    def _add(self, files: Files, name: str, path: str, real: str, found: os.stat_result) -> None:
        files.sizes[name] = found.st_size
        if files.page.known.get(name) == hash(stat_key(found)):
            files.reuse([name])
        else:
            self._wanted.append(Wanted(files, name, path, real, found.st_size))

    def _take_link(self, folder: Folder, name: str, path: str) -> None:
        real = f"{folder.real}/{name}"
        target = os.readlink(real)
        try:
            found = os.stat(real)
        except OSError as error:
            self._tell(path, f"left out: a link to {target}, which leads nowhere ({why(error)})")
            return
        inside = self._inside(folder, path, target)
        if inside is not None:
            self.links[path] = inside
            folder.extras.append((name, FileEntry(path, "", 0, 0o644, inside).canonical()))
        elif stat.S_ISREG(found.st_mode):
            if folder.followed is None:
                folder.followed = self._group(f"/{folder.path}")
            self._add(folder.followed, name, path, real, found)
        elif stat.S_ISDIR(found.st_mode):
            self._follow(folder, name, path)
        else:
            self._tell(path, f"left out: a link to {target}, {_kind(found)}")

    def _inside(self, folder: Folder, path: str, target: str) -> Optional[str]:
        """The link's target from the link's folder, if it is in the snapshot or below it."""
        start = folder.mounts[0][0]
        if link_problem(path[len(start) :], target) is None:
            return target
        final = os.path.realpath(f"{folder.real}/{path[len(folder.path) :]}")
        for start, real in folder.mounts:
            if _is_within(final, real):
                there = start + final[len(real) :].lstrip("/")
                target = posixpath.relpath(f"/{there}", posixpath.dirname(f"/{path}"))
                return target if link_problem(path, target) is None else None
        return None

    def _follow(self, folder: Folder, name: str, path: str) -> None:
        final = os.path.realpath(f"{folder.real}/{name}")
        if any(_is_within(real, final) for _, real in folder.mounts):
            self._tell(path, f"left out: a link to {final}, a folder around the one it is in")
        elif path in self._forced or not folder.ignore.ignores(path, name, True):
            mounts = [(f"{path}/", final), *folder.mounts]
            below = Folder(f"{path}/", final, folder.ignore, mounts)
            folder.extras.append((f"{name}/", below))

    def _has(self, path: Optional[str]) -> bool:
        if not path:
            return path is not None
        start, _, name = path.rpartition("/")
        folder = self._folders.get(f"{start}/" if start else "")
        if folder is None or f"{path}/" in self._folders:
            return folder is not None
        return name in folder.files or (folder.followed is not None and name in folder.followed)

    def _tell(self, path: str, what: str) -> None:
        self.notices.append(Notice(path, what))


@contextmanager
def _no_collections() -> Iterator[None]:
    """Looking for garbage, of which there is none, would be an eighth of the work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _judge_file(ignore: Ignore, path: str, name: str) -> Tuple[bool, Optional[str]]:
    """Whether it is left out by rules; if not, what is wrong with its path."""
    ignored = ignore.ignores(path, name, False)
    return ignored, None if ignored else path_problem(path)


@lru_cache(maxsize=10_000)
def _judge_folder(ignore: Ignore, path: str, name: str) -> Tuple[bool, Optional[str]]:
    """The same; remembered, for a process often submits one folder again."""
    return ignore.ignores(path, name, True), path_problem(path)


def _reuse(files: Files, names: Iterable[str], count: int) -> None:
    """Take over these of the remembered files; the page as it is, where that is all there is."""
    if count and count == len(files.page.known) and not files.sizes:
        files.reused = True
    else:
        files.reuse(names)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "a device")


def why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
