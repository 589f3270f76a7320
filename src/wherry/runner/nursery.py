"""A process that has imported the runner and forks one for each attempt it is told of.

Starting Python and importing the runner takes four times as long as all that a runner does for a
short command. The nursery reads requests, a line of JSON each, and answers each with the process
id of a new runner, or with why there is none. It ends when its input does; runners outlive it.
"""

from __future__ import annotations

import gc
import os

from .__main__ import main, rescue
from .light import TYPE_CHECKING, dumps, loads, signal, suppress

if TYPE_CHECKING:
    from typing import Any, Dict

_BLOCK = 1 << 16


def serve(library: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the runners
    os.chdir("/")
    _warm_up()
    buffer = b""
    while True:
        line, found, rest = buffer.partition(b"\n")
        if not found:
            piece = os.read(0, _BLOCK)
            if not piece:
                return
            buffer += piece
            continue
        buffer = rest
        os.write(1, dumps(_answer(loads(line.decode()), library)).encode() + b"\n")


def _warm_up() -> None:
    """Load what a runner loads late, and keep the collector from copying what is shared."""
    with suppress(ImportError):
        import _ctypes  # noqa: F401
    gc.collect()
    gc.freeze()


def _answer(request: Dict[str, Any], library: str) -> Dict[str, Any]:
    if not os.path.exists(f"{library}/wherry/__init__.py"):
        return {"error": f"{library} has been removed"}
    try:
        pid = os.fork()
    except OSError as error:
        return {"error": str(error)}
    if pid == 0:
        try:
            _become_runner(request, library)
        finally:
            os._exit(1)
    return {"pid": pid}


def _become_runner(request: Dict[str, Any], library: str) -> None:
    """As if this process had been started for this attempt alone."""
    os.setsid()
    folder = str(request["folder"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    log = os.open(f"{folder}/runner.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number, handle in enumerate((nothing, log, log)):
        os.dup2(handle, number)
    os.close(nothing)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["env"])
    if request.get("rescue"):
        rescue(folder, library)
    else:
        main(folder, library)
    os._exit(0)
