"""Metrics of runs that a client drives: spooled to a folder of its own, shipped by a thread."""

from __future__ import annotations

import atexit
import builtins
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from ..core.errors import (
    NotFoundError,
    ServerUnavailableError,
    UserErrorException,
    WherryError,
)
from ..core.ids import new_uuid
from ..runner.shipping import AwayError, RejectedError, Shipper
from .client import Client, quote
from .console import say
from .recorder import Recorder, wait_until_stored
from .sending import put_file, put_files
from .spool import ENDING, Spool

HEARTBEAT_S = 20.0
EXIT_PATIENCE_S = 15.0
_BUSY_S, _IDLE_S = 0.1, 1.0
_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


class ClientRecorder(Recorder):
    """Ships in the background for as long as the process lives.

    The files of forked children lie in the same folder and are shipped by the process that
    forked them. Runs that this process drives are kept from being given up.
    """

    def __init__(self, client: Client, run_id: str) -> None:
        self._folder = _new_folder()
        super().__init__(run_id, Spool(self._folder))
        self._client = client
        self.pid = os.getpid()
        self._stream = f"client-{os.urandom(4).hex()}"
        self._shipper = Shipper(
            client.url, client.token, client.server_file or None, server_id=client.server_id
        )
        self._shipped: Dict[str, int] = {}
        self._progress = threading.Condition()
        self._wanted = threading.Event()
        self._ended = False
        self.refusal = ""
        self._thread = threading.Thread(target=self._run, name=f"wherry {run_id}", daemon=True)
        self._thread.start()
        _recorders.append(self)

    def put_file(self, run_id: str, name: str, source: str) -> None:
        put_file(self._client, run_id, name, source)

    def put_files(self, run_id: str, files: Iterable[Tuple[str, str]]) -> None:
        put_files(self._client, run_id, files)

    def flush(self, client: Client, timeout_s: float) -> None:
        if self.pid != os.getpid():  # a forked child: its parent ships
            written = {self._stream_of(name): size for name, size in self.spool.sizes().items()}
            wait_until_stored(client, self.run_id, written, timeout_s)
            return
        if not self.drained(timeout_s):
            raise WherryError(
                f"the metrics of run {self.run_id} were not sent: "
                + (self.refusal or f"the server did not take them within {timeout_s:g} s"),
                hint=f"they are kept in {self._folder}",
            )

    def close(self, timeout_s: float = EXIT_PATIENCE_S) -> None:
        """Send the rest and end the thread. What cannot be sent stays on disk and is told."""
        if self._ended or self.pid != os.getpid():
            return
        sent = self.drained(timeout_s)
        self._ended = True
        self._wanted.set()
        self._shipper.hurry()
        self._thread.join(5.0)
        self.spool.close()
        if self in _recorders:
            _recorders.remove(self)
        if sent:
            _remove(self._folder)
        else:
            reason = self.refusal or "the server did not answer"
            say(
                f"warning: metrics of run {self.run_id} were not sent ({reason}); "
                f"they are kept in {self._folder}"
            )

    def drained(self, timeout_s: float) -> bool:
        """Whether the server has every line, within this time."""
        wanted = self.spool.sizes()
        deadline = time.monotonic() + timeout_s
        with self._progress:
            while any(self._shipped.get(name, 0) < size for name, size in wanted.items()):
                left = deadline - time.monotonic()
                if left <= 0 or self.refusal or not self._thread.is_alive():
                    return False
                self._wanted.set()
                self._progress.wait(min(left, 0.5))
        return True

    def _run(self) -> None:
        pause, beat_at = _BUSY_S, time.monotonic() + HEARTBEAT_S
        try:
            while not self._ended:
                self._wanted.clear()
                busy = self._ship()
                if time.monotonic() > beat_at:
                    beat_at = time.monotonic() + HEARTBEAT_S
                    self._beat()
                pause = _BUSY_S if busy else min(_IDLE_S, pause * 1.5)
                self._wanted.wait(pause)
        except AwayError:
            pass  # the process ends and will not wait
        except RejectedError as error:
            self.refusal = str(error)
        finally:
            self._shipper.close()
            with self._progress:
                self._progress.notify_all()

    def _ship(self) -> bool:
        """Send what the files gained; whether there was anything."""
        busy = False
        for name, size in self.spool.sizes().items():
            if size > self._shipped.get(name, 0):
                path = os.path.join(self._folder, name + ENDING)
                left = self._shipper.put_spool(self.run_id, self._stream_of(name), path)
                with self._progress:
                    self._shipped[name] = size - left
                    self._progress.notify_all()
                busy = True
        return busy

    def _stream_of(self, name: str) -> str:
        return f"{self._stream}-{name}"

    def _beat(self) -> None:
        for pid, run in list(_driven.values()):
            if pid == os.getpid() and run._recorder is self:
                with suppress(WherryError):  # the next one may arrive
                    self._client.post(f"/runs/{quote(run.id)}/heartbeat", retry=True, start=False)


