"""A warm process that starts runners, kept at hand by the local driver."""

from __future__ import annotations

import json
import os
import select
import signal
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from wherry.runner.handover import PIPE

from . import processes

_PATIENCE_S = 5.0


class NurseryError(Exception):
    """No runner came of it, or none that is known of."""


class Nursery:
    """One that has failed is of no more use. Its process ends with the last reference to it."""

    def __init__(
        self, argv: Sequence[str], env: Mapping[str, str], output: Path, inbox: int
    ) -> None:
        input_end, self._requests = os.pipe()
        self._answers, output_end = os.pipe()
        os.set_blocking(self._requests, False)
        self._close = weakref.finalize(self, _close, self._requests, self._answers)
        try:
            self._pid = _spawn(argv, env, output, (input_end, output_end, inbox))
        except OSError:
            self._close()
            raise
        finally:
            _close(input_end, output_end)
        processes.adopt(self._pid)

    def start_runner(
        self,
        folder: Path,
        env: Mapping[str, str],
        files: Mapping[str, bytes],
        *,
        rescue: bool = False,
    ) -> int:
        """The process id of a runner for the attempt in ``folder``.

        ``env`` is what it has beyond the nursery's own, ``files`` what it need not read there.
        """
        request = {
            "folder": str(folder),
            "env": dict(env),
            "files": {name: content.decode() for name, content in files.items()},
            "rescue": rescue,
        }
        until = time.monotonic() + _PATIENCE_S
        try:
            self._send(json.dumps(request).encode() + b"\n", until)
            return _pid_in(json.loads(self._line(until)))
        except (OSError, ValueError) as error:
            self._give_up()
            raise NurseryError(str(error)) from None

    def close(self) -> None:
        """Its process ends, and has ended soon; the runners go on."""
        self._close()
        processes.wait(self._pid, _PATIENCE_S)

    def _send(self, data: bytes, until: float) -> None:
        """Piece by piece: it may be more than the pipe takes, and the nursery may hang."""
        while data:
            _wait_for(self._requests, select.POLLOUT, until)
            data = data[os.write(self._requests, data) :]

    def _line(self, until: float) -> bytes:
        line = b""
        while not line.endswith(b"\n"):
            _wait_for(self._answers, select.POLLIN, until)
            piece = os.read(self._answers, 4096)
            if not piece:
                raise OSError("it has ended")
            line += piece
        return line

    def _give_up(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._close()


def _wait_for(descriptor: int, event: int, until: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, until - time.monotonic()) * 1000):
        raise OSError(f"it has not answered for {_PATIENCE_S:.0f} s")


def _spawn(
    argv: Sequence[str], env: Mapping[str, str], output: Path, pipes: tuple[int, int, int]
) -> int:
    input_end, output_end, inbox = pipes
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_DUP2, input_end, 0),
        (os.POSIX_SPAWN_DUP2, output_end, 1),
        (os.POSIX_SPAWN_OPEN, 2, str(output), flags, 0o600),
        (os.POSIX_SPAWN_DUP2, inbox, PIPE),
    ]
    # Its runners inherit the mask: none of them is ended before it can say so.
    mask = (signal.SIGTERM,)
    return os.posix_spawn(
        argv[0], list(argv), dict(env), file_actions=actions, setsid=True, setsigmask=mask
    )


def _pid_in(answer: Mapping[str, object]) -> int:
    pid = answer.get("pid")
    if not isinstance(pid, int):
        raise ValueError(str(answer.get("error")))  # noqa: TRY004  # its answer, not its type
    return pid


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
