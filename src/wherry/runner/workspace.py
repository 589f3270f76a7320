"""The command's working directory: a snapshot's tar stream, unpacked without leaving its root."""

from __future__ import annotations

import os

from .connection import NetworkError
from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Optional, Set, Tuple

_BLOCK = 512
_MAX_HEADER = 1 << 20
_FILE, _OLD_FILE, _LINK, _FOLDER = b"0", b"\0", b"2", b"5"
_PAX, _PAX_GLOBAL, _GNU_NAME, _GNU_LINK = b"x", b"g", b"L", b"K"


class SetupError(Exception):
    """The attempt cannot be started; the message is a sentence for its owner."""


class CanceledError(Exception):
    """Someone asked the attempt to end before its command was started."""


def unpack(pieces: Iterator[bytes], root: str) -> None:
    """Fill ``root`` from a tar stream. Whatever an earlier, broken try left there is removed."""
    try:
        _empty(root)
        _Unpacking(_Reader(pieces), os.fsencode(root)).run()
    except (OSError, ValueError) as error:
        raise SetupError(f"the snapshot cannot be unpacked: {error}") from None


class _Unpacking:
    """Links come last and files go only into folders made here: none is written through a link."""

    def __init__(self, reader: _Reader, root: bytes) -> None:
        self._reader = reader
        self._root = root
        self._folders: Set[bytes] = {b""}
        self._links: List[Tuple[bytes, bytes]] = []

    def run(self) -> None:
        long: Dict[str, bytes] = {}
        while True:
            header = self._reader.header()
            if header is None:
                break
            kind, size = header[156:157], _number(header[124:136])
            if kind in (_PAX, _PAX_GLOBAL, _GNU_NAME, _GNU_LINK):
                if kind != _PAX_GLOBAL:
                    long.update(_long(kind, self._reader.record(size)))
                else:
                    self._reader.record(size)
                continue
            self._entry(header, kind, int(long.get("size", size)), long)
            long = {}
        self._make_links()

    def _entry(self, header: bytes, kind: bytes, size: int, long: Dict[str, bytes]) -> None:
        name = long.get("path") or _name(header)
        path = _inside(name)
        if kind in (_FILE, _OLD_FILE):
            self._write(path, size, _number(header[100:108]) & 0o777)
        elif kind == _FOLDER:
            self._make_folder(path)
        elif kind == _LINK:
            self._links.append((path, long.get("linkpath") or _text(header[157:257])))
        else:
            raise SetupError(f"the snapshot has {_shown(name)}, which is no file, folder or link")

    def _write(self, path: bytes, size: int, mode: int) -> None:
        self._make_folder(os.path.dirname(path))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(self._at(path), flags, mode | 0o600)
        try:
            for piece in self._reader.content(size):
                view = memoryview(piece)
                while view:
                    view = view[os.write(handle, view) :]
        finally:
            os.close(handle)

    def _make_folder(self, path: bytes) -> None:
        missing = []  # not by recursion: there may be more levels than Python has
        while path not in self._folders:
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            os.mkdir(self._at(folder))
            self._folders.add(folder)

    def _make_links(self) -> None:
        for path, target in self._links:
            self._make_folder(os.path.dirname(path))
            os.symlink(target, self._at(path))
        root = os.path.realpath(self._root)
        for path, target in self._links:
            end = os.path.realpath(self._at(path))
            if os.path.isabs(target) or (end != root and not end.startswith(root + b"/")):
                raise SetupError(f"the snapshot has a link {_shown(path)} that leaves it")

    def _at(self, path: bytes) -> bytes:
        return self._root + b"/" + path if path else self._root


class _Reader:
    """Exact pieces of a byte stream; one that ends too early came over a broken connection."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = b""

    def header(self) -> Optional[bytes]:
        """The next header block, or None at the archive's end."""
        block = b"".join(self._take(_BLOCK))
        if block.count(0) == _BLOCK:
            for _ in self._pieces:
                pass  # the rest is padding, but the connection has to be read empty
            return None
        given = _number(block[148:156])
        if given != sum(block[:148]) + 8 * 32 + sum(block[156:]):
            raise SetupError("the snapshot's archive is damaged")
        return block

    def record(self, size: int) -> bytes:
        if size > _MAX_HEADER:
            raise SetupError("the snapshot's archive is damaged")
        return b"".join(self.content(size))

    def content(self, size: int) -> Iterator[bytes]:
        if size < 0:
            raise SetupError("the snapshot's archive is damaged")
        yield from self._take(size)
        for _ in self._take(-size % _BLOCK):
            pass

    def _take(self, size: int) -> Iterator[bytes]:
        while size:
            if not self._buffer:
                self._buffer = next(self._pieces, b"")
                if not self._buffer:
                    raise NetworkError("the snapshot came incomplete")
            piece, self._buffer = self._buffer[:size], self._buffer[size:]
            size -= len(piece)
            yield piece


def _long(kind: bytes, data: bytes) -> Dict[str, bytes]:
    """What a header before the header says of the entry that follows."""
    if kind == _GNU_NAME:
        return {"path": _text(data)}
    if kind == _GNU_LINK:
        return {"linkpath": _text(data)}
    found: Dict[str, bytes] = {}
    while data:
        length, _, _ = data.partition(b" ")
        if not length.isdigit() or not 0 < int(length) <= len(data):
            break
        key, _, value = data[len(length) + 1 : int(length) - 1].partition(b"=")
        found[key.decode("latin-1")] = value
        data = data[int(length) :]
    return found


def _name(header: bytes) -> bytes:
    name = _text(header[:100])
    prefix = _text(header[345:500]) if header[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _inside(name: bytes) -> bytes:
    parts = [part for part in name.split(b"/") if part not in (b"", b".")]
    if name.startswith(b"/") or b".." in parts or b"\0" in name:
        raise SetupError(f"the snapshot has a path {_shown(name)} that leaves it")
    return b"/".join(parts)


def _number(field: bytes) -> int:
    """Octal digits, or base 256 for what does not fit."""
    if field[0] & 0x80:
        return int.from_bytes(field[1:], "big")
    text = _text(field).strip()
    try:
        return int(text, 8) if text else 0
    except ValueError:
        raise SetupError("the snapshot's archive is damaged") from None


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _shown(name: bytes) -> str:
    return repr(name.decode("utf-8", "replace"))


def _empty(root: str) -> None:
    try:
        os.mkdir(root)
    except FileExistsError:
        import shutil

        shutil.rmtree(root)
        os.mkdir(root)
