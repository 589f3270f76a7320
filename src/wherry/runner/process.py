"""The command: started in a session of its own, watched, and ended with all that it started."""

from __future__ import annotations

import errno
import os
import select
import time

from . import tree
from .folder import tell
from .light import TYPE_CHECKING, signal, suppress
from .workspace import SetupError

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

_LONGEST_WAIT_S = 30.0
_KILL_AGAIN_S = 0.2
_UNKILLABLE_S = 10.0
_PYTHONS = ("python", "pypy")
_NO_SCRIPT, _WITH_VALUE = "cm", "WX"


class Signals:
    """Signals and other threads' calls, all turned into wake-ups of one waiting thread.

    ``asked`` is the signal by which someone asked this attempt to end, or 0. ``on_ask`` is called
    in the main thread as that happens, and may raise.
    """

    def __init__(self) -> None:
        self.asked = 0
        self.on_ask: Optional[Callable[[], None]] = None
        self._proof = ""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(self._writer, False)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _ignore)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)
        # A driver may have it blocked, so that none is lost before there is a handler.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))

    def begin_anew(self, proof: str) -> None:
        """For another attempt. A signal may have been meant for the one before: only what comes
        with the file ``proof`` counts.
        """
        self._proof = proof
        self.asked, self.on_ask = 0, None
        self.wait(0)

    def wait(self, timeout_s: float) -> None:
        """Until something happens or the time is over; now and then for nothing."""
        select.select([self._reader], [], [], max(0.0, min(timeout_s, _LONGEST_WAIT_S)))
        with suppress(BlockingIOError):
            os.read(self._reader, 4096)

    def ask(self, number: int) -> None:
        """From another thread: end the attempt as if the signal had come."""
        self.asked = self.asked or number
        self.wake()

    def wake(self) -> None:
        with suppress(BlockingIOError):
            os.write(self._writer, b"\0")

    def _handle(self, number: int, _frame: Any) -> None:
        if self._proof and not os.path.exists(self._proof):
            return
        self.asked = self.asked or number
        if self.on_ask is not None:
            self.on_ask()


class Command:
    """A started command. ``status`` is what ``waitpid`` said of it, once it has ended.

    ``out_of_memory`` and ``detail`` are for those to say who know more than the kernel tells all.
    ``held`` says of one that is no child of this process whether its memory is kept in bounds.
    ``subreaper`` says that whatever the command starts stays below this process, come what may.
    """

    def __init__(self, pid: int, *, subreaper: bool) -> None:
        self.pid = pid
        self.status: Optional[int] = None
        self.canceled = False
        self.timed_out = False
        self.killed = False
        self.out_of_memory = False
        self.detail = ""
        self.held: Optional[bool] = None
        self._subreaper = subreaper

    def ended_within(self, seconds: float, signals: Signals) -> bool:
        """Whether that was all of it: nothing is left, and nobody asked for an end meanwhile."""
        until = time.monotonic() + seconds
        while self._running():
            left = until - time.monotonic()
            if left <= 0 or signals.asked:
                return False
            signals.wait(left)
        return not self._left_over()

    def watch(
        self,
        signals: Signals,
        limit_s: Optional[float],
        grace_s: float,
        look: Callable[[], None],
    ) -> None:
        """Return when the command has ended and nothing that it started is left.

        ``look`` is called now and then.
        """
        limit_at = time.monotonic() + limit_s if limit_s else None
        kill_at: Optional[float] = None
        while self._running():
            now = time.monotonic()
            if kill_at is None and signals.asked:
                self.canceled = True
                self._ask(signals.asked)
                kill_at = now + grace_s
            elif kill_at is None and limit_at is not None and now >= limit_at:
                self.timed_out = True
                self._ask(signal.SIGTERM)
                kill_at = now + grace_s
            elif kill_at is not None and now >= kill_at:
                self.kill()
                kill_at = now + _KILL_AGAIN_S
            look()
            due = kill_at or limit_at
            signals.wait(due - now if due else _LONGEST_WAIT_S)
        self._end_rest(signals, kill_at or time.monotonic() + grace_s)

    def kill(self) -> None:
        """End every process of the attempt but this one."""
        self.killed = True
        tree.kill(self.members())

    def _running(self) -> bool:
        self._reap()
        return self.status is None

    def _ask(self, number: int) -> None:
        """Tell the command's group, then whatever has left it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)
            os.killpg(self.pid, signal.SIGCONT)
        tree.send([pid for pid, group in self.members().items() if group != self.pid], number)

    def _end_rest(self, signals: Signals, kill_at: float) -> None:
        """End what the command left behind, first by asking."""
        if not self._left_over():
            return
        tree.send(self.members(), signal.SIGTERM)
        while self._left_over() and time.monotonic() < kill_at + _UNKILLABLE_S:
            signals.wait(min(0.25, max(0.001, kill_at - time.monotonic())))
            if time.monotonic() >= kill_at:
                tree.kill(self.members())
        if self._left_over():
            tell(f"these processes could not be ended: {list(self.members())}")

    def _left_over(self) -> bool:
        """The kernel knows; a look at all processes may miss those that come and go."""
        if self._reap():
            return True
        return not self._subreaper and bool(self.members())

    def _reap(self) -> bool:
        """Collect what has ended; whether any child is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.pid:
                self.status = status

    def members(self) -> Dict[int, int]:
        return tree.members(os.getpid(), self.pid)