_recorders: List[ClientRecorder] = []
_driven: Dict[str, Any] = {}


def begin(client: Client, workspace: str, body: Mapping[str, Any]) -> Dict[str, Any]:
    """A new run that this process drives. A lost answer is asked for again and makes no second."""
    path, chosen = f"/workspaces/{quote(workspace)}/runs/interactive", body.get("run_id")
    run_id = chosen or new_uuid()
    try:
        record: Dict[str, Any] = client.post(
            path, json={**body, "run_id": run_id}, retry=not chosen
        )
    except UserErrorException as refusal:
        if chosen:
            raise
        try:
            record = client.get(f"/runs/{quote(run_id)}")
        except WherryError:
            raise refusal from None
    return record


def drive(run: Any) -> None:
    """Remember a run that this process must bring to an end, also when it is told to end.

    In a submitted run the runner looks after that.
    """
    _driven[run.id] = (os.getpid(), run)
    in_main = threading.current_thread() is threading.main_thread()
    if in_main and isinstance(run._recorder, ClientRecorder):
        for number in _ENDINGS:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, _on_signal)


def release(run_id: str) -> None:
    _driven.pop(run_id, None)


def finish_all(error: Optional[BaseException] = None) -> None:
    """At exit: bring every run that is still open to its end, and send the rest of all logs."""
    away = _nobody_answers()  # then to ask again for each run would take minutes
    for pid, run in reversed(list(_driven.values())):
        if pid == os.getpid():
            try:
                if away:
                    raise ServerUnavailableError("the server did not answer")
                _finish(run, error)
            except NotFoundError:
                pass  # deleted, perhaps with its parent
            except WherryError as problem:
                say(f"warning: run {run.id} could not be ended: {problem.message}")
    _driven.clear()
    for recorder in list(_recorders):
        recorder.close(0.0 if away else EXIT_PATIENCE_S)


def _nobody_answers() -> bool:
    own = [recorder for recorder in _recorders if recorder.pid == os.getpid()]
    return not all(recorder.drained(EXIT_PATIENCE_S) or recorder.refusal for recorder in own)


def _finish(run: Any, error: Optional[BaseException]) -> None:
    problem = why_failed(error)
    if problem is None:
        run.complete()
    else:
        run.fail(error_details=problem)


def why_failed(error: Optional[BaseException]) -> Optional[str]:
    """What is wrong with a program that ends so; None where nothing is.

    >>> why_failed(SystemExit(3))
    'exited with code 3'
    """
    if isinstance(error, SystemExit):
        code = error.code
        if isinstance(code, int):
            return f"exited with code {code}" if code else None
        return None if code is None else f"exited with code 1: {code}"
    if error is None or isinstance(error, _Ended):
        return str(error) if error else None
    return f"{type(error).__name__}: {error}"


class _Ended(BaseException):
    """A signal told this process to end."""


def _on_signal(number: int, frame: Any) -> None:
    finish_all(_Ended(f"ended by {signal.Signals(number).name}"))
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _leave_signals_alone() -> None:
    """In a forked child, which drives no run: it must end at once even if it hangs in C."""
    for number in _ENDINGS:
        if signal.getsignal(number) is _on_signal:
            signal.signal(number, signal.SIG_DFL)


os.register_at_fork(after_in_child=_leave_signals_alone)


def _new_folder() -> str:
    import tempfile  # slow to load; a submitted script has its folder already

    return tempfile.mkdtemp(prefix="wherry-")


def _remove(folder: str) -> None:
    import shutil

    shutil.rmtree(folder, ignore_errors=True)


@atexit.register
def _at_exit() -> None:
    # In a notebook the last error is merely that of some cell.
    error = None if hasattr(builtins, "__IPYTHON__") else getattr(sys, "last_value", None)
    finish_all(error)
