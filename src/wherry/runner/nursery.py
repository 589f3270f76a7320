"""A process that has imported the runner and forks one for each attempt it is told of.

Starting Python and importing the runner takes four times as long as all that a runner does for a
short command. The nursery reads requests, a line of JSON each. The new runner itself answers with
its process id, once it has claimed the attempt; where there is none, the nursery says why. It ends
when its input does; runners outlive it. What a short run has to say goes through descriptor 3: see
``handover.py``.
"""

from __future__ import annotations

import gc
import os

from .__main__ import main, rescue
from .folder import tell, tell_in
from .handover import PIPE
from .light import TYPE_CHECKING, dumps, loads, signal, suppress

if TYPE_CHECKING:
    from typing import Any, Dict, Optional

_BLOCK = 1 << 16


def serve(library: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps the runners
    os.set_inheritable(PIPE, False)  # it is for runners, not for commands
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
        error = _fork(loads(line.decode()), library)
        if error:
            _answer({"error": error})


def _answer(fields: Dict[str, Any]) -> None:
    with suppress(OSError):  # who asked may be gone, which changes nothing
        os.write(1, dumps(fields).encode() + b"\n")


def _warm_up() -> None:
    """Load what a runner loads late, and keep the collector from copying what is shared."""
    with suppress(ImportError):
        import _ctypes  # noqa: F401
    gc.collect()
    gc.freeze()


def _fork(request: Dict[str, Any], library: str) -> Optional[str]:
    """Why no runner came of it, or None."""
    if not os.path.exists(f"{library}/wherry/__init__.py"):
        return f"{library} has been removed"
    try:
        pid = os.fork()
    except OSError as error:
        return str(error)
    if pid == 0:
        try:
            _become_runner(request, library)
        except BaseException as error:  # noqa: BLE001  # the outermost frame of a process
            tell(f"the runner failed: {error!r}")
        finally:
            os._exit(1)
    return None


def _become_runner(request: Dict[str, Any], library: str) -> None:
    """As if this process had been started for this attempt alone."""
    os.setsid()
    folder = str(request["folder"])
    tell_in(f"{folder}/runner.log")
    os.environ.update(request["env"])
    manifest = request["files"]["manifest.json"]
    if request.get("rescue"):
        _come_up()
        rescue(folder, library, manifest)
    else:
        main(folder, library, manifest, PIPE, _come_up)
    os._exit(0)


def _come_up() -> None:
    _answer({"pid": os.getpid()})
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.close(nothing)
