"""The attempt's folder: what lies where, the claim to be its only runner, the exit record."""

from __future__ import annotations

import os
import sys
import time

from .light import TYPE_CHECKING, dumps, loads, suppress
from .workspace import SetupError

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

MANIFEST_VERSION = 1
_RESERVED = 16384
_NEW = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
_told_in: List[str] = []


class Folder:
    """Every path is absolute: the runner's own working directory is the command's.

    ``manifest`` is its text where it came another way than as a file.
    """

    def __init__(self, path: str, manifest: Optional[str] = None) -> None:
        self.path = os.path.abspath(path)
        self.work = f"{self.path}/work"
        self.log = f"{self.path}/std_log.txt"
        self.build_log = f"{self.path}/build_log.txt"
        self.spool = f"{self.path}/spool"
        self.files = f"{self.path}/files"
        self.runner_log = f"{self.path}/runner.log"
        self.end = f"{self.path}/end"
        self.asked = f"{self.path}/asked"
        self._begun = f"{self.path}/begun"
        self._exit = f"{self.path}/exit.json"
        self._manifest = manifest

    def claim(self, started_at: float) -> bool:
        """Whether this is the first runner of the attempt. At most one ever is."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            handle = os.open(f"{self.path}/started", flags, 0o600)
        except FileExistsError:
            return False
        facts = {
            "pid": os.getpid(),
            "started_at": started_at,
            "clock": time.monotonic(),
            "identity": _identity(),
        }
        try:
            os.write(handle, dumps(facts).encode())
        except OSError as error:
            tell(f"the file 'started' cannot be written: {error}")
        os.close(handle)
        return True

    def manifest(self) -> Dict[str, Any]:
        try:
            manifest = loads(self._manifest or self._manifest_file())
        except (OSError, ValueError) as error:
            raise SetupError(f"the manifest cannot be read: {error}") from None
        version = manifest.get("version") if isinstance(manifest, dict) else None
        if version != MANIFEST_VERSION:
            raise SetupError(f"the manifest has version {version}, this runner reads 1")
        return dict(manifest)

    def reserve(self) -> None:
        """Room for the exit record on a disk that fills."""
        try:
            handle = os.open(f"{self._exit}.tmp", _NEW, 0o600)
            try:
                os.write(handle, b" " * _RESERVED)
            finally:
                os.close(handle)
        except OSError as error:
            tell(f"there is no room for an exit record: {error}")

    def begin(self) -> None:
        """To be called just before the command is started: the proof that it may have been."""
        try:
            os.close(os.open(self._begun, _NEW, 0o600))
        except OSError as error:
            raise SetupError(f"the attempt's folder cannot be used: {error}") from None

    def began(self) -> bool:
        """Whether the command may have been started; a power cut may have cost the proof."""
        boot = self._boot()
        same_boot = boot != "" and _identity().startswith(f"{boot}:")
        return os.path.exists(self._begun) or not same_boot

    def restarted(self) -> bool:
        """Whether the machine is known to have been started again since the first runner began."""
        boot, now = self._boot(), _identity()
        return bool(boot and now) and not now.startswith(f"{boot}:")

    def _boot(self) -> str:
        return str(_read_object(f"{self.path}/started").get("identity") or "").partition(":")[0]

    def started_at(self) -> Optional[float]:
        """When the first runner began, by its own clock."""
        started_at = _read_object(f"{self.path}/started").get("started_at")
        return started_at if isinstance(started_at, (int, float)) else None

    def age_s(self) -> float:
        """How long ago the first runner began, by the clock that nobody sets."""
        clock = _read_object(f"{self.path}/started").get("clock")
        return time.monotonic() - clock if isinstance(clock, (int, float)) else 0.0

    def exit_record(self) -> Optional[Dict[str, Any]]:
        return _read_object(self._exit) or None

    def write_exit(self, record: Dict[str, Any], *, handed_over: bool = False) -> None:
        """By rename: whoever sees the record sees all of it.

        With ``handed_over`` it says besides that this process has no more to do with the attempt.
        """
        if handed_over:
            record = {**record, "handed_over": True}
        short = {**record, "error": None}  # fits into what was reserved, whatever was said last
        for form in (record, record, short):
            try:
                self._write_exit(dumps(form).encode())
            except OSError as error:
                tell(f"the exit record cannot be written: {error}")
                time.sleep(0.2)
            else:
                return

    def keep_exit(self) -> None:
        """The record survives a power cut from now on."""
        with suppress(OSError):
            handle = os.open(self._exit, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)

    def spools(self) -> List[Tuple[str, str]]:
        """Stream names and paths of what the SDK spooled."""
        try:
            names = os.listdir(self.spool)
        except OSError:
            return []
        return [(name[:-6], f"{self.spool}/{name}") for name in names if name.endswith(".jsonl")]

    def end_of_log(self, count: int, path: str = "") -> bytes:
        path = path or self.log
        try:
            with open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - count))
                return file.read(count)
        except OSError:
            return b""

    def whole_log(self, limit: int) -> Optional[bytes]:
        """All of it, unless it is longer than that."""
        try:
            with open(self.log, "rb", 0) as file:
                data = file.read(limit + 1)
        except OSError:
            return None
        return data if len(data) <= limit else None

    def _manifest_file(self) -> str:
        with open(f"{self.path}/manifest.json", "rb") as file:
            return file.read().decode()

    def _write_exit(self, data: bytes) -> None:
        handle = os.open(f"{self._exit}.tmp", _NEW, 0o600)
        try:
            if os.write(handle, data) < len(data):
                raise OSError("the disk is full")
            os.ftruncate(handle, len(data))
        finally:
            os.close(handle)
        os.rename(f"{self._exit}.tmp", self._exit)


def _read_object(path: str) -> Dict[str, Any]:
    try:
        with open(path, "rb") as file:
            found = loads(file.read().decode())
    except (OSError, ValueError):
        return {}
    return dict(found) if isinstance(found, dict) else {}


def tell_in(path: str) -> None:
    """Have what is told in that file, made when there is something to tell, not on stderr."""
    _told_in[:] = [path]


def tell(sentence: str) -> None:
    """A line in the runner's own log; a full disk is no reason to stop."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {sentence}\n"
    with suppress(OSError):
        if _told_in:
            os.dup2(os.open(_told_in.pop(), _NEW | os.O_APPEND, 0o600), 2)
        os.write(2, line.encode("utf-8", "replace"))


def _identity() -> str:
    """This process for ever: the boot and the tick it began in. Empty where there is no /proc."""
    if sys.platform != "linux":
        return ""
    try:
        with open("/proc/self/stat", "rb") as file:
            ticks = file.read().rpartition(b")")[2].split()[19]
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            return f"{file.read().decode().strip()}:{ticks.decode()}"
    except (OSError, IndexError):
        return ""
