"""Finds the files that a run leaves and sends those that are new or changed."""

from __future__ import annotations

import _thread
import os
import stat
import time

from .folder import Folder, tell
from .light import TYPE_CHECKING
from .shipping import AwayError, ChangedError, RejectedError, Shipper, open_regular

if TYPE_CHECKING:
    from typing import Dict, Iterator, List, Set, Tuple

    Version = Tuple[int, int, int]
    Above = Tuple[Tuple[int, int], ...]
    Small = Tuple[str, str, Version, bytes]

MADE = ("outputs", "logs")
WATCHED = (*MADE, "checkpoints")
RUNNER_LOG = "system_logs/runner.log"

_EVERY_S = 2.0
_AT_MOST_EVERY_S = 10.0
_SMALL = 64 << 10
_BATCH = 1 << 20
_BATCH_FILES = 200
_TRIES = 3
_MOST_TOLD = 20
_FIRST_PAUSE_S = 2.0
_LAST_PAUSE_S = 300.0
_OUTSIDE = "it is a link to a place outside the run"


class Sweeper:
    """Sweeps now and then in a thread of its own, and once more at the end."""

    def __init__(self, outputs: Outputs) -> None:
        self._outputs = outputs
        self._stop = _thread.allocate_lock()
        self._stop.acquire()
        self._sweeping = _thread.allocate_lock()
        self._over = False
        self._trouble = ""

    def start(self) -> None:
        _thread.start_new_thread(self._run, ())

    def finish(self) -> List[str]:
        """Everything that can be sent has been sent when this returns; sentences on the rest."""
        self._stop.release()
        with self._sweeping:
            self._sweep(last=True)
            try:
                return self._outputs.warnings(self._trouble)
            except Exception:  # noqa: BLE001  # what was met while looking may be met again
                return [f"files may be missing: {self._trouble}"]

    def _run(self) -> None:
        pause = _EVERY_S
        while not self._stop.acquire(timeout=pause) and not self._over:
            began = time.monotonic()
            with self._sweeping:
                self._sweep(last=False)
            took = time.monotonic() - began
            pause = max(min(pause * 1.5, _AT_MOST_EVERY_S), took)

    def _sweep(self, *, last: bool) -> None:
        if self._over and not last:
            return
        self._trouble = ""
        try:
            self._outputs.sweep(last=last)
        except (AwayError, RejectedError) as error:
            self._over = True
            self._trouble = str(error)
            tell(f"no more files are sent: {error}")
        except Exception as error:  # noqa: BLE001  # the outermost frame of a thread
            self._trouble = f"{type(error).__name__}: {error}"
            tell(f"looking for files failed: {self._trouble}")


