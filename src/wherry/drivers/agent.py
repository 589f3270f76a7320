"""The agent: what a server has running on a node, at the other end of one session.

It does there what the local driver does here, and answers requests as they come, several at a time.
Attempts are processes of their own: they go on when the agent ends, which it does with its input.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import select
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NoReturn, Optional, Tuple

from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.core.lifecycle import Observation
from wherry.core.resources import Resources

from . import frames, reaching
from .base import Handle, Launch
from .homes import remove_home
from .local import LocalDriver
from .processes import identity
from .streams import Streams

_AT_ONCE = 16
_LAST_WORDS_S = 10.0
_UNUSED_FOR_S = 30 * 86400
LEAST_FREE = 64 << 20

Answer = Tuple[Mapping[str, Any], bytes]


def serve(home: str, requests: int, answers: int) -> NoReturn:
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.chdir("/")
    agent = Agent(Path(home), answers)
    agent.greet()
    agent.listen(requests)
    os._exit(0)


class Agent:
    """``home`` is what all servers share that use this node: agents and programs."""

    def __init__(self, home: Path, answers: int) -> None:
        self._home = home
        self._answers = answers
        self._answering = threading.Lock()
        self._making = threading.Lock()
        self._drivers: Dict[str, LocalDriver] = {}
        self._programs: Dict[str, bytes] = {}
        self.streams = Streams(self._send)

    def greet(self) -> None:
        self._send(
            {
                "protocol": frames.PROTOCOL,
                "pid": os.getpid(),
                "identity": identity(os.getpid()),
                "python": sys.executable,
                "version": platform.python_version(),
                "system": f"{platform.system()} {platform.release()}",
                "host": platform.node(),
            }
        )

    def listen(self, requests: int) -> None:
        """Until the input ends; what is being done then is done to its end, within bounds."""
        with os.fdopen(requests, "rb") as stream, ThreadPoolExecutor(_AT_ONCE) as workers:
            try:
                while True:
                    request, data = frames.read(lambda size: _exactly(stream, size))
                    if "stream" in request:
                        self.streams.take(request, data)
                    else:
                        workers.submit(self._handle, request, data)
            except EOFError:
                pass
            except frames.FrameError as error:
                logging.warning("%s", error)
            threading.Thread(target=_end_later, daemon=True).start()
        for driver in self._drivers.values():
            driver.close()

    def _handle(self, request: Dict[str, Any], data: bytes) -> None:
        number = request.get("id")
        try:
            fields, answer = self._answer(request, data)
            self._send({**fields, "id": number}, answer)
        except WherryError as error:
            self._send({"id": number, "error": error.problem()})
        except Exception as error:  # told to the server, which tells it in its log
            logging.exception("a request failed")
            problem = TargetUnavailableError(f"the agent failed: {type(error).__name__}: {error}")
            self._send({"id": number, "error": problem.problem()})

    def _answer(self, request: Dict[str, Any], data: bytes) -> Answer:
        doing = _OPERATIONS.get(str(request.get("do")))
        if doing is None:
            raise TargetUnavailableError(f"the agent knows no request {request.get('do')!r}")
        return doing(self, request, data)

    def _send(self, fields: Mapping[str, Any], data: bytes = b"") -> None:
        frame = memoryview(frames.pack(fields, data))
        with self._answering:
            try:
                while frame:
                    frame = frame[os.write(self._answers, frame) :]
            except OSError:
                os._exit(0)  # nobody is there any more: attempts go on

    def driver(self, request: Mapping[str, Any]) -> LocalDriver:
        """One for all requests about the same folder."""
        root = os.path.expanduser(str(request["root"]))
        limits = request.get("limits") or {}
        key = json.dumps([root, limits], sort_keys=True)
        with self._making:
            if key not in self._drivers:
                driver = LocalDriver(root, **limits)
                self._drivers[key] = driver
                threading.Thread(
                    target=self._pass_on, args=(str(request["root"]), driver), daemon=True
                ).start()
            return self._drivers[key]

    def _pass_on(self, root: str, driver: LocalDriver) -> None:
        """What runners hand over."""
        while True:
            select.select([driver.inbox()], [], [])
            reports = driver.reports()
            if reports:
                self._send({"root": root, "reports": reports})

    def keep(self, digest: str, data: bytes) -> None:
        if hashlib.sha256(data).hexdigest() != digest:
            raise TargetUnavailableError("a program arrived damaged")
        self._programs[digest] = data
        folder = self._home / "programs"
        with suppress(OSError):  # a full disk: it is in memory
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            _remove_unused(folder)
            _remove_unused(self._home / "agents")
            temporary = folder / f".{digest}.{os.getpid()}"
            temporary.write_bytes(data)
            temporary.rename(folder / digest)

    def program(self, digest: str) -> Optional[bytes]:
        if digest not in self._programs:
            with suppress(OSError):
                data = (self._home / "programs" / digest).read_bytes()
                if hashlib.sha256(data).hexdigest() == digest:
                    self._programs[digest] = data
        return self._programs.get(digest)


def _check(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    _refuse_without_room(Path(os.path.expanduser(str(request["root"]))))
    health = agent.driver(request).check()
    nodes = [
        {"name": node.name, "resources": node.resources.__dict__, "gpus": list(node.gpus)}
        for node in health.nodes
    ]
    return {"nodes": nodes, "version": health.version}, b""


def _look_around(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """What a preflight wants to know: whether files can be kept here, and what time it is."""
    root = Path(os.path.expanduser(str(request["root"])))
    trouble = _write_trouble(root)
    free = shutil.disk_usage(_there(root)).free
    return {"trouble": trouble, "free": free, "time": time.time(), "root": str(root)}, b""


def _tell_server(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """Where runners find the server from now on."""
    file = _server_file(request)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = file.with_name(f".server.{os.getpid()}")
        temporary.write_text(json.dumps({"url": request["url"]}))
        temporary.rename(file)
    except OSError as error:
        raise TargetUnavailableError(
            f"{file} cannot be written: {error.strerror}",
            hint="look for a full disk or missing permissions",
        ) from None
    return {"file": str(file)}, b""


def _listen(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """A port of this machine that leads to the server."""
    return {"port": agent.streams.listen(int(request["port"]))}, b""


def _last_server(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    try:
        return {"url": json.loads(_server_file(request).read_text())["url"]}, b""
    except (OSError, ValueError, KeyError, TypeError):
        return {"url": ""}, b""


def _reach(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    return {"trouble": reaching.trouble(str(request["url"]), float(request["limit_s"]))}, b""


def _end_other(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """An agent that stopped answering may hold what the next one needs."""
    pid = int(request["pid"])
    if pid != os.getpid() and identity(pid) == request["identity"]:
        os.kill(pid, signal.SIGKILL)
    return {}, b""


def _put(agent: Agent, request: Mapping[str, Any], data: bytes) -> Answer:
    agent.keep(str(request["digest"]), data)
    return {}, b""


def _submit(agent: Agent, request: Mapping[str, Any], data: bytes) -> Answer:
    launch, missing = _launch(agent, request, data)
    if missing:
        return {"missing": missing}, b""
    return {"handle": agent.driver(request).submit(launch)}, b""


def _rescue(agent: Agent, request: Mapping[str, Any], data: bytes) -> Answer:
    launch, missing = _launch(agent, request, data)
    if missing:
        return {"missing": missing}, b""
    return {"rescued": agent.driver(request).rescue(launch)}, b""


def _observe(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    handles = [Handle(handle) for handle in request["handles"]]
    seen = agent.driver(request).observe(handles)
    return {"seen": [_fields(seen[handle]) for handle in handles]}, b""


def _cancel(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    agent.driver(request).cancel(Handle(request["handle"]), force=bool(request["force"]))
    return {}, b""


def _read_log(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    offset, limit = int(request["offset"]), int(request["limit"])
    return {}, agent.driver(request).read_log(Handle(request["handle"]), offset, limit)


def _release(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    agent.driver(request).release(Handle(request["handle"]))
    return {}, b""


def _forget(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """Remove a home, and all that lies in it."""
    try:
        remove_home(_homes(request), str(request["home"]))
    except OSError as error:
        raise TargetUnavailableError(f"a home cannot be removed: {error}") from None
    return {}, b""


def _house(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    """Have a home there; where it is."""
    folder = _homes(request) / str(request["home"])
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise TargetUnavailableError(f"{folder} cannot be made: {error.strerror}") from None
    return {"path": str(folder)}, b""


def _refuse(agent: Agent, request: Mapping[str, Any], _data: bytes) -> Answer:
    resources = Resources(**request["resources"])
    return {"refusal": agent.driver(request).refuse(resources, request["interpreter"])}, b""


_OPERATIONS: Mapping[str, Callable[[Agent, Mapping[str, Any], bytes], Answer]] = {
    "check": _check,
    "look_around": _look_around,
    "tell_server": _tell_server,
    "last_server": _last_server,
    "listen": _listen,
    "reach": _reach,
    "end_other": _end_other,
    "put": _put,
    "submit": _submit,
    "rescue": _rescue,
    "observe": _observe,
    "cancel": _cancel,
    "read_log": _read_log,
    "release": _release,
    "refuse": _refuse,
    "house": _house,
    "forget": _forget,
}


def _launch(agent: Agent, request: Mapping[str, Any], data: bytes) -> Tuple[Launch, List[str]]:
    """The launch, and the digests of the programs that have to be sent first."""
    fields = dict(request["launch"])
    files, start = {}, 0
    for name, size in fields.pop("files"):
        files[name] = data[start : start + size]
        start += size
    wanted = fields.pop("program")
    found = {name: agent.program(digest) for name, digest in wanted.items()}
    missing = [wanted[name] for name, content in found.items() if content is None]
    program = {name: content for name, content in found.items() if content is not None}
    resources = Resources(**fields.pop("resources"))
    return Launch(resources=resources, files=files, program=program, **fields), missing


def _fields(seen: Observation) -> Dict[str, Any]:
    exit = None if seen.exit is None else dict(seen.exit.__dict__)
    return {"phase": seen.phase.value, "exit": exit, "detail": seen.detail}


def _homes(request: Mapping[str, Any]) -> Path:
    """Beside the attempts, which are swept."""
    return Path(os.path.expanduser(str(request["root"])) + "-homes")


def _server_file(request: Mapping[str, Any]) -> Path:
    return Path(os.path.expanduser(str(request["root"]))) / ".server.json"


def _write_trouble(root: Path) -> Optional[str]:
    """Why no attempt could be kept there; None if one could."""
    try:
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        attempt = root / f".preflight.{os.getpid()}"
        try:
            attempt.write_bytes(b" " * 65536)
        finally:
            with suppress(FileNotFoundError):
                attempt.unlink()
    except OSError as error:
        return f"{root} cannot be written: {error.strerror}"
    return None


def _refuse_without_room(root: Path) -> None:
    """Nothing could be started: better said before somebody tries."""
    trouble = _write_trouble(root)
    free = shutil.disk_usage(_there(root)).free
    if trouble is None and free < LEAST_FREE:
        trouble = f"the disk with {root} is full: {free >> 20} MiB are free"
    if trouble is not None:
        cause = "disk_full" if free < LEAST_FREE else "home"
        raise TargetUnavailableError(trouble, hint="make room there", cause=cause)


def _there(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _remove_unused(folder: Path) -> None:
    before = time.time() - _UNUSED_FOR_S
    for path in folder.iterdir():
        if path.stat().st_mtime < before:
            shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()


def _exactly(stream: Any, size: int) -> bytes:
    data: bytes = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _end_later() -> None:
    time.sleep(_LAST_WORDS_S)
    os._exit(0)
