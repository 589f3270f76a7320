"""The instance's home: a folder that outlives its node. Notebooks lie at its root."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from contextlib import suppress
from typing import IO, Optional

from wherry.sdk import config_file

from . import small_file
from .contract import Contract

_PATIENCE_S = 30.0
_PREFIX = "wherry-"


class HomeError(Exception):
    """One sentence: why the home cannot be used."""


class Home:
    """The folder itself, what Wherry keeps in it, and a private place for sockets beside it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.own = os.path.join(path, ".wherry")
        self.logs = os.path.join(self.own, "logs")
        self.venv = os.path.join(self.own, "venv")
        self.jupyter = os.path.join(self.own, "jupyter")  # kernelspecs of ours
        self.rcfile = os.path.join(self.own, "bashrc")
        self.private = ""
        self._lock: Optional[IO[str]] = None

    def kernel_venv(self, name: str) -> str:
        return os.path.join(self.own, "kernels", name)

    def make(self, contract: Contract) -> None:
        try:
            for folder in (self.path, self.own, self.logs):
                os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(self.path, 0o700)
            self._lock = self._locked(os.path.join(self.own, "lock"))
            self._make_private()
        except OSError as error:
            reason = error.strerror or str(error)
            raise HomeError(f"the home {self.path} cannot be used: {reason}") from None
        if contract.workspace and not config_file.lies_in(self.path):
            fields = config_file.WorkspaceFile(contract.workspace, "", "", "")
            config_file.write(fields, self.path, None)

    def leave(self) -> None:
        """What must not outlive the session."""
        shutil.rmtree(self.private, ignore_errors=True)
        if self._lock is not None:
            self._lock.close()

    def _locked(self, path: str) -> IO[str]:
        """One session at a time: the former one may be on its way out."""
        file = open(path, "w", encoding="utf-8")  # noqa: SIM115  # held until the session ends
        until = time.monotonic() + _PATIENCE_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() < until:
                    time.sleep(0.1)
                    continue
                file.close()
                raise HomeError(f"another session still uses the home {self.path}") from None
            except OSError:
                return file  # a file system without locks
            return file

    def _make_private(self) -> None:
        """Short, as the path of a socket must be; one that was left by a kill is removed."""
        note = os.path.join(self.own, "private")
        self._remove_noted(note)
        base = "/tmp" if os.access("/tmp", os.W_OK | os.X_OK) else None  # noqa: S108
        self.private = tempfile.mkdtemp(prefix=_PREFIX, dir=base)
        with suppress(OSError):  # it is for clearing up alone
            small_file.write(note, self.private)

    def _remove_noted(self, note: str) -> None:
        try:
            with open(note, encoding="utf-8") as file:
                left = file.read()
            mine = os.stat(left).st_uid == os.getuid() and not os.path.islink(left)
        except (OSError, ValueError):
            return
        if mine and os.path.basename(left).startswith(_PREFIX):
            shutil.rmtree(left, ignore_errors=True)


def place(contract: Contract) -> str:
    """Where the home is; without a word from the server, below the person's own."""
    named = contract.home or os.path.join("~", "wherry-instances", contract.instance)
    return os.path.abspath(os.path.expanduser(named))
