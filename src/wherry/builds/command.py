"""Runs a program of the build: all it prints goes to the log, and it can be ended at any time."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from wherry.builds.error import BuildKilled, BuildStalled
from wherry.builds.talk import Talk

_LOOK_S = 0.1
_ENOUGH = 1 << 20


@dataclass(frozen=True)
class Outcome:
    code: int
    output: str


def run(
    words: Sequence[str],
    talk: Talk,
    variables: Optional[Dict[str, str]] = None,
    heard: Callable[[str], object] = lambda line: None,
    silent_s: Optional[float] = None,
    stdout: bool = True,
) -> Outcome:
    """To its end. ``heard`` gets each line; after ``silent_s`` without one it is ended.

    Without ``stdout`` only what it prints as an error counts.
    """
    talk.check()
    source, writes = os.pipe()
    try:
        process = subprocess.Popen(
            list(words),
            stdin=subprocess.DEVNULL,
            stdout=writes if stdout else subprocess.DEVNULL,
            stderr=writes,
            env={**os.environ, **(variables or {})},
            start_new_session=True,
            pass_fds=talk.descriptors,
        )
    except BaseException:
        os.close(source)
        raise
    finally:
        os.close(writes)
    try:
        return _own_end(words[0], *_follow(process, source, talk, heard, silent_s))
    except BaseException:
        _end(process)
        raise
    finally:
        os.close(source)


def _own_end(program: str, code: int, output: str) -> Outcome:
    if code == -signal.SIGKILL:
        raise BuildKilled(
            f"{os.path.basename(program)} was killed while it made an environment",
            hint="if nobody did it, the machine lacks memory",
            explanation=output.strip(),
        )
    return Outcome(code, output)


def _follow(
    process: subprocess.Popen[bytes],
    source: int,
    talk: Talk,
    heard: Callable[[str], object],
    silent_s: Optional[float],
) -> Tuple[int, str]:
    kept: List[bytes] = []
    rest, last = b"", time.monotonic()
    while True:
        talk.check()
        ended = process.poll() is not None
        ready, _, _ = select.select([source], [], [], 0 if ended else _LOOK_S)
        data = os.read(source, 65536) if ready else b""
        if data:
            last = time.monotonic()
            kept.append(data)
            whole, rest = _whole_lines(rest + data)
            talk.log(whole)
            for line in re.split(rb"[\r\n]+", whole)[:-1]:
                heard(line.decode("utf-8", "replace"))
        elif ended:
            talk.log(rest)
            break
        elif ready:  # closed its output: only its end is left to wait for
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
        elif silent_s is not None and time.monotonic() - last > silent_s:
            raise BuildStalled(f"a program of the build said nothing for {silent_s:.0f} seconds")
    return process.returncode, b"".join(kept)[-_ENOUGH:].decode("utf-8", "replace")


def _whole_lines(data: bytes) -> Tuple[bytes, bytes]:
    """Those, and what is left of one that is still on its way."""
    end = max(data.rfind(b"\r"), data.rfind(b"\n")) + 1
    return data[:end], data[end:]


def _end(process: subprocess.Popen[bytes]) -> None:
    """With all that it started: they share its process group."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
