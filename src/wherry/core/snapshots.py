"""Snapshots: what one captured file is, the id of a list of them, and which paths are safe."""

from __future__ import annotations

import hashlib
import re
from json.encoder import encode_basestring_ascii
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Set

from .errors import UserErrorException

MODES = (0o644, 0o755)
MAX_PART_BYTES = 255
# Linux takes 4,096 bytes for a whole path; the rest is for the folder that it is unpacked into.
MAX_PATH_BYTES = 3840

_MAX_HOPS = 40
_SHOWN_CHARS = 200
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_DRIVE = re.compile(r".:", re.DOTALL)
_FIELDS = frozenset({"path", "digest", "size", "mode", "link"})


class FileEntry(NamedTuple):
    """One file of a snapshot, or one link: then ``link`` is its target and ``digest`` is empty.

    A tuple, not a dataclass: making ten thousand is part of every submission.
    """

    path: str
    digest: str
    size: int
    mode: int = 0o644
    link: str = ""

    def to_dict(self) -> Dict[str, Any]:
        fields: Dict[str, Any] = self._asdict()
        if not self.link:
            del fields["link"]
        return fields

    def canonical(self) -> str:
        """What ``json.dumps`` writes with sorted keys, ASCII and no spaces; written by hand
        because it is several times as fast.
        """
        link = f'"link":{encode_basestring_ascii(self.link)},' if self.link else ""
        path = encode_basestring_ascii(self.path)
        return (
            f'{{"digest":"{self.digest}",{link}"mode":{self.mode},"path":{path},'
            f'"size":{self.size}}}'
        )

    def frame_header(self) -> bytes:
        """What goes before the content where contents are sent one after the other."""
        return f"{self.digest} {self.size}\n".encode("ascii")

    def framed_bytes(self) -> int:
        return len(self.frame_header()) + self.size


class Notice(NamedTuple):
    """Something that a user should know about one path of a captured directory."""

    path: str
    what: str

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.what}")


class Diff(NamedTuple):
    """The paths by which one snapshot differs from another."""

    added: List[str]
    removed: List[str]
    changed: List[str]


def printable(text: str) -> str:
    """The text with what a terminal would obey or refuse written out."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def canonical_json(files: Iterable[FileEntry]) -> str:
    """The one text that stands for this set of files, in whatever order they come."""
    return "[" + ",".join([entry.canonical() for entry in sorted(files)]) + "]"


def snapshot_id(files: Iterable[FileEntry]) -> str:
    return hashlib.sha256(canonical_json(files).encode("ascii")).hexdigest()


def diff(old: Iterable[FileEntry], new: Iterable[FileEntry]) -> Diff:
    """What must be added to, removed from and changed in ``old`` to get ``new``."""
    before = {entry.path: entry for entry in old}
    after = {entry.path: entry for entry in new}
    return Diff(
        added=sorted(after.keys() - before.keys()),
        removed=sorted(before.keys() - after.keys()),
        changed=sorted(p for p in after.keys() & before.keys() if after[p] != before[p]),
    )


def check_path(path: object) -> str:
    """The path, if it is relative and stays below the folder it is joined to on any system."""
    problem = path_problem(path)
    if problem is None:
        return str(path)
    raise UserErrorException(
        f"{_shown(path)} is not a safe path: it {problem}",
        hint="use a relative path with '/' between its parts and no '..'",
    )


def path_problem(path: object) -> Optional[str]:
    """What is wrong with the path, as the end of a sentence that begins with "it"."""
    if not isinstance(path, str):
        return "is not text"
    problem = _text_problem(path)
    if problem is not None:
        return problem
    for part in path.split("/"):
        if part in {"", ".", ".."} or ("\\" in part and ".." in part.split("\\")):
            return f"has the part {_shown(part)}"
        if len(part) > MAX_PART_BYTES // 4 and _byte_count(part) > MAX_PART_BYTES:
            return f"has a part of more than {MAX_PART_BYTES} bytes"
    return None


def check_link(path: str, target: object) -> str:
    """The target of the link at ``path``, if following it cannot leave the folder.

    ``..`` may stand only in front. Then the first steps climb real folders, the later ones go
    down, and a link met on the way has been checked by the same rule: no chain of links leads out.
    """
    problem = link_problem(path, target)
    if problem is None:
        return str(target)
    raise UserErrorException(
        f"the link {_shown(path)} to {_shown(target)} is not safe: it {problem}",
        hint="a link in a snapshot must lead to a relative path inside the snapshot",
    )


def link_problem(path: str, target: object) -> Optional[str]:
    """What is wrong with the link's target, as ``path_problem`` says it."""
    if not isinstance(target, str):
        return "is not text"
    problem = _text_problem(target)
    if problem is not None:
        return problem
    if target == ".":
        return None
    parts = target.split("/")
    climbed = 0
    while climbed < len(parts) and parts[climbed] == "..":
        climbed += 1
    if climbed > path.count("/"):
        return "leads out of the snapshot"
    below = "/".join(parts[climbed:])
    return path_problem(below) if below else None


