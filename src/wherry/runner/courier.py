"""The thread that tells the server how the command fares while it runs."""

from __future__ import annotations

import _thread
import os
import time
from binascii import b2a_base64

from .folder import Folder, tell
from .light import TYPE_CHECKING
from .shipping import AwayError, RejectedError, Shipper

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Mapping, Optional, Set

LOG_NAME = "user_logs/std_log.txt"
BUILD_LOG_NAME = "azureml-logs/20_image_build_log.txt"

_SHORTEST_S = 0.05
_LONGEST_S = 0.1
_HEARTBEAT_S = 5.0
_NOTICED_S = 0.1
_SAID_S = 0.3
_AT_ONCE = 16 << 20
_SHORT = 64 << 10


class Courier:
    """Carries the log, the metrics and signs of life, and at last the exit record."""

    def __init__(
        self,
        shipper: Shipper,
        manifest: Mapping[str, Any],
        folder: Folder,
        *,
        on_cancel: Callable[[], None],
        on_done: Callable[[], None],
    ) -> None:
        self._shipper = shipper
        self._run_id = str(manifest["run_id"])
        self._attempt_id = str(manifest["attempt_id"])
        self._folder = folder
        self._on_cancel = on_cancel
        self._on_done = on_done
        self._stage = self._told_stage = "running"
        self._message = ""
        self._silent = True
        self.started = False
        self.logs: Mapping[str, str] = {}
        """Of more processes than one: names and paths."""
        self._exit: Optional[Dict[str, Any]] = None
        self._refused: Set[str] = set()
        self._beat_at = 0.0
        self._wake = _thread.allocate_lock()
        self._wake.acquire()
        self.done = not shipper.enabled

    def start(self) -> None:
        """For a command that has run for long enough to be told of."""
        if self.started:
            self._stage, self._message, self._beat_at = "running", "", 0.0
        else:
            self._start()

    def say(self, sentence: str) -> None:
        """How far the environment is that is being made."""
        self._message = sentence
        self._beat_at = min(self._beat_at, time.monotonic() + _SAID_S)
        if not self.started:
            self._stage = "preparing"
            self._start()

    def _start(self) -> None:
        if not self.done:
            self.started = True
            _thread.start_new_thread(self._run, ())

    def finalizing(self) -> None:
        """Said to the server only if it takes long enough for anyone to notice."""
        self._stage = "finalizing"
        self._beat_at = min(self._beat_at, time.monotonic() + _NOTICED_S)

    def finish(self, record: Dict[str, Any]) -> None:
        """Send what is left, then the record, then call ``on_done``."""
        self._exit = record
        if not self.started and not self.done:
            self._run()
        elif self._wake.locked():
            self._wake.release()

    def _run(self) -> None:
        try:
            self._carry()
        except (AwayError, RejectedError) as error:
            tell(f"the server is told no more: {error}")
        except Exception as error:  # noqa: BLE001  # the outermost frame of a thread
            tell(f"the courier failed: {type(error).__name__}: {error}")
        self.done = True
        self._on_done()

    def _carry(self) -> None:
        pause = _SHORTEST_S
        while True:
            record = self._exit  # read first: whatever is there afterwards was there before it
            if time.monotonic() >= self._beat_at and not (record and self._silent):
                self._report_stage()
            if record is not None and self._report_with_log(record):
                return
            before = self._shipper.sent_bytes
            left = self._ship()
            if left:
                continue
            if record is not None:
                self._report(exit=record)
                return
            moved = self._shipper.sent_bytes > before
            pause = _SHORTEST_S if moved else min(pause * 1.2, _LONGEST_S)
            self._wake.acquire(timeout=pause)

    def _report_stage(self) -> None:
        stage, message = self._stage, self._message
        if stage != self._told_stage:  # whoever follows the build has all of it before its end
            while self._ship_build_log():
                pass
        self._told_stage = stage
        self._report(stage=stage, message=message)

    def _report_with_log(self, record: Dict[str, Any]) -> bool:
        """The end of the log goes along with the record if it is short and all else is sent."""
        tail = self._shipper.log_tail(
            self._run_id, LOG_NAME, self._attempt_id, self._folder.log, _SHORT
        )
        if tail is None or LOG_NAME in self._refused:
            return False
        if self._ship_build_log() or self._ship_logs() or self._ship_spools():
            return False
        fields: Dict[str, Any] = {"exit": record}
        offset, data = tail
        if data:
            fields["log"] = {"offset": offset, "data": b2a_base64(data, newline=False).decode()}
        try:
            self._report(**fields)
        except RejectedError as error:
            if error.final:
                raise
            return False
        return True

    def _ship(self) -> int:
        """A bounded share of what is new, so that signs of life go on; what is left."""
        before = self._ship_build_log() + self._ship_logs()
        return before + self._ship_stream(LOG_NAME, self._folder.log) + self._ship_spools()

    def _ship_logs(self) -> int:
        return sum(self._ship_stream(name, path) for name, path in self.logs.items())

    def _ship_build_log(self) -> int:
        return self._ship_stream(BUILD_LOG_NAME, self._folder.build_log)

    def _ship_spools(self) -> int:
        return sum(self._ship_stream(name, path) for name, path in self._folder.spools())

    def _ship_stream(self, name: str, path: str) -> int:
        if name in self._refused:
            return 0
        try:
            if name in (LOG_NAME, BUILD_LOG_NAME) or name in self.logs:
                return self._shipper.put_log(self._run_id, name, self._attempt_id, path, _AT_ONCE)
            return self._shipper.put_spool(self._run_id, name, path, _AT_ONCE)
        except RejectedError as error:
            if error.final:
                raise
            self._refused.add(name)
            tell(f"the server takes no more of {name}: {error}")
        except OSError as error:
            self._refused.add(name)
            tell(f"{name} cannot be read: {error}")
        return 0

    def _report(self, **fields: Any) -> None:
        if self._silent:
            fields.update(host=os.uname().nodename, pid=os.getpid())
        self._silent = False
        self._beat_at = time.monotonic() + _HEARTBEAT_S
        if self._shipper.report(self._attempt_id, **fields).get("cancel"):
            self._on_cancel()
