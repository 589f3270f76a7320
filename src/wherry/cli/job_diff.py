"""``wherry job diff``: what changed in the code between two runs, or since one."""

from __future__ import annotations

import difflib
import tarfile
from typing import Any, Dict, Iterator, List, Mapping, Optional

import click

from ..core.errors import NotFoundError
from .command import Command, argument_for_run, pass_session
from .options import Existing
from .output import emit
from .session import Session
from .table import Column

_LARGEST = 1_000_000
_MARKS = {"added": "A", "removed": "D", "changed": "M"}
_STYLES = {"+": {"fg": "green"}, "-": {"fg": "red"}, "@": {"fg": "cyan"}}


@click.command(
    cls=Command,
    examples=[
        "wherry job diff 3f2a9c01 77aa01bc",
        "wherry job diff 3f2a9c01",
        "wherry job diff --files 3f2a9c01 77aa01bc",
    ],
)
@argument_for_run()
@argument_for_run("other_id", required=False, metavar="[OTHER_ID]")
@click.option("--files", "only_files", is_flag=True, help="Only which files differ.")
@click.option(
    "--source",
    type=Existing(folder=True),
    metavar="DIRECTORY",
    default=".",
    help="Without a second run: the folder to compare with.  [default: the current one]",
)
@pass_session
def diff(
    session: Session, run_id: str, other_id: Optional[str], only_files: bool, source: str
) -> None:
    """Show how the code of two runs differs, or how it has changed since a run."""
    before = _Submitted(session, run_id)
    after: Any = _Submitted(session, other_id) if other_id else _Folder(session, source)
    changes = after.changes(before)
    if session.output != "table" or session.query is not None:
        emit(session, changes)
        return
    listed = [{"mark": _MARKS[kind], "path": path} for kind in _MARKS for path in changes[kind]]
    if not listed:
        session.say("no file differs")
    elif only_files:
        emit(session, listed, [Column("", lambda row: str(row["mark"])), Column("PATH", _path)])
    else:
        for line in _texts(before, after, changes):
            session.write(session.style(line, **_STYLES.get(line[:1], {})))


class _Submitted:
    """The source folder that a run was submitted with."""

    def __init__(self, session: Session, text: str) -> None:
        self._session = session
        run = session.run(text)
        self.name = run.id
        self.snapshot_id = run.get_snapshot_id()
        if not self.snapshot_id:
            raise NotFoundError(f"run {run.id} was not submitted with a source folder")

    def changes(self, before: _Submitted) -> Dict[str, List[str]]:
        assert before.snapshot_id
        assert self.snapshot_id
        return self._session.workspace.diff_snapshots(before.snapshot_id, self.snapshot_id)

    def entries(self) -> List[Dict[str, Any]]:
        assert self.snapshot_id
        files: List[Dict[str, Any]] = self._session.workspace.show_snapshot(self.snapshot_id)[
            "files"
        ]
        return files

    def contents(self, paths: List[str]) -> Dict[str, Optional[bytes]]:
        """What is in these files; None for what is too large or no file."""
        found: Dict[str, Optional[bytes]] = {}
        path = f"/snapshots/{self.snapshot_id}/archive"
        with self._session.client.open("GET", path) as response:
            stream: Any = _Stream(response.chunks())
            archive = tarfile.open(fileobj=stream, mode="r|")  # noqa: SIM115 - reads a response
            for member in archive:
                if member.name in paths:
                    small = member.isfile() and member.size <= _LARGEST
                    file = archive.extractfile(member) if small else None
                    found[member.name] = file.read() if file is not None else None
        return found


class _Folder:
    """A folder as it is now."""

    def __init__(self, session: Session, path: str) -> None:
        from ..sdk.submission import capture

        self.name = path
        self._snapshot = capture(path, session.settings, [])

    def changes(self, before: _Submitted) -> Dict[str, List[str]]:
        from ..core.snapshots import diff as compare
        from ..core.snapshots import parse_files

        return dict(compare(parse_files(before.entries()), self._snapshot.files)._asdict())

    def contents(self, paths: List[str]) -> Dict[str, Optional[bytes]]:
        found: Dict[str, Optional[bytes]] = {}
        for path in paths:
            with open(f"{self._snapshot.directory}/{path}", "rb") as file:
                data = file.read(_LARGEST + 1)
            found[path] = data if len(data) <= _LARGEST else None
        return found


class _Stream:
    """Pieces of bytes as something to read from."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _texts(before: Any, after: Any, changes: Mapping[str, List[str]]) -> Iterator[str]:
    old = before.contents([*changes["removed"], *changes["changed"]])
    new = after.contents([*changes["added"], *changes["changed"]])
    for path in sorted({*changes["added"], *changes["removed"], *changes["changed"]}):
        names = (
            f"a/{path}" if path in old else "/dev/null",
            f"b/{path}" if path in new else "/dev/null",
        )
        lines = _lines(old.get(path, b"")), _lines(new.get(path, b""))
        if None in lines:
            yield f"Binary files {names[0]} and {names[1]} differ"
            continue
        yield from difflib.unified_diff(lines[0] or [], lines[1] or [], *names, lineterm="")


def _lines(data: Optional[bytes]) -> Optional[List[str]]:
    if data is None or b"\0" in data:
        return None
    return data.decode("utf-8", "replace").splitlines()


def _path(row: Mapping[str, str]) -> str:
    return str(row["path"])