def parse_files(items: object) -> List[FileEntry]:
    """The files that a client sent, each checked, and checked against each other."""
    if not isinstance(items, list):
        raise UserErrorException("the files of a snapshot must be a list")
    files = [_parse_entry(item) for item in items]
    paths = {entry.path for entry in files}
    if len(paths) != len(files):
        twice = _first_repeated(entry.path for entry in files)
        raise UserErrorException(f"the path {_shown(twice)} occurs twice in the snapshot")
    for folder in folders_of(paths):
        if folder in paths:
            raise UserErrorException(
                f"the path {_shown(folder)} is both a file and a folder in the snapshot"
            )
    _check_sizes(files)
    return files


def folders_of(paths: Iterable[str]) -> Set[str]:
    """Every folder that these paths imply."""
    folders: Set[str] = set()
    for path in paths:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def resolve(path: str, links: Mapping[str, str]) -> Optional[str]:
    """Where a path leads once the links on its way are followed; None if nowhere or in a circle."""
    ahead = path.split("/")[::-1]
    found: List[str] = []
    hops = 0
    while ahead:
        part = ahead.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            if not found:
                return None
            found.pop()
            continue
        found.append(part)
        target = links.get("/".join(found))
        if target is None:
            continue
        hops += 1
        if hops > _MAX_HOPS:
            return None
        found.pop()
        ahead.extend(target.split("/")[::-1])
    return "/".join(found)


def _text_problem(text: str) -> Optional[str]:
    if not text:
        return "is empty"
    if "\0" in text:
        return "contains a NUL"
    if text[0] in "/\\" or _DRIVE.match(text):
        return "is absolute"
    try:
        size = _byte_count(text)
    except UnicodeEncodeError:
        return "is not UTF-8"
    if size > MAX_PATH_BYTES:
        return f"is longer than {MAX_PATH_BYTES} bytes"
    return None


def _byte_count(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8"))


def _shown(value: object) -> str:
    text = ascii(value)
    return text if len(text) <= _SHOWN_CHARS else text[:_SHOWN_CHARS] + "..."


def _parse_entry(item: object) -> FileEntry:
    if not isinstance(item, dict):
        raise UserErrorException("each file of a snapshot must be an object with path and digest")
    path = check_path(item.get("path"))
    unknown = item.keys() - _FIELDS
    if unknown:
        raise _bad_entry(path, f"has the unknown field {_shown(min(unknown, key=str))}")
    digest, size, mode = item.get("digest"), item.get("size"), item.get("mode")
    link = item.get("link")
    if type(mode) is not int or mode not in MODES:
        raise _bad_entry(path, "must have the mode 420 (0o644) or 493 (0o755)")
    if type(size) is not int or not 0 <= size < 2**63:
        raise _bad_entry(path, "must have a size of 0 or more bytes")
    if link is not None:
        if digest != "" or size != 0:
            raise _bad_entry(path, "is a link and must have an empty digest and the size 0")
        return FileEntry(path, "", 0, mode, check_link(path, link))
    if not isinstance(digest, str) or not _DIGEST.match(digest):
        raise _bad_entry(path, "must have a digest of 64 hexadecimal digits in lower case")
    return FileEntry(path, digest, size, mode)


def _bad_entry(path: str, problem: str) -> UserErrorException:
    return UserErrorException(f"the file {_shown(path)} of the snapshot {problem}")


def _first_repeated(paths: Iterable[str]) -> str:
    seen: Set[str] = set()
    for path in paths:
        if path in seen:
            return path
        seen.add(path)
    return ""


def _check_sizes(files: Iterable[FileEntry]) -> None:
    sizes: Dict[str, int] = {}
    for entry in files:
        if not entry.link and sizes.setdefault(entry.digest, entry.size) != entry.size:
            raise _bad_entry(entry.path, "has the digest of another file but not its size")
