"""Captures a source directory, file by file, and sends the server what it lacks."""

from __future__ import annotations

import hashlib
import json
import os
import posixpath
import stat
from binascii import b2a_base64
from bisect import bisect
from dataclasses import dataclass, field
from operator import itemgetter
from typing import (
    Any,
    Callable,
    Collection,
    Dict,
    Iterable,
    Iterator,
    List,
    Optional,
    Protocol,
    Sequence,
    Set,
    Tuple,
    Union,
)
from urllib.parse import quote

from ..core.errors import ConflictError, NotFoundError, SnapshotException
from ..core.sizes import format_bytes
from ..core.snapshots import (
    FileEntry,
    Notice,
    check_path,
    folders_of,
    link_problem,
    path_problem,
    printable,
    resolve,
)
from . import settings
from .batch import Batch, Progress
from .hash_cache import (
    Files,
    HashCache,
    Reader,
    SnapshotChangedError,
    Wanted,
    largest,
    stat_key,
    unknown,
)
from .ignore import IGNORE_FILES, VENV_MARK, Ignore
from .sent_trees import SentTree

LARGE_COUNT = 2_000
LARGE_BYTES = 300_000_000
SMALL_BYTES = 2**20

_ROUNDS = 8
_OPEN_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_KINDS = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}

AnyPath = Union[str, "os.PathLike[str]"]


class Client(Protocol):
    """What an upload needs of a connection to the server. Paths are counted from the API's base."""

    def post(
        self,
        path: str,
        *,
        json: Any = None,
        data: Optional[Iterable[bytes]] = None,
        length: Optional[int] = None,
    ) -> Dict[str, Any]:
        """Send JSON, or ``length`` bytes from ``data``, which can be iterated again after a lost
        connection; an exception out of it ends the request and is let through.
        """
        ...


