"""Where a run's metrics and files go from inside its own process: to the runner beside it."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Iterable, Iterator, List, Optional, Tuple

from ..core.errors import ServerUnavailableError
from .client import Client, quote
from .connection import connect
from .sending import put_file
from .spool import Spool


class Recorder:
    """One run's spool, shared by its child runs, and the way of a file to the server."""

    def __init__(self, run_id: str, spool: Spool) -> None:
        self.run_id = run_id
        self.spool = spool

    def put_file(self, run_id: str, name: str, source: str) -> None:
        """Take a copy of the local file ``source`` as the run's file ``name``."""
        raise NotImplementedError

    def put_files(self, run_id: str, files: Iterable[Tuple[str, str]]) -> None:
        """The same for many, each given as name and source."""
        for name, source in files:
            self.put_file(run_id, name, source)

    def pending_files(self, run_id: str) -> List[str]:
        """The names of files that someone else is still to send."""
        return []

    def pending_file(self, run_id: str, name: str) -> Optional[str]:
        """Where such a file lies on this machine; None if the server must have it."""
        return None

    def flush(self, client: Client, timeout_s: float) -> None:
        """Wait until the server has every line that was written before."""
        wait_until_stored(client, self.run_id, self.spool.sizes(), timeout_s)

    def close(self, timeout_s: float = 30.0) -> None:
        self.spool.close()


class SubmittedRecorder(Recorder):
    """Inside a submitted run: the runner ships what lies in its folder."""

    def __init__(self, run_id: str, folder: str) -> None:
        super().__init__(run_id, Spool(os.path.join(folder, "spool")))
        self._files = os.path.join(folder, "files")
        self._folder = folder

    def put_file(self, run_id: str, name: str, source: str) -> None:
        if run_id != self.run_id:  # the runner knows nothing of child runs
            put_file(connect(), run_id, name, source)
            return
        import shutil

        path = os.path.join(self._files, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # The runner must never see half a file.
        part = os.path.join(self._folder, f".upload.{os.getpid()}.{time.monotonic_ns()}")
        try:
            shutil.copyfile(source, part)
            os.replace(part, path)
        finally:
            if os.path.exists(part):
                os.unlink(part)

    def pending_files(self, run_id: str) -> List[str]:
        return [name for _, name in walk(self._files)] if run_id == self.run_id else []

    def pending_file(self, run_id: str, name: str) -> Optional[str]:
        path = os.path.join(self._files, *name.split("/"))
        return path if run_id == self.run_id and os.path.isfile(path) else None


def walk(root: str) -> Iterator[Tuple[str, str]]:
    """Every file below a folder: its path, and its name relative to the folder."""
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            source = os.path.join(folder, name)
            if os.path.isfile(source):
                yield source, os.path.relpath(source, root).replace(os.sep, "/")


def scratch() -> Any:
    """A folder for the length of a ``with``."""
    import tempfile  # slow to load, and most scripts only log numbers

    return tempfile.TemporaryDirectory(prefix="wherry-")


def wait_until_stored(
    client: Client, run_id: str, wanted: Dict[str, int], timeout_s: float
) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        stored: Dict[str, int] = client.get(f"/runs/{quote(run_id)}/spool")["streams"]
        missing = _behind(wanted, stored)
        if missing is None:
            return
        if time.monotonic() > deadline:
            raise ServerUnavailableError(
                f"the metrics of run {run_id} have not all arrived within {timeout_s:g} s",
                hint="they are kept on disk and sent when the server can be reached",
            )
        time.sleep(0.05)


def _behind(wanted: Dict[str, int], stored: Dict[str, int]) -> Optional[str]:
    for name, size in wanted.items():
        if stored.get(name, 0) < size:
            return name
    return None
