"""Runs attempts as threads of this process: for tests, and as the protocol in its shortest form."""

from __future__ import annotations

import json
import shlex
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.resources import Resources

from .base import Handle, Health, Launch, Node

Program = Callable[["Job"], int | None]
"""A simulated command: what it returns is its exit code, what it raises goes to its log."""


class EndedError(BaseException):
    """Raised inside a program, at its next ``wait``, when the attempt is made to end."""


class Job:
    """What a program sees of the world, and the world of it."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.argv = list(argv)
        self.env = dict(env)
        self.log = bytearray()
        self._asked = threading.Event()
        self._killed = threading.Event()
        self._stubborn = False

    def write(self, text: str) -> None:
        self.log += text.encode()

    def ignore_requests(self) -> None:
        """From now on only force ends this."""
        self._stubborn = True

    def wait(self, seconds: float) -> None:
        """Pass the time. Here a request to end, or force, takes effect."""
        (self._killed if self._stubborn else self._asked).wait(seconds)
        if self._killed.is_set() or (self._asked.is_set() and not self._stubborn):
            raise EndedError

    def ask(self) -> None:
        self._asked.set()

    def kill(self) -> None:
        self._killed.set()
        self._asked.set()

    @property
    def asked(self) -> bool:
        return self._asked.is_set()

    @property
    def killed(self) -> bool:
        return self._killed.is_set()


@dataclass
class Attempt:
    """One attempt as the backend keeps it."""

    launch: Launch
    job: Job
    phase: Phase = Phase.PENDING
    exit: ExitRecord | None = None


@dataclass
class MemoryBackend:
    """The world behind memory drivers: all that share one see the same attempts.

    An attempt whose command (``argv`` of its manifest) begins with a name in ``programs`` runs
    that program in a thread. Every other attempt waits for the test to say what becomes of it:
    ``begin``, ``end``, ``lose``; a request to cancel ends it at once, unless it is in ``stubborn``.

    ``down`` makes every call raise ``TargetUnavailableError``; ``refusal`` makes ``submit`` refuse
    with that sentence; ``starts`` counts how often each attempt was really started.
    """

    programs: Mapping[str, Program] = field(default_factory=dict)
    resources: Resources = field(default_factory=lambda: Resources(4.0, 8 << 30, 0))
    gpus: Sequence[str] = ()
    down: bool = False
    refusal: str = ""
    stubborn: set[str] = field(default_factory=set)
    starts: dict[str, int] = field(default_factory=dict)
    attempts: dict[str, Attempt] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def begin(self, attempt_id: str) -> None:
        with self.lock:
            self.attempts[attempt_id].phase = Phase.RUNNING

    def end(self, attempt_id: str, record: ExitRecord | None = None) -> None:
        with self.lock:
            attempt = self.attempts[attempt_id]
            attempt.exit = record or ExitRecord(exit_code=0)
            attempt.phase = Phase.EXITED

    def lose(self, attempt_id: str) -> None:
        """It vanishes and leaves no exit record."""
        with self.lock:
            self.attempts[attempt_id].phase = Phase.GONE

    def start(self, launch: Launch) -> None:
        manifest = _manifest(launch)
        argv = manifest.get("argv") or list(launch.argv)
        attempt = Attempt(launch, Job(argv, manifest.get("env") or launch.env))
        self.attempts[launch.attempt_id] = attempt
        self.starts[launch.attempt_id] = self.starts.get(launch.attempt_id, 0) + 1
        program = self.programs.get(argv[0])
        if program is not None:
            attempt.phase = Phase.RUNNING
            threading.Thread(target=self._run, args=(attempt, program), daemon=True).start()

    def cancel(self, attempt: Attempt, *, force: bool) -> None:
        if attempt.job.argv[0] in self.programs:
            (attempt.job.kill if force else attempt.job.ask)()
        elif force or attempt.launch.attempt_id not in self.stubborn:
            attempt.phase = Phase.EXITED
            attempt.exit = ExitRecord(signal=9 if force else 15, canceled=True)

    def _run(self, attempt: Attempt, program: Program) -> None:
        job = attempt.job
        try:
            record = ExitRecord(exit_code=program(job) or 0, canceled=job.asked)
        except EndedError:
            record = ExitRecord(signal=9 if job.killed else 15, canceled=True)
        except Exception:  # noqa: BLE001  # the outermost frame of a thread
            job.write(traceback.format_exc())
            record = ExitRecord(exit_code=1)
        with self.lock:
            attempt.exit, attempt.phase = record, Phase.EXITED


class MemoryDriver:
    """``MemoryDriver(backend)``; without one it has a world of its own."""

    def __init__(self, backend: MemoryBackend | None = None) -> None:
        self.backend = backend or MemoryBackend()

    def check(self) -> Health:
        self._reach()
        owned = self.backend.resources
        node = Node("memory", Resources(owned.cpu, owned.memory_bytes, len(self.backend.gpus)))
        return Health((Node(node.name, node.resources, tuple(self.backend.gpus)),))

    def refuse(self, resources: Resources, interpreter: str | None) -> str | None:
        del interpreter  # programs need none
        owned = self.check().nodes[0].resources
        return None if resources.fits(owned) else f"asks for {resources}, memory has {owned}"

    def render(self, launch: Launch) -> str:
        argv = _manifest(launch).get("argv") or list(launch.argv)
        return f"# attempt {launch.attempt_id} in memory\n{shlex.join(argv)}\n"

    def submit(self, launch: Launch) -> Handle:
        self._reach()
        with self.backend.lock:
            if launch.attempt_id not in self.backend.attempts:
                if self.backend.refusal:
                    raise LaunchRefusedError(self.backend.refusal)
                self.backend.start(launch)
        return Handle(json.dumps({"attempt": launch.attempt_id}))

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        self._reach()
        return {handle: self._look(handle) for handle in handles}

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        self._reach()
        with self.backend.lock:
            attempt = self._find(handle)
            if attempt is not None and attempt.phase in (Phase.PENDING, Phase.RUNNING):
                self.backend.cancel(attempt, force=force)

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        self._reach()
        attempt = self._find(handle)
        return bytes(attempt.job.log[offset : offset + limit]) if attempt else b""

    def release(self, handle: Handle) -> None:
        self._reach()
        with self.backend.lock:
            attempt = self._find(handle)
            if attempt is not None:
                attempt.job.kill()
                del self.backend.attempts[attempt.launch.attempt_id]

    def _reach(self) -> None:
        if self.backend.down:
            raise TargetUnavailableError("the memory backend is down")

    def _look(self, handle: Handle) -> Observation:
        with self.backend.lock:
            attempt = self._find(handle)
            if attempt is None:
                return Observation(Phase.GONE)
            return Observation(attempt.phase, attempt.exit)

    def _find(self, handle: Handle) -> Attempt | None:
        try:
            return self.backend.attempts.get(json.loads(handle)["attempt"])
        except (ValueError, KeyError, TypeError):
            return None


def _manifest(launch: Launch) -> dict[str, Any]:
    try:
        found = json.loads(launch.files["manifest.json"])
    except (KeyError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