class Snapshot:
    """A directory as it was when it was captured.

    ``id`` is that of the content: the same files give the same id anywhere. ``notices`` says what
    was left out or is not as it seems, ``warnings`` what is unwise.
    """

    def __init__(self, walk: _Walk) -> None:
        self.directory = walk.root
        self.notices: List[Notice] = walk.notices
        self.warnings: List[str] = walk.warnings
        self.size = sum(files.totals()[1] for files in walk.groups)
        self._links = walk.links
        self._reader = walk.reader
        self._changes: Dict[str, Optional[FileEntry]] = {}
        self._files: Optional[List[FileEntry]] = None
        self._set_pieces(walk.pieces())

    @classmethod
    def capture(
        cls,
        directory: AnyPath,
        *,
        cache_dir: Optional[AnyPath] = None,
        include: Optional[Iterable[AnyPath]] = None,
        warn: Optional[Callable[[str], None]] = None,
    ) -> Snapshot:
        """Read a directory, leaving out what its ignore files and our defaults say.

        ``include`` names paths below the directory that are taken even so, such as the script to
        run. ``warn`` is told of a large directory before its files are read, when it can still be
        interrupted.

        A link to a place inside the directory stays a link. A link to a file or folder outside is
        followed and its content captured; one to a folder around the directory, or to nothing, is
        left out. Also left out are sockets, pipes and devices, what cannot be read, and names that
        are not UTF-8. A file that keeps changing is captured as it was last read. Empty folders
        are not captured.

        >>> snapshot = Snapshot.capture("src")
        >>> snapshot.upload(client, "my-workspace")
        """
        root = os.path.realpath(directory)
        if not os.path.isdir(root):
            problem = "is not a directory" if os.path.exists(root) else "does not exist"
            raise SnapshotException(
                f"the source directory {os.fspath(directory)!r} {problem}",
                hint="source_directory names the folder that holds the script",
            )
        cache = HashCache(os.fspath(cache_dir or settings.load().cache), root)
        walk = _Walk(root, cache, {_included(root, path) for path in include or ()})
        walk.gather()
        walk.warn_if_large(warn)
        walk.read()
        snapshot = cls(walk)
        cache.save()
        return snapshot

    @property
    def files(self) -> List[FileEntry]:
        if self._files is None:
            self._files = [FileEntry(**fields) for fields in json.loads(self._text)]
        return self._files

    def __contains__(self, path: object) -> bool:
        """Whether the path leads to a captured file, through captured links if need be."""
        found = resolve(path, self._links) if isinstance(path, str) else None
        return found is not None and f'"path":{json.dumps(found)},' in self._text

    def upload(self, client: Client, workspace: str, *, progress: Optional[Progress] = None) -> str:
        """Register the snapshot, send the files that the server lacks, return the id.

        Files that changed since the capture are captured anew: ``id`` and ``files`` are then those
        of what was sent. ``progress`` is called with the bytes sent and the bytes to send.
        """
        done = 0
        for _ in range(_ROUNDS):
            missing = client.post(_path(workspace), json={"files": json.loads(self._text)})[
                "missing"
            ]
            if not missing:
                return self.id
            done = self._send(client, missing, done, progress)
        raise SnapshotException(
            f"the server still lacks files of {self.directory} after {_ROUNDS} tries",
            hint="wait until the files there stop changing, or list them in .wherryignore",
        )

    def upload_changes(self, client: Client, workspace: str, base: SentTree) -> Optional[int]:
        """The same, told by how it differs from a snapshot that the server has.

        How many files differ; None where it is not worth it or the server cannot make it out.
        """
        lines, gone = base.differences(self.pieces)
        if len(lines) + len(gone) > LARGE_COUNT:
            return None
        entries = [FileEntry(**json.loads(line)) for line in lines]
        contents = self._small_contents(entries)
        if contents is None:
            return None
        fields = {
            "base": base.id,
            "id": self.id,
            "files": [entry.to_dict() for entry in entries],
            "removed": sorted(gone - {entry.path for entry in entries}),
            "contents": contents,
        }
        try:
            missing = client.post(_path(workspace), json=fields)["missing"]
        except (NotFoundError, ConflictError):
            return None
        return None if missing else len(lines) + len(gone)

    def _small_contents(self, entries: Sequence[FileEntry]) -> Optional[List[str]]:
        """What is small enough to travel along, as it does; None if a file is not what it was."""
        contents, left = [], SMALL_BYTES
        for entry in entries:
            if entry.link or entry.size > left:
                continue
            content = self._content([entry])[1]
            if content is None:
                return None
            contents.append(b2a_base64(content, newline=False).decode("ascii"))
            left -= entry.size
        return contents

    def batches(self, missing: Collection[str]) -> Iterator[Batch]:
        """The contents with these digests, framed, in requests of bounded size.

        A file that no longer holds what was captured is captured anew and not sent under its old
        digest: ``id`` has changed then, and the snapshot must be registered again.
        """
        batch = Batch(self._chunks)
        for entries in self._wanted(missing).values():
            entry, content = entries[0], None
            if Batch.is_small(entry):
                entry, content = self._content(entries)
                if content is None:
                    continue
            if not batch.has_room_for(entry):
                yield batch
                batch = Batch(self._chunks)
            batch.add(entry, content)
        if batch.count:
            yield batch
        if self._changes:
            self._apply_changes()

    def frames(self, missing: Collection[str]) -> Iterator[bytes]:
        """The batches, one after the other."""
        for batch in self.batches(missing):
            yield from batch

    def _set_pieces(self, pieces: List[str]) -> None:
        """``pieces`` are lines of canonical JSON, many to a piece."""
        self.pieces = pieces
        self._text = "[" + "\n".join(pieces).replace("\n", ",") + "]"
        self.id = hashlib.sha256(self._text.encode("ascii")).hexdigest()

    def _send(
        self, client: Client, missing: Collection[str], done: int, progress: Optional[Progress]
    ) -> int:
        wanted = self._wanted(missing).values()
        total = done + sum(entries[0].framed_bytes() for entries in wanted)
        for batch in self.batches(missing):
            if progress is not None:
                batch.watch(progress, done, total)
            try:
                client.post("/blobs", data=batch, length=batch.length)
            except SnapshotChangedError as error:
                self._capture_anew(error.path)
            else:
                done += batch.length
        return done

    def _wanted(self, missing: Collection[str]) -> Dict[str, List[FileEntry]]:
        lacking = frozenset(missing)
        wanted: Dict[str, List[FileEntry]] = {}
        for entry in self.files:
            if entry.digest in lacking:
                wanted.setdefault(entry.digest, []).append(entry)
        return wanted

    def _content(self, entries: Sequence[FileEntry]) -> Tuple[FileEntry, Optional[bytes]]:
        for entry in entries:
            content = self._reader.content(self._real(entry.path), entry)
            if content is not None:
                return entry, content
        for entry in entries:
            self._capture_anew(entry.path)
        return entries[0], None

    def _chunks(self, entry: FileEntry) -> Iterator[bytes]:
        return self._reader.chunks(self._real(entry.path), entry)

    def _capture_anew(self, path: str) -> None:
        """Take the file as it is now. One that changes again and again is held in the end."""
        real, again = self._real(path), path in self._changes
        try:
            reading = self._reader.hold(real) if again else self._reader.read(real)
        except OSError as error:
            self._changes[path] = None
            self.notices.append(Notice(path, f"left out: {_why(error)}"))
            return
        self._changes[path] = reading.entry(path)
        if not again:
            self.notices.append(Notice(path, "changed after it was captured: taken anew"))

    def _apply_changes(self) -> None:
        changes = self._changes
        files = [changes.get(entry.path, entry) for entry in self.files]
        self._files = [entry for entry in files if entry is not None]
        self.size = sum(entry.size for entry in self._files)
        self._set_pieces([entry.canonical() for entry in sorted(self._files)])

    def _real(self, path: str) -> str:
        return f"{self.directory}/{path}"


