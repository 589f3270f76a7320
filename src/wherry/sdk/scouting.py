"""What a scout has found so far, for the walk that started it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Dict, List, Optional, Sequence, Union

from . import scout

# Below this many files, looking at all of them takes little longer than to start a scout.
WORTH_IT = 4_000
_READ = 1 << 16


class Found:
    """An entry of a folder, as ``os.DirEntry`` tells it."""

    def __init__(self, folder: str, told: bytes) -> None:
        self._kind = told[:1]
        self._folder = folder
        self.name = os.fsdecode(told[1:])

    def is_dir(self, *, follow_symlinks: bool) -> bool:
        assert not follow_symlinks
        return self._kind == scout.FOLDER

    def is_symlink(self) -> bool:
        return self._kind == scout.LINK

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        assert not follow_symlinks
        return os.lstat(f"{self._folder}/{self.name}")


Entry = Union["os.DirEntry[str]", Found]


class Scouting:
    """Use it in a ``with``: the scout ends with it. Where there can be none, it finds nothing.

    ``order`` are the folders that it numbers, ``arguments`` what it is started with, if at all.
    """

    def __init__(self, root: str, order: Sequence[str], arguments: Sequence[object]) -> None:
        self._root = root
        self._order = order
        self._arguments = [str(each) for each in arguments]
        self._pid = 0
        self._stopped = False
        self._pipe = -1
        self._rest = b""
        self._found: Dict[str, List[bytes]] = {}

    def __enter__(self) -> Scouting:
        if self._arguments and _can_start():
            with contextlib.suppress(OSError):
                self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        if self._pid:
            with contextlib.suppress(OSError):
                os.waitpid(self._pid, 0)

    def stop(self) -> None:
        """Nothing more is asked. It takes the scout a moment to be gone."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        if self._pid and not self._stopped:
            self._stopped = True
            with contextlib.suppress(OSError):
                os.kill(self._pid, signal.SIGKILL)

    def rest(self, path: str) -> Optional[List[Found]]:
        """What a folder has beside its remembered files, which are as they were.

        None where the scout has not been, or found something else.
        """
        self._hear()
        told = self._found.get(path)
        return None if told is None else [Found(f"{self._root}/{path}", each) for each in told]

    def _start(self) -> None:
        self._pipe, writer = os.pipe()
        os.set_blocking(self._pipe, False)
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, writer, 1),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ]
        command = [sys.executable, "-I", "-S", _program(), *self._arguments]
        try:
            self._pid = os.posix_spawn(sys.executable, command, {}, file_actions=actions)
        finally:
            os.close(writer)

    def _hear(self) -> None:
        while self._pipe >= 0:
            try:
                data = os.read(self._pipe, _READ)
            except BlockingIOError:
                return
            if not data:
                os.close(self._pipe)
                self._pipe = -1
            *reports, self._rest = (self._rest + data).split(scout.IN_REPORT)
            for report in reports:
                number, *told = report.split(scout.IN_FIELD)
                self._found[self._order[int(number)]] = told


def _program() -> str:
    """The scout as it was compiled, if it was and is not older: it starts a millisecond earlier."""
    source, compiled = scout.__file__, getattr(scout, "__cached__", None)
    with contextlib.suppress(OSError):
        if compiled and os.path.getmtime(compiled) >= os.path.getmtime(source):
            return str(compiled)
    return source


def _can_start() -> bool:
    """Where Python is part of another program, ``sys.executable`` is that program."""
    name = os.path.basename(sys.executable or "")
    return (os.cpu_count() or 1) > 1 and name.startswith("python")
