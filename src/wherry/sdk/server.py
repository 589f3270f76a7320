"""The embedded server of a home folder: found, started once, looked at, stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from json import loads
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Set

from ..core import private_files
from ..core.errors import (
    AuthenticationException,
    ServerUnavailableError,
    VersionMismatchError,
    WherryError,
)
from ..core.version import API
from .client import Address, Client, mismatch
from .console import say
from .settings import server_environment

_PROGRAM = "wherry.api"


class ServerStatus(NamedTuple):
    """What is known of a home's server. ``message`` says in one sentence how it is."""

    running: bool
    home: str
    url: str
    pid: Optional[int]
    version: str
    api: Optional[int]
    started_at: Optional[str]
    message: str


class HomeServer:
    """The one server of a home folder.

    >>> server = HomeServer("/home/me/.wherry")
    >>> server.ensure().url
    'http://127.0.0.1:8700'
    """

    def __init__(self, home: str, *, start_timeout_s: float = 30.0) -> None:
        self.home = home
        self.file_path = os.path.join(home, "server.json")
        self.log_path = os.path.join(home, "server.log")
        self._stopped_path = os.path.join(home, "stopped")
        self._lock_path = os.path.join(home, "start.lock")
        self._token_path = os.path.join(home, "token")
        self._timeout_s = start_timeout_s

    def find(self) -> Optional[Address]:
        """The address that the server wrote down, if its process is there. Asks it nothing."""
        info = self._info()
        if info is None or not _alive(info.get("pid")):
            return None
        token = self._token()
        return _address(info, token) if token else None

    def ensure(self) -> Address:
        """The address of a server that answers; one is started if there is none."""
        address = self._answering()
        if address is not None:
            return address
        self._check_token()
        self._make_home()
        deadline = time.monotonic() + self._timeout_s
        patience = _Patience()
        with _StartLock(self._lock_path, deadline, patience):
            return self._answering() or self._start(deadline, patience)

    def relocate(self, start: bool) -> Address:
        """For a client whose server does not answer.

        Without ``start`` a server that someone stopped stays stopped; one that died is started
        again.
        """
        if start or not os.path.exists(self._stopped_path):
            return self.ensure()
        raise ServerUnavailableError(
            f"the server of {self.home} was stopped", hint="wherry server start starts it again"
        )

    def start(self) -> ServerStatus:
        self.ensure()
        return self.status()

    def stop(self, timeout_s: float = 20.0) -> bool:
        """Stop it and wait for its end; False when none was running. Runs go on without it."""
        info = self._info()
        pid = info.get("pid") if info else None
        if info is None or not isinstance(pid, int) or not _alive(pid):
            return False
        with open(self._stopped_path, "w", encoding="utf-8"):
            pass  # tells those who follow a run that this is no accident
        self._ask_to_stop(_address(info, self._token() or ""), pid)
        deadline = time.monotonic() + timeout_s
        while _alive(pid):
            if time.monotonic() > deadline:
                raise WherryError(
                    f"the server of {self.home} (process {pid}) has not stopped after "
                    f"{timeout_s:.0f} s",
                    hint=f"look at {self.log_path}, or end it with: kill -9 {pid}",
                )
            time.sleep(0.02)
        return True

    def status(self) -> ServerStatus:
        info = self._info() or {}
        pid = info.get("pid") if isinstance(info.get("pid"), int) else None
        url = str(info.get("url") or "")
        health = _health(_address(info, "")) if pid is not None and _alive(pid) else None
        if health is None:
            known = f"its process {pid} does not answer" if _alive(pid) else "no server is running"
            return ServerStatus(False, self.home, url, pid, "", None, None, known)
        return ServerStatus(
            running=True,
            home=self.home,
            url=url,
            pid=pid,
            version=str(health.get("version") or ""),
            api=health.get("api"),
            started_at=info.get("started_at"),
            message=f"running at {url}",
        )

    def log_tail(self, lines: int = 20) -> List[str]:
        """The last lines that the server wrote."""
        try:
            with open(self.log_path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - 400 * max(lines, 1)))
                text = file.read().decode("utf-8", "replace")
        except OSError:
            return []
        return text.splitlines()[-lines:]

    def _make_home(self) -> None:
        try:
            private_files.make_home(self.home)
            os.close(private_files.open_private(self._lock_path, os.O_RDWR))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            if os.path.exists(self.home) and not os.path.isdir(self.home):
                reason = "it is not a folder"
            raise ServerUnavailableError(
                f"no server can be started in {self.home}: {reason}",
                hint="WHERRY_HOME names another folder, WHERRY_SERVER a server that runs",
            ) from None

    def _answering(self) -> Optional[Address]:
        address = self.find()
        health = _health(address) if address else None
        if address is None or health is None:
            return None
        if health.get("api") != API:
            raise mismatch(address.url, str(health.get("version")), str(health.get("api")))
        return address

    def _start(self, deadline: float, patience: _Patience) -> Address:
        """One that a client has started, and waited for in vain, needs time and not a rival."""
        require_server_packages(self.home)
        earlier = self._begun()
        address = self._outcome(earlier, deadline, patience) if earlier is not None else None
        if address is not None:
            return address
        with suppress(FileNotFoundError):
            os.unlink(self._stopped_path)
        log = private_files.open_private(self.log_path, os.O_WRONLY | os.O_APPEND)
        try:
            began = os.lseek(log, 0, os.SEEK_END)
            pid = _spawn(self.home, log)
        finally:
            os.close(log)
        with suppress(OSError), open(self._lock_path, "w", encoding="utf-8") as file:
            file.write(str(pid))
        address = self._outcome(pid, deadline, patience)
        if address is None:
            raise self._failed(began)
        return address

    def _begun(self) -> Optional[int]:
        """The process of a server that has not told its address yet."""
        try:
            with open(self._lock_path, encoding="utf-8") as file:
                pid = int(file.read() or 0)
        except (OSError, ValueError):
            return None
        told = (self._info() or {}).get("pid")
        return pid if pid != told and _alive(pid) and _is_server(pid) else None

    def _outcome(self, pid: int, deadline: float, patience: _Patience) -> Optional[Address]:
        """Where the server answers that the process becomes; None if it ended before that."""
        while True:
            address = self._answering()
            if address is not None:
                return address
            if not _alive(pid):
                return self._answering()  # another server may hold the home
            if time.monotonic() > deadline:
                raise self._late()
            patience.tell(f"starting the Wherry server for {self.home} ...")
            time.sleep(0.02)

    def _failed(self, began: int) -> ServerUnavailableError:
        """In the words with which the server ended."""
        with open(self.log_path, "rb") as file:
            file.seek(began)
            log = file.read().decode("utf-8", "replace").strip()
        said = log.rpartition("error: ")[2] if "error: " in log else "".join(log.splitlines()[-1:])
        sentence, _, hint = said.partition("\n\nhint: ")
        if not sentence:
            full = not os.statvfs(self.home).f_bavail
            sentence = "its disk is full" if full else "it ended at once"
            hint = "make room there, or name another folder with WHERRY_HOME" if full else ""
        return ServerUnavailableError(
            f"no server can be started in {self.home}: {sentence}",
            hint=hint or f"its log is {self.log_path}",
        )

    def _late(self) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"the server of {self.home} did not answer within {self._timeout_s:g} s",
            hint=f"it goes on starting: repeat the command later, or look into {self.log_path}; "
            "WHERRY_START_TIMEOUT_S is how long to wait",
        )

    def _check_token(self) -> None:
        """A server that runs made its token before it told its address."""
        status = self.status()
        if status.running and self._token() is None:
            raise AuthenticationException(
                f"the server of {self.home} runs (process {status.pid}), but the file "
                f"{self._token_path} with its token is gone",
                hint="wherry server stop; the next server makes a new token",
            )

    def _ask_to_stop(self, address: Address, pid: int) -> None:
        client = Client(address, timeout_s=5.0)
        try:
            client.post("/server/stop", retry=True)
        except (ServerUnavailableError, VersionMismatchError, AuthenticationException):
            os.kill(pid, signal.SIGTERM)
        finally:
            client.close()

    def _info(self) -> Optional[Dict[str, Any]]:
        try:
            with open(self.file_path, encoding="utf-8") as file:
                info = loads(file.read())
        except (OSError, ValueError):
            return None
        return info if isinstance(info, dict) and info.get("url") else None

    def _token(self) -> Optional[str]:
        token = private_files.read_secret(self._token_path)
        if token is not None:
            private_files.check_home(self.home)
        return token