_NO_FILES = Files("")


@dataclass
class _Folder:
    """One folder of the walk.

    ``mounts`` are the real folders that this part of the walk began in, the innermost first: those
    outside to which links led, and the source directory. ``extras`` are links and subfolders, each
    with the text by which it is ordered among the files.
    """

    path: str
    real: str
    ignore: Ignore
    mounts: Sequence[Tuple[str, str]]
    brought_back: bool = False
    sparse: bool = False
    files: Files = _NO_FILES
    followed: Optional[Files] = None
    extras: List[Tuple[str, Union[str, _Folder]]] = field(default_factory=list)

    def pieces(self) -> List[Union[str, _Folder]]:
        """Its lines and subfolders in the order of their paths."""
        extras = self.extras
        if self.followed is not None:
            extras = [*extras, *self.followed.page.lines().items()]
        if not extras:
            return [self.files.page.text]
        names, lines = list(self.files.page.known), self.files.page.text.split("\n")
        pieces: List[Union[str, _Folder]] = []
        start = 0
        for place, extra in sorted(extras, key=itemgetter(0)):
            end = bisect(names, place)
            pieces += ("\n".join(lines[start:end]), extra)
            start = end
        return [*pieces, "\n".join(lines[start:])]


class _Walk:
    """One capture: gather what there is, warn, read what is not remembered, put it in order."""

    def __init__(self, root: str, cache: HashCache, forced: Set[str]) -> None:
        self.root = root
        self.reader = Reader()
        self.notices: List[Notice] = []
        self.warnings: List[str] = []
        self.links: Dict[str, str] = {}
        self.groups: List[Files] = []
        self._cache = cache
        self._folders: Dict[str, _Folder] = {}
        self._wanted: List[Wanted] = []
        self._forced = forced
        self._ways = folders_of(forced)
        self._forced_below: Dict[str, List[str]] = {}
        for path in sorted(forced | self._ways):
            self._forced_below.setdefault(path[: path.rfind("/") + 1], []).append(path)

    def gather(self) -> None:
        waiting = [_Folder("", self.root, Ignore(), [("", self.root)])]
        while waiting:
            folder = waiting.pop()
            self._scan(folder)
            waiting += [extra for _, extra in folder.extras if isinstance(extra, _Folder)]

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
                self._tell(path, f"left out: {_why(reading)}")
                continue
            if not reading.steady:
                self._tell(path, "changed while it was read: captured as it was last read")
            files.add(name, reading, reading.entry(path))
        for files in self.groups:
            files.settle(self._cache)
        for path, target in self.links.items():
            if not self._has(resolve(path, self.links)):
                self._tell(path, f"a link to {target}, which is left out")

    def pieces(self) -> List[str]:
        """The lines of all files, in order, those of a folder in one piece where they can be."""
        found: List[str] = []
        waiting: List[Union[str, _Folder]] = [self._folders[""]]
        while waiting:
            item = waiting.pop()
            if isinstance(item, _Folder):
                waiting += item.pieces()[::-1]
            elif item:
                found.append(item)
        return found

    def _scan(self, folder: _Folder) -> None:
        try:
            descriptor = os.open(folder.real, _OPEN_FOLDER)
            try:
                self._sort_out(folder, descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not folder.path:
                raise SnapshotException(
                    f"the source directory {self.root!r} cannot be read: {_why(error)}"
                ) from error
            self._tell(folder.path[:-1], f"left out: {_why(error)}")

    def _sort_out(self, folder: _Folder, descriptor: int) -> None:
        """Most files are as they were, under the rules that were: to them nothing else happens."""
        with os.scandir(descriptor) as listing:
            entries = list(listing)
        files = folder.files = self._group(folder.path)
        known = files.page.known
        rest = unknown(entries, known)
        names = {entry.name for entry in rest}
        self._read_ignore_file(folder, [n for n in IGNORE_FILES if n in known or n in names])
        files.rules = self._rules(folder)
        same_rules = files.rules == files.page.rules
        if not same_rules:
            rest, names = entries, {entry.name for entry in entries}
        is_venv = VENV_MARK in names and folder.path and not folder.brought_back
        if is_venv or folder.real == self._cache.folder:
            return
        self._folders[folder.path] = folder
        for entry in rest:
            try:
                self._take(folder, entry)
            except OSError as error:
                self._tell(folder.path + entry.name, f"left out: {_why(error)}")
        if not same_rules:
            return
        if len(entries) - len(rest) == len(known) and known and not files.sizes:
            files.reused = True
        else:
            files.reuse(known.keys() & {entry.name for entry in entries} - names)

    def _group(self, page_id: str) -> Files:
        files = Files(page_id, self._cache.page(page_id))
        self.groups.append(files)
        return files

    def _read_ignore_file(self, folder: _Folder, names: Sequence[str]) -> None:
        for name in names:
            try:
                with open(f"{folder.real}/{name}", "rb") as stream:
                    text = stream.read().decode("utf-8", "surrogateescape")
            except (FileNotFoundError, IsADirectoryError):
                continue
            except OSError as error:
                self._tell(folder.path + name, f"its rules are not followed: {_why(error)}")
                continue
            folder.ignore = folder.ignore.below(folder.path, text)
            return

    def _rules(self, folder: _Folder) -> str:
        """Stands for all that decides which names of the folder are taken."""
        forced = self._forced_below.get(folder.path)
        if forced is None and not folder.sparse:
            return folder.ignore.fingerprint
        content = ascii((folder.ignore.fingerprint, forced, folder.sparse))
        return hashlib.sha256(content.encode("ascii")).hexdigest()[:16]

    def _take(self, folder: _Folder, entry: os.DirEntry[str]) -> None:
        name = entry.name
        path = folder.path + name
        forced = path in self._forced
        on_the_way = path in self._ways
        if folder.sparse and not (forced or on_the_way):
            return
        is_dir = entry.is_dir(follow_symlinks=False)
        ignored = not forced and folder.ignore.ignores(path, name, is_dir)
        if ignored and not (is_dir and on_the_way):
            return
        problem = path_problem(path)
        if problem is not None:
            self._tell(path, f"left out: its path {problem}")
        elif is_dir:
            below = _Folder(
                f"{path}/",
                f"{folder.real}/{name}",
                folder.ignore,
                folder.mounts,
                brought_back=forced or folder.ignore.brings_back(path, name, is_dir),
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

    def _take_link(self, folder: _Folder, name: str, path: str) -> None:
        real = f"{folder.real}/{name}"
        target = os.readlink(real)
        try:
            found = os.stat(real)
        except OSError as error:
            self._tell(path, f"left out: a link to {target}, which leads nowhere ({_why(error)})")
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

    def _inside(self, folder: _Folder, path: str, target: str) -> Optional[str]:
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

    def _follow(self, folder: _Folder, name: str, path: str) -> None:
        final = os.path.realpath(f"{folder.real}/{name}")
        if any(_is_within(real, final) for _, real in folder.mounts):
            self._tell(path, f"left out: a link to {final}, a folder around the one it is in")
        elif path in self._forced or not folder.ignore.ignores(path, name, True):
            mounts = [(f"{path}/", final), *folder.mounts]
            below = _Folder(f"{path}/", final, folder.ignore, mounts)
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


def _path(workspace: str) -> str:
    return f"/workspaces/{quote(workspace, safe='')}/snapshots"


def _included(root: str, path: AnyPath) -> str:
    return check_path(os.path.relpath(os.path.join(root, os.fspath(path)), root))


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _kind(found: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(found.st_mode), "a device")


def _why(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