def start(argv: List[str], env: Dict[str, str], work: str, log: str, *, subreaper: bool) -> Command:
    """Start the command in ``work``, both its outputs in one file opened for appending."""
    os.chdir(work)
    program = find_program(argv[0], env.get("PATH") or os.defpath)
    script = missing_script(argv) if os.path.exists(program) else None
    if script:
        raise SetupError(f"the script {script} is not in the snapshot")
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        pid = _spawn(program, argv, env, output)
    except OSError as error:
        raise SetupError(_cannot_start(argv[0], program, error)) from None
    finally:
        os.close(output)
    return Command(pid, subreaper=subreaper)


def find_program(name: str, path: str) -> str:
    if "/" in name:
        return name
    for folder in path.split(os.pathsep):
        candidate = os.path.join(folder or ".", name)
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return candidate
    raise SetupError(f"there is no program {name!r} on the path of {os.uname().nodename}")


def missing_script(argv: List[str]) -> Optional[str]:
    """The script that a Python interpreter is told to run, if it is not there."""
    if os.path.basename(argv[0]).rstrip(".0123456789t") not in _PYTHONS:
        return None
    rest = iter(argv[1:])
    for argument in rest:
        if argument == "-" or argument.startswith("--"):
            return None
        if not argument.startswith("-"):
            return None if os.path.exists(argument) else argument
        letter = _last_option(argument)
        if letter in _NO_SCRIPT:
            return None
        if letter in _WITH_VALUE and argument.endswith(letter):
            next(rest, None)
    return None


def _last_option(argument: str) -> str:
    """Of options written together, as in ``-uc``, the one that takes a value or else the last."""
    taking = (letter for letter in argument[1:] if letter in _NO_SCRIPT + _WITH_VALUE)
    return next(taking, argument[-1])


def _spawn(program: str, argv: List[str], env: Dict[str, str], output: int) -> int:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    wanted: Dict[str, Any] = {
        "file_actions": actions,
        "setsigmask": (),
        "setsigdef": (signal.SIGPIPE, signal.SIGHUP, signal.SIGXFSZ),
    }
    arguments = [_encoded(argument) for argument in argv]
    variables = {_encoded(name): _encoded(value) for name, value in env.items()}
    try:
        return os.posix_spawn(_encoded(program), arguments, variables, setsid=True, **wanted)
    except NotImplementedError:
        return os.posix_spawn(_encoded(program), arguments, variables, setpgroup=0, **wanted)


def _encoded(text: str) -> bytes:
    """UTF-8 whatever the locale says; bytes that were none come out as they went in."""
    return text.encode("utf-8", "surrogateescape")


def _cannot_start(name: str, program: str, error: OSError) -> str:
    if error.errno == errno.ENOENT and os.path.exists(program):
        return f"{name} cannot be started: the interpreter in its first line is not here"
    if error.errno == errno.ENOENT:
        return f"there is no program {name} on {os.uname().nodename}"
    if error.errno == errno.EACCES:
        return f"{name} may not be executed on {os.uname().nodename}"
    if error.errno == errno.ENOEXEC:
        return f"{name} is not a program; a script needs a first line like #!/bin/sh"
    if error.errno == errno.E2BIG:
        return "the arguments and environment variables are too long together"
    return f"{name} cannot be started: {error.strerror}"


def _ignore(_number: int, _frame: Any) -> None:
    """Being handled, unlike being ignored, writes to the wake-up pipe."""
