"""A process that has imported the runner and forks one where none of its earlier ones is free.

Starting Python and importing the runner takes four times as long as all that a runner does for a
short command, and even a fork takes as long as the rest. The nursery reads requests, a line of JSON
each, and passes them on. The runner itself answers with its process id, once it has claimed the
attempt; where there is none, the nursery says why. What a short run has to say goes through
descriptor 3: see ``handover.py``. A runner that has handed its attempt over is free for another;
one that stays free for long is let go. The nursery ends when its input does; runners outlive it as
long as they have an attempt.
"""

from __future__ import annotations

import gc
import os
import select
import time

from .__main__ import main, rescue
from .folder import tell, tell_in
from .handover import PIPE
from .light import TYPE_CHECKING, dumps, loads, signal, suppress
from .process import Signals

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

_BLOCK = 1 << 16
_FREE_FOR_S = 2.0
_ATTEMPTS = 100
_NUMBER = 8


def serve(library: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the runners
    os.set_inheritable(PIPE, False)  # it is for runners, not for commands
    os.chdir("/")
    _warm_up()
    _Nursery(library).serve()


def _warm_up() -> None:
    """Load what a runner loads late, and keep the collector from copying what is shared."""
    with suppress(ImportError):
        import _ctypes  # noqa: F401
    gc.collect()
    gc.freeze()


class _Nursery:
    """Knows each runner that may come back by the pipe through which it is told of attempts."""

    def __init__(self, library: str) -> None:
        self._library = library
        self._returns, self._returning = os.pipe()
        self._away: List[int] = []
        self._free: List[Tuple[float, int]] = []

    def serve(self) -> None:
        lines = Lines(0)
        while True:
            line = lines.next()
            if line is not None:
                error = self._start(line)
                if error:
                    _answer(1, {"error": error})
            elif not self._wait(lines):
                return

    def _wait(self, lines: Lines) -> bool:
        """For a request or for a runner that comes back; False at the end of the requests."""
        pause = _FREE_FOR_S if self._free else None
        ready = select.select([0, self._returns], [], [], pause)[0]
        if self._returns in ready:
            self._welcome()
        self._let_go()
        return 0 not in ready or lines.read()

    def _welcome(self) -> None:
        numbers = os.read(self._returns, _BLOCK // _NUMBER * _NUMBER)
        now = time.monotonic()
        for start in range(0, len(numbers), _NUMBER):
            runner = int(numbers[start : start + _NUMBER])
            if runner in self._away:
                self._away.remove(runner)
                self._free.append((now, runner))

    def _let_go(self) -> None:
        """The one that came back last is taken first, so the others' time may be over."""
        now = time.monotonic()
        while self._free and now - self._free[0][0] >= _FREE_FOR_S:
            os.close(self._free.pop(0)[1])

    def _start(self, line: bytes) -> Optional[str]:
        """Why no runner came of it, or None."""
        if not os.path.exists(f"{self._library}/wherry/__init__.py"):
            return f"{self._library} has been removed"
        while self._free:
            runner = self._free.pop()[1]
            if _passed_on(runner, line):
                self._away.append(runner)
                return None
            os.close(runner)
        try:
            self._fork(line)
        except OSError as error:
            return str(error)
        return None

    def _fork(self, line: bytes) -> None:
        self._forget_the_dead()
        requests, runner = os.pipe()
        try:
            pid = os.fork()
        except OSError:
            os.close(requests)
            os.close(runner)
            raise
        if pid == 0:
            try:
                for descriptor in (runner, self._returns, *self._away, *self._of_free()):
                    os.close(descriptor)
                _Runner(self._library, Lines(requests), self._returning, runner).serve(line)
            except BaseException as error:  # noqa: BLE001  # the outermost frame of a process
                tell(f"the runner failed: {error!r}")
            finally:
                os._exit(1)
        os.close(requests)
        self._away.append(runner)

    def _of_free(self) -> List[int]:
        return [runner for _, runner in self._free]

    def _forget_the_dead(self) -> None:
        """Nobody has the other end of their pipes open any more."""
        if not self._away:
            return
        poll = select.poll()
        for runner in self._away:
            poll.register(runner, 0)
        for runner, _ in poll.poll(0):
            self._away.remove(runner)
            os.close(runner)


class _Runner:
    """A process for one attempt after the other, as if each had been started for it alone."""

    def __init__(self, library: str, requests: Lines, returning: int, number: int) -> None:
        self._library = library
        self._requests = requests
        self._returning = returning
        self._number = number
        self._answers = os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        os.dup2(nothing, 1)
        os.close(nothing)
        os.setsid()

    def serve(self, line: bytes) -> None:
        signals = Signals()
        free = self._run(loads(line.decode()), signals)
        for _ in range(_ATTEMPTS - 1):
            following = self._next_request() if free else None
            if following is None:
                break
            request = loads(following.decode())
            signals.begin_anew(f"{request['folder']}/asked")
            free = self._run(request, signals)
        os._exit(0)

    def _run(self, request: Dict[str, Any], signals: Signals) -> bool:
        """Whether this process is free for another."""
        folder = str(request["folder"])
        tell_in(f"{folder}/runner.log")
        before = dict(os.environ)
        os.environ.update(request["env"])
        manifest = request["files"]["manifest.json"]
        if request.get("rescue"):
            self._come_up()
            rescue(folder, self._library, manifest, signals)
            return False
        over = main(folder, self._library, manifest, PIPE, self._come_up, signals)
        for name in request["env"]:
            del os.environ[name]
        os.environ.update(before)
        os.chdir("/")
        return over

    def _come_up(self) -> None:
        _answer(self._answers, {"pid": os.getpid()})

    def _next_request(self) -> Optional[bytes]:
        with suppress(OSError):  # without a nursery there is nothing to come
            os.write(self._returning, b"%*d" % (_NUMBER, self._number))
            while True:
                line = self._requests.next()
                if line is not None:
                    return line
                if not self._requests.read():
                    return None
        return None


class Lines:
    """Whole lines out of a pipe."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._buffer = b""

    def read(self) -> bool:
        """Wait for more; False at the end."""
        piece = os.read(self._descriptor, _BLOCK)
        self._buffer += piece
        return bool(piece)

    def next(self) -> Optional[bytes]:
        line, found, rest = self._buffer.partition(b"\n")
        if not found:
            return None
        self._buffer = rest
        return line


def _passed_on(runner: int, line: bytes) -> bool:
    data = line + b"\n"
    try:
        while data:
            data = data[os.write(runner, data) :]
    except OSError:  # it has died
        return False
    return True


def _answer(descriptor: int, fields: Dict[str, Any]) -> None:
    with suppress(OSError):  # who asked may be gone, which changes nothing
        os.write(descriptor, dumps(fields).encode() + b"\n")
