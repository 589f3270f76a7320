"""Runs attempts as detached processes on this machine, one folder each."""

from __future__ import annotations

import errno
import fcntl
import io
import json
import logging
import os
import platform
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.resources import Resources
from wherry.runner import tree

from . import boxes, gpus, machine, processes
from .base import Handle, Health, Launch, Node
from .nursery import Nursery, NurseryError
from .spreading import spread
from .warm import Warm

log = logging.getLogger(__name__)

_LOG_TAIL = 2000
_RESCUES = 3
_MEASURED_FOR_S = 10.0
_REFUSALS = {errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG}
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
_NO_FILE = (FileNotFoundError, NotADirectoryError, IsADirectoryError, io.UnsupportedOperation)
_KEPT_SETTINGS = {"WHERRY_CACHE", "WHERRY_HOME"}


class LocalDriver:
    """``root`` holds the attempts' folders; all instances with the same root are one driver.

    ``cpus``, ``memory_bytes`` and ``gpus`` say what the machine has instead of what was found.
    ``warm`` is what several of them in one process share.
    """

    def __init__(
        self,
        root: Path | str,
        *,
        cpus: float | None = None,
        memory_bytes: int | None = None,
        gpus: int | None = None,
        warm: Warm | None = None,
    ) -> None:
        self._root = Path(root).absolute()
        self._cpus = cpus
        self._memory_bytes = memory_bytes
        self._gpus = gpus
        self._warm = warm or Warm()
        self._measured: tuple[float, float, int] | None = None
        # Not kept on disk: what died with an earlier server says nothing against another try.
        self._rescues: Counter[str] = Counter()

    def tidy(self) -> None:
        boxes.sweep(self._root)

    def check(self) -> Health:
        self.tidy()
        devices = self._devices()
        node = Node(socket.gethostname(), self._owned(len(devices)), tuple(devices))
        return Health(nodes=(node,), version=f"{platform.system()} {platform.release()}")

    def refuse(self, resources: Resources, interpreter: str | None) -> str | None:
        if interpreter and shutil.which(interpreter) is None:
            if os.path.exists(interpreter):
                return f"{interpreter} on this machine is not an executable file"
            return f"there is no interpreter {interpreter} on this machine"
        # Asking for GPUs is slow on some machines, and most runs want none.
        owned = self._owned(len(self._devices()) if resources.gpu else 0)
        if not resources.fits(owned):
            return f"it asks for {resources}, this machine has {owned}"
        return None

    def dial(self, path: str, node: str = "") -> str:
        return path

    def render(self, launch: Launch) -> str:
        return rendered(launch, str(self._folder_of(launch.attempt_id)), "this machine")

    def knows(self, attempt_id: str) -> bool:
        """Whether something of the attempt is here, ended or not."""
        folder = self._folder_of(attempt_id)
        return _exists(folder / "spawned", folder / "started")

    def submit(self, launch: Launch) -> Handle:
        folder = self._folder_of(launch.attempt_id)
        try:
            with self._alone():
                if not self.knows(launch.attempt_id):
                    self._start(launch, folder)
        except OSError as error:
            raise TargetUnavailableError(
                f"an attempt cannot be started in {self._root}: {error}",
                hint="look for a full disk, missing permissions or too many processes",
                cause="disk_full" if error.errno in _FULL else "start",
                refused=True,
            ) from None
        return handle_of(launch.attempt_id)

    def rescue(self, launch: Launch) -> bool:
        folder = self._folder_of(launch.attempt_id)
        try:
            with self._alone():
                if _runner(folder):
                    return True
                if not _exists(folder / "started") or self._rescues[folder.name] >= _RESCUES:
                    return False
                self._rescues[folder.name] += 1
                self._start_runner(launch, folder, rescue=True)
        except OSError as error:
            raise TargetUnavailableError(f"{folder} cannot be rescued: {error}") from None
        return True

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        processes.reap()
        folders = {handle: self._folder(handle) for handle in handles}
        with self._reaching():
            _present(self._root)
            found = {handle: _look(folder) for handle, folder in folders.items()}
            lost = [handle for handle, seen in found.items() if seen.phase is Phase.GONE]
            orphans = processes.marked() if lost else {}
        for handle in lost:
            folder = folders[handle]
            if folder is not None and (orphans.get(folder.name) or boxes.running(folder)):
                found[handle] = Observation(Phase.RUNNING, detail="its runner is gone")
        return found

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        folder = self._folder(handle)
        with self._reaching():
            if folder is not None and _present(folder):
                _end(folder, force=force)

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        folder = self._folder(handle)
        with self._reaching(), suppress(*_NO_FILE):
            if folder is not None and _present(folder):
                with _open(folder / "std_log.txt") as file:
                    file.seek(max(0, offset))
                    return file.read(limit)
        return b""

    def release(self, handle: Handle) -> None:
        folder = self._folder(handle)
        if folder is None:
            return
        del self._rescues[folder.name]
        rubbish = folder.with_name(f".released-{folder.name}")
        with self._reaching():
            _remove(rubbish)  # of a release that was interrupted
            if _present(folder):
                _end_for_good(folder)
                with suppress(FileNotFoundError):
                    folder.rename(rubbish)
            _remove(rubbish)

    def is_unknown(self, attempt_id: str) -> bool:
        """Its folder comes before everything else, and stays until it is released."""
        return not self._folder_of(attempt_id).exists()

    def inbox(self) -> int:
        return self._warm.inbox.reader

    def reports(self) -> Sequence[Mapping[str, Any]]:
        return self._warm.inbox.take()

    def close(self) -> None:
        """Nothing but the nursery: attempts go on."""
        self._warm.close()

    def _devices(self) -> list[str]:
        found = gpus.usable(gpus.find(), os.environ.get("CUDA_VISIBLE_DEVICES"))
        return found if self._gpus is None else found[: self._gpus]

    def _owned(self, devices: int) -> Resources:
        now = time.monotonic()
        if self._measured is None or now - self._measured[0] > _MEASURED_FOR_S:
            self._measured = (now, machine.cpus(), machine.memory_bytes())
        _, cpus, memory = self._measured
        return Resources(
            cpu=cpus if self._cpus is None else self._cpus,
            memory_bytes=memory if self._memory_bytes is None else self._memory_bytes,
            gpu=devices,
        )

    def _start(self, launch: Launch, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            self._start_runner(launch, folder)
        except (OSError, LaunchRefusedError):
            _remove(folder)
            raise

    def _start_runner(self, launch: Launch, folder: Path, *, rescue: bool = False) -> None:
        if not self._start_warm(launch, folder, rescue=rescue):
            _note_spawned(folder, _start_cold(launch, folder, rescue=rescue))

    def _start_warm(self, launch: Launch, folder: Path, *, rescue: bool) -> bool:
        """By the nursery. Where it fails, the claim on the folder keeps a runner that it may have
        started and the one that is started instead from both going on.
        """
        if not launch.nursery:
            return False
        try:
            if self._warm.nursery is None:
                self._warm.nursery = _open_nursery(launch, folder, self._warm.inbox.writer)
            env = {**launch.env, processes.MARK: launch.attempt_id}
            pid = self._warm.nursery.start_runner(folder, env, launch.files, rescue=rescue)
        except (OSError, NurseryError) as error:
            log.warning("%s: runners are started one by one: %s", self._root, error)
            self._warm.nursery = None
            return False
        if rescue:  # one that is not the first leaves no mark of its own
            _note_spawned(folder, pid)
        return True

    def _folder(self, handle: Handle) -> Path | None:
        """The attempt's folder, or None for what is no handle of ours."""
        try:
            return self._folder_of(str(json.loads(handle)["attempt"]))
        except (ValueError, KeyError, TypeError, LaunchRefusedError):
            return None

    def _folder_of(self, attempt_id: str) -> Path:
        if not attempt_id or attempt_id.startswith(".") or set(attempt_id) & set("/\0"):
            raise LaunchRefusedError(f"{attempt_id!r} cannot be an attempt's id on this machine")
        return self._root / attempt_id

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TargetUnavailableError(f"{self._root} cannot be used: {error}") from None

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One start at a time, over all processes that share this root."""
        if not self._root.is_dir():
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
            spread(self._root)
        handle = os.open(self._root / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def handle_of(attempt_id: str) -> Handle:
    """What ``submit`` returns for it, on this machine or over SSH on another."""
    return Handle(json.dumps({"attempt": attempt_id}))


def rendered(launch: Launch, folder: str, where: str) -> str:
    """What is done to start it, as text for people."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in sorted(launch.env.items())]
    return "\n".join(
        [
            f"# attempt {launch.attempt_id} on {where}: {launch.resources}",
            f"# files {', '.join(sorted({**launch.files, **launch.program}))} in {folder}",
            " ".join([*settings, shlex.join(_filled(launch.argv, folder))]),
            "",
        ]
    )


def _look(folder: Path | None) -> Observation:
    """What cannot be read is no proof of anything."""
    try:
        present = folder is not None and _present(folder)
        return _seen(folder) if folder is not None and present else Observation(Phase.GONE)
    except OSError as error:
        return Observation(Phase.UNKNOWN, detail=f"{folder} cannot be read: {error.strerror}")


def _seen(folder: Path) -> Observation:
    alive = _runner(folder)  # before the record: what ends in between has left one
    if alive:
        started = (folder / "started").exists()
        return Observation(Phase.RUNNING if started else Phase.PENDING)
    record = _read_json(folder / "exit.json")
    if record is not None:
        return Observation(Phase.EXITED, ExitRecord.parse(record))
    if _restarted(folder):
        return Observation(Phase.GONE, detail="the machine was restarted while it ran")
    return Observation(Phase.GONE, detail=_tail(folder / "runner.log"))


def _restarted(folder: Path) -> bool:
    """Whether the machine is known to have been started again since its runner was."""
    identity = str((_read_json(folder / "started") or {}).get("identity") or "")
    boot, colon, _ = identity.partition(":")
    return bool(colon) and boot != processes.boot_id()


def _filled(argv: Sequence[str], folder: Path | str) -> list[str]:
    return [argument.replace("{dir}", str(folder)) for argument in argv]


def _open_nursery(launch: Launch, folder: Path, inbox: int) -> Nursery:
    _put_program(launch, folder)
    output = folder.parent / ".nursery.log"
    return Nursery(_filled(launch.nursery, folder), _own_environment(), output, inbox)


def _put_program(launch: Launch, folder: Path) -> None:
    for name, content in launch.program.items():
        _write(folder / name, content)


def _start_cold(launch: Launch, folder: Path, *, rescue: bool) -> int:
    for name, content in launch.files.items():
        _write(folder / name, content)
    _put_program(launch, folder)
    argv = _filled(launch.argv, folder)
    pid = _spawn([*argv, "--rescue"] if rescue else argv, launch, folder)
    processes.adopt(pid)
    return pid


def _note_spawned(folder: Path, pid: int) -> None:
    with suppress(OSError):  # a full disk must not undo a start
        facts = {"pid": pid, "identity": processes.identity(pid, ended=True)}
        _write(folder / "spawned", json.dumps(facts).encode())


def _spawn(argv: list[str], launch: Launch, folder: Path) -> int:
    """Start the runner in a session of its own, so that it outlives this process."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(folder / "runner.log"), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    program = shutil.which(argv[0])
    if program is None:
        raise LaunchRefusedError(f"there is no program {argv[0]} on this machine", node=True)
    try:
        return os.posix_spawn(
            program,
            argv,
            _environment(launch),
            file_actions=actions,
            setsid=True,
            setsigmask=(signal.SIGTERM,),
        )
    except OSError as error:
        if error.errno in _REFUSALS:
            raise LaunchRefusedError(
                f"{argv[0]} cannot be started on this machine: {error.strerror}",
                node=error.errno != errno.E2BIG,
            ) from None
        raise


def _environment(launch: Launch) -> dict[str, str]:
    return {**_own_environment(), **launch.env, processes.MARK: launch.attempt_id}


def _own_environment() -> dict[str, str]:
    """This process's, without the server's settings: one of them may hold a password."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("WHERRY_") or name in _KEPT_SETTINGS
    }


