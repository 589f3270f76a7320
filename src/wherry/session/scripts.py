"""A person's own script, run before JupyterLab is there: once, or at each start."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections import deque
from contextlib import suppress
from typing import IO, Callable, Deque, Mapping, Optional

from .contract import Script
from .home import Home
from .saying import lines, write

_LAST_LINES = 20
_GRACE_S = 5.0
_STEP_S = 0.1
_REST_S = 1.0


class ScriptError(Exception):
    """A sentence, and below it the last lines that the script wrote."""


def run(
    kind: str,
    script: Script,
    home: Home,
    variables: Mapping[str, str],
    stopped: Callable[[], object],
) -> None:
    """Raises ``ScriptError``. Returns early if the session is to end."""
    path = os.path.join(home.private, f"{kind}.sh")
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(script.content.replace("\r\n", "\n"))
    tail: Deque[bytes] = deque(maxlen=_LAST_LINES)
    try:
        words = [shutil.which("bash") or "/bin/sh", path, *shlex.split(script.arguments)]
        process = subprocess.Popen(
            words,
            cwd=home.path,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        raise ScriptError(f"the {kind} script cannot be started: {error}") from None
    reader = _read(process.stdout, os.path.join(home.logs, f"{kind}.log"), tail)
    in_time = _wait(process, script.timeout_minutes * 60, stopped)
    reader.join(_REST_S)  # what it left running may hold the pipe open
    if stopped():
        return
    trouble = _trouble(process.returncode, in_time, script)
    if trouble:
        last = b"".join(tail).decode("utf-8", "replace").strip()
        raise ScriptError(f"the {kind} script {trouble}" + (f"\n{last}" if last else ""))


def _trouble(code: int, in_time: bool, script: Script) -> str:
    if not in_time:
        return f"took longer than its limit of {script.timeout_minutes:g} minutes and was ended"
    if code < 0:
        return f"was ended by signal {-code}"
    return f"failed with exit code {code}" if code else ""


def _wait(process: subprocess.Popen[bytes], limit_s: float, stopped: Callable[[], object]) -> bool:
    """Whether it ended by itself; else its group is ended."""
    until = time.monotonic() + limit_s
    while process.poll() is None:
        if time.monotonic() >= until or stopped():
            _end(process)
            return False
        time.sleep(_STEP_S)
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(output: Optional[IO[bytes]], log: str, tail: Deque[bytes]) -> threading.Thread:
    """Its output goes into its own log and the session's, also what comes after its end."""

    def read(pipe: IO[bytes]) -> None:
        with pipe, _opened(log) as file:
            for line in lines(pipe):
                tail.append(line)
                write(line)
                with suppress(OSError):
                    file.write(line)

    assert output is not None
    thread = threading.Thread(target=read, args=(output,), name="script", daemon=True)
    thread.start()
    return thread


def _opened(log: str) -> IO[bytes]:
    """A disk that is full ends no script."""
    try:
        return open(log, "ab", buffering=0)
    except OSError:
        return open(os.devnull, "ab", buffering=0)