class _Patience:
    """Says once what is being waited for, when it takes more than a second."""

    def __init__(self) -> None:
        self._since = time.monotonic()
        self._told = False

    def tell(self, sentence: str) -> None:
        if not self._told and time.monotonic() - self._since > 1.0:
            self._told = True
            say(sentence)


class _StartLock:
    """Held by the one client that starts the server. The kernel drops it with its holder."""

    def __init__(self, path: str, deadline: float, patience: _Patience) -> None:
        self._path = path
        self._deadline = deadline
        self._patience = patience
        self._fd = -1

    def __enter__(self) -> None:
        import fcntl

        self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() > self._deadline:
                    os.close(self._fd)
                    raise ServerUnavailableError(
                        f"another process has been starting the server for too long: {self._path}",
                        hint="try again; wherry server logs says what it waits for",
                    ) from None
            else:
                return
            self._patience.tell("waiting for the Wherry server that another process starts ...")
            time.sleep(0.02)

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


_children: Set[int] = set()


def _spawn(home: str, log: int) -> int:
    """Start the server detached: its own session, no terminal, no open file of ours."""
    import subprocess

    process = subprocess.Popen(
        [sys.executable, "-m", _PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        cwd=home,
        env=server_environment(home),
        start_new_session=True,
    )
    _children.add(process.pid)
    process.returncode = 0  # it outlives us: Popen must neither wait for it nor warn
    return process.pid


def require_server_packages(home: str) -> None:
    from importlib.util import find_spec

    for name in ("wherry.api", "cryptography", "fastapi", "sqlalchemy", "uvicorn"):
        if find_spec(name) is None:
            raise ServerUnavailableError(
                f"no server is running for {home}, and {sys.executable} has no {name} to start one",
                hint="pip install 'wherry[server]' (with Python 3.11 or newer), or set "
                "WHERRY_SERVER to a server that runs",
            )


def _address(info: Mapping[str, Any], token: str) -> Address:
    return Address(str(info.get("url") or ""), token, str(info.get("id") or ""))


def _health(address: Address) -> Optional[Dict[str, Any]]:
    """What the server says of itself, whatever its version; None if it says nothing."""
    from http.client import HTTPConnection, HTTPException
    from urllib.parse import urlsplit

    parts = urlsplit(address.url)
    connection = HTTPConnection(parts.hostname or "127.0.0.1", parts.port or 80, timeout=5.0)
    try:
        connection.request("GET", "/api/v1/health")
        response = connection.getresponse()
        if address.server_id not in ("", response.getheader("Wherry-Server")):
            return None
        found = loads(response.read())
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return found if isinstance(found, dict) and "api" in found else None


def _alive(pid: Any) -> bool:
    _reap()
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except OSError:  # also EPERM: a process of someone else is not our server
        return False
    return not _zombie(pid)


def _is_server(pid: int) -> bool:
    """Not another program that has the number by now."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return _PROGRAM.encode() in file.read().split(b"\0")
    except OSError:
        return not os.path.isdir("/proc/self")


def _zombie(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[:1] == [b"Z"]
    except OSError:
        return False


def _reap() -> None:
    for pid in list(_children):
        try:
            if os.waitpid(pid, os.WNOHANG)[0]:
                _children.discard(pid)
        except ChildProcessError:  # started before a fork, or waited for elsewhere
            _children.discard(pid)