def _runner(folder: Path) -> int | None:
    """The process id of the attempt's runner while it lives and has to do with the attempt.

    One that handed it over has not any more; one that was started to rescue it has.
    """
    handed_over = (_read_json(folder / "exit.json") or {}).get("handed_over")
    for name in ("spawned",) if handed_over else ("started", "spawned"):
        facts = _read_json(folder / name) or {}
        pid, identity = facts.get("pid"), facts.get("identity")
        if isinstance(pid, int) and pid > 0 and identity and processes.identity(pid) == identity:
            return pid
    return None


def _end(folder: Path, *, force: bool) -> None:
    unstarted = _claim_unstarted(folder)
    if force:
        killed = processes.kill(folder.name, _runner(folder))
        if boxes.remove(folder) or killed:
            _leave_record(folder, signal.SIGKILL)
    elif not unstarted:
        with suppress(OSError):  # only a runner that has run others wants to see it
            _write(folder / "asked", b"")
        runner = _runner(folder)
        orphans = [] if runner else processes.marked().get(folder.name, [])
        tree.send([runner] if runner else orphans, signal.SIGTERM)


def _end_for_good(folder: Path) -> None:
    _claim_unstarted(folder)
    runner = _runner(folder)
    if runner or not (folder / "exit.json").exists():
        processes.kill(folder.name, runner)
    boxes.remove(folder)
    processes.reap()