class Outputs:
    """``sweep`` may be called again and again; each file is sent when it differs from last time.

    A file that changes all the time is sent ever more rarely while the run goes on, since each
    time the whole of it travels; the last sweep sends whatever is not there yet. A file counts as
    sent when the server has said that it is stored.
    """

    def __init__(self, shipper: Shipper, run_id: str, folder: Folder) -> None:
        self._shipper = shipper
        self._run_id = run_id
        self._folder = folder
        self._sent: Dict[str, Version] = {}
        self._pauses: Dict[str, Tuple[float, float]] = {}
        self._told: Set[str] = set()
        self._not_kept: Dict[str, Tuple[str, str]] = {}
        self._batch: List[Small] = []
        self._batch_size = 0

    def none(self) -> bool:
        """Whether there is nothing to send, as far as one look tells."""
        places = [f"{self._folder.work}/{root}" for root in WATCHED]
        try:
            return not any(map(_listed, [*places, self._folder.files, self._folder.runner_log]))
        except OSError:
            return False

    def sent_before(self, path: str) -> None:
        """The server has this file as it is."""
        self._sent[path] = _version(os.stat(path))

    def sweep(self, *, last: bool = False) -> None:
        """Raises ``AwayError`` and a final ``RejectedError``; everything else is told."""
        for name, path, version in self._found():
            if self._sent.get(path) == version or not (last or self._due(path)):
                continue
            self._send(name, path, version)
        self._flush()
        if last:
            self._send_runner_log()

    def warnings(self, trouble: str = "") -> List[str]:
        """A sentence for each file that is there and not at the server.

        ``trouble`` is why nothing more could be sent, if so.
        """
        found = {path: why for path, why in self._not_kept.items() if os.path.lexists(path)}
        for name, path, version in self._found() if trouble else ():
            if self._sent.get(path) != version:
                found.setdefault(path, (name, trouble))
        told = [f"{name!r} is not kept: {why}" for name, why in found.values()]
        more = len(told) - _MOST_TOLD
        return [*told[:_MOST_TOLD], f"{more} more files are not kept"] if more > 0 else told

    def _send_runner_log(self) -> None:
        """What was told there, of files that could not be kept say, is for the user to see."""
        try:
            about = os.stat(self._folder.runner_log)
        except OSError:
            return
        if about.st_size:
            self._send(RUNNER_LOG, self._folder.runner_log, _version(about))
            self._flush()

    def _found(self) -> Iterator[Tuple[str, str, Version]]:
        for root in WATCHED:
            yield from self._walk(f"{self._folder.work}/{root}", root)
        yield from self._walk(self._folder.files, "")

    def _walk(self, path: str, name: str) -> Iterator[Tuple[str, str, Version]]:
        """No recursion: a script may nest folders deeper than Python nests calls."""
        if not self._ours(path):
            self._skip(name, path, _OUTSIDE)
            return
        folders: List[Tuple[str, str, Above]] = [(path, name, ())]
        while folders:
            path, name, above = folders.pop()
            below = []
            for entry, about, here in self._entries(path, name, above):
                named = f"{name}/{entry.name}" if name else entry.name
                if entry.is_symlink() and not self._ours(entry.path):
                    self._skip(named, entry.path, _OUTSIDE)
                elif stat.S_ISDIR(about.st_mode):
                    below.append((entry.path, named, here))
                elif stat.S_ISREG(about.st_mode):
                    yield named, entry.path, _version(about)
                else:
                    self._skip(named, entry.path, "it is not a regular file")
            folders += reversed(below)

    def _entries(
        self, path: str, name: str, above: Above
    ) -> Iterator[Tuple[os.DirEntry[str], os.stat_result, Above]]:
        """What lies in a folder, and the folders down to it; nothing for a link back up."""
        try:
            about = os.stat(path)
            if (about.st_dev, about.st_ino) in above:
                return
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except FileNotFoundError:
            return
        except OSError as error:
            self._skip(name, path, error.strerror or str(error))
            return
        here = (*above, (about.st_dev, about.st_ino))
        for entry in entries:
            try:
                yield entry, entry.stat(), here
            except OSError as error:
                missing = "its target is missing" if entry.is_symlink() else str(error)
                self._skip(f"{name}/{entry.name}", entry.path, missing)

    def _ours(self, path: str) -> bool:
        """Links are followed within the run's own folders only."""
        real = os.path.realpath(path)
        roots = (os.path.realpath(self._folder.work), os.path.realpath(self._folder.files))
        return any(real == root or real.startswith(root + "/") for root in roots)

    def _due(self, path: str) -> bool:
        return time.monotonic() >= self._pauses.get(path, (0.0, 0.0))[0]

    def _send(self, name: str, path: str, version: Version) -> None:
        try:
            if version[0] <= _SMALL:
                self._add(name, path, version)
            else:
                self._put(name, path)
                self._note(path, version)
        except OSError as error:
            self._skip(name, path, error.strerror or str(error))
            self._note(path, version, kept=False)
        except RejectedError as error:
            if error.final:
                raise
            self._skip(name, path, str(error))
            self._note(path, version, kept=False)

    def _note(self, path: str, version: Version, *, kept: bool = True) -> None:
        """This version of the file is not sent again."""
        _, pause = self._pauses.get(path, (0.0, _FIRST_PAUSE_S / 2))
        pause = min(pause * 2, _LAST_PAUSE_S)
        self._sent[path] = version
        self._pauses[path] = (time.monotonic() + pause, pause)
        if kept:
            self._not_kept.pop(path, None)

    def _add(self, name: str, path: str, version: Version) -> None:
        handle = open_regular(path)
        try:
            data = os.read(handle, _BATCH)
        finally:
            os.close(handle)
        if self._batch_size + len(data) > _BATCH or len(self._batch) >= _BATCH_FILES:
            self._flush()
        self._batch.append((name, path, version, data))
        self._batch_size += len(data)

    def _put(self, name: str, path: str) -> None:
        for _ in range(_TRIES):
            try:
                self._shipper.put_file(self._run_id, name, path)
            except ChangedError:
                continue
            else:
                return
        raise OSError("it kept becoming shorter while it was sent")

    def _flush(self) -> None:
        batch, self._batch, self._batch_size = self._batch, [], 0
        try:
            self._store(batch)
        except RejectedError as error:
            if error.final:
                raise
            self._one_by_one(batch)

    def _one_by_one(self, batch: List[Small]) -> None:
        """One bad name among them must not cost the others."""
        for item in batch:
            try:
                self._store([item])
            except RejectedError as error:
                if error.final:
                    raise
                name, path, version, _ = item
                self._skip(name, path, str(error))
                self._note(path, version, kept=False)

    def _store(self, batch: List[Small]) -> None:
        self._shipper.put_files(self._run_id, [(name, data) for name, _, _, data in batch])
        for _, path, version, _ in batch:
            self._note(path, version)

    def _skip(self, name: str, path: str, why: str) -> None:
        self._not_kept[path] = (name, why)
        if name not in self._told:
            self._told.add(name)
            tell(f"{name!r} is not kept: {why}")


def _listed(path: str) -> bool:
    """Whether there is something in the folder; something else in its place counts as well."""
    try:
        return bool(os.listdir(path))
    except FileNotFoundError:
        return False


def _version(about: os.stat_result) -> Version:
    return about.st_size, about.st_mtime_ns, about.st_ino