def _claim_unstarted(folder: Path) -> bool:
    """Take the one permission to start away from a runner that has not used it yet."""
    try:
        handle = os.open(folder / "started", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except (FileExistsError, FileNotFoundError):
        return False
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps({"pid": 0}))
    _leave_record(folder, None)
    return True


def _leave_record(folder: Path, number: int | None) -> None:
    """The exit record of a canceled attempt that left none itself."""
    record = {"signal": number, "canceled": True, "ended_at": time.time()}
    temporary = folder / ".exit.json"
    with suppress(FileExistsError, FileNotFoundError):
        _write(temporary, json.dumps(record).encode())
        os.link(temporary, folder / "exit.json")  # unlike a rename, never replaces


def _present(folder: Path) -> bool:
    """Whether it is there; with our rights to it, whatever a script made of them."""
    try:
        if os.stat(folder).st_mode & 0o700 != 0o700:
            os.chmod(folder, 0o700)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _exists(*paths: Path) -> bool:
    return any(path.exists() for path in paths)


def _write(path: Path, content: bytes) -> None:
    """The manifest holds a token, so nobody else may read it."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)


def _read_json(path: Path) -> dict[str, Any] | None:
    try:
        with _open(path) as file:
            found = json.loads(file.read() or b"")
    except (*_NO_FILE, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _tail(path: Path) -> str:
    try:
        with _open(path) as file:
            return (file.read() or b"")[-_LOG_TAIL:].decode("utf-8", "replace").strip()
    except OSError:
        return ""


def _open(path: Path) -> BinaryIO:
    """Never waits for a writer, should a script have put a fifo there."""
    return os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb")


def _remove(folder: Path) -> None:
    """Also what a script made read-only, or nested deeper than Python nests calls."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        for program in (["chmod", "-R", "u+rwx"], ["rm", "-rf"]):
            subprocess.run([*program, "--", folder], check=False, stderr=subprocess.DEVNULL)
