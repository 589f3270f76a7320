"""JupyterLab as a process: started, asked whether it answers, ended with all of its kernels."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from contextlib import suppress
from glob import escape, glob
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional

from wherry.runner import tree

from .contract import Contract
from .home import Home
from .saying import lines, write

_LAST_LINES = 20
_ASK_EVERY_S = 0.1
_ANSWER_S = 10.0
_REST_S = 1.0
# Else a file of theirs that is called random.py would be imported in the place of Python's own.
_SAFELY = ["-P"] if sys.version_info >= (3, 11) else []
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # it would have each start compile all of JupyterLab


_CONFIG = "JUPYTER_CONFIG_DIR"


class Jupyter:
    """One JupyterLab behind a socket. ``python`` is that of the environment it was made in: what
    people install for their notebooks cannot keep it from starting. ``plain`` leaves out what they
    have set for it, and ``refuses`` says that it does not listen to what it was told.
    """

    def __init__(
        self, python: str, home: Home, contract: Contract, variables: Mapping[str, str]
    ) -> None:
        self.socket = os.path.join(home.private, "j.sock")
        self.plain = False
        self.refuses = False
        self._runtime = os.path.join(home.private, "runtime")
        self._python = python
        self._home = home
        self._contract = contract
        self._variables = dict(variables)
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._reader: Optional[threading.Thread] = None
        self._tail: Deque[bytes] = deque(maxlen=_LAST_LINES)

    def start(self) -> None:
        """Raises ``OSError``."""
        for left in (self.socket, self._runtime):
            _remove(left)
        os.makedirs(self._runtime, mode=0o700)
        self._tail.clear()
        self.refuses = False
        self._process = subprocess.Popen(
            self._command(),
            cwd=self._home.path,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, name="jupyter", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def wait_until_it_answers(self, limit_s: float, stopped: Callable[[], object]) -> bool:
        until = time.monotonic() + limit_s
        while self.running() and not stopped() and time.monotonic() < until:
            if self.answers():
                return True
            if self.refuses:
                break
            time.sleep(_ASK_EVERY_S)
        return False

    def answers(self) -> bool:
        connection = _Connection(self.socket, _ANSWER_S)
        headers = {"Authorization": f"token {self._contract.jupyter_token}"}
        try:
            connection.request("GET", f"{self._contract.base_url}api/status", headers=headers)
            answer = connection.getresponse()
            self.refuses = 300 <= answer.status < 500
            return answer.status == 200 and "kernels" in json.loads(answer.read())
        except (OSError, ValueError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def settings(self) -> str:
        """The folder with what people have set for it; empty where there is nothing."""
        folder = self._variables.get(_CONFIG, "")
        found = glob(os.path.join(escape(folder), "*_config*")) if folder else []
        return folder if found else ""

    def last_words(self) -> str:
        """How it ended, and its last lines."""
        code = self._process.poll() if self._process is not None else None
        if code is not None and self._reader is not None:
            self._reader.join(_REST_S)  # a kernel may hold the pipe open
        how = "does not answer" if code is None else f"ended with exit code {code}"
        if code is None and self.refuses:
            how = "is not at the address, or does not know the token, that it was given"
        if code is not None and code < 0:
            how = f"was ended by signal {-code}"
        lines = b"".join(self._tail).decode("utf-8", "replace").strip()
        return f"JupyterLab {how}" + (f"\n{lines}" if lines else "")

    def stop(self, grace_s: float) -> None:
        """It ends its kernels and terminals itself, if it is given the time."""
        process = self._process
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                process.wait(grace_s)
        if process.poll() is None:
            tree.kill(tree.members(process.pid, process.pid))
            process.kill()
            process.wait()
        self.end_kernels()

    def end_kernels(self) -> None:
        """Those of a JupyterLab that is gone: nobody can reach them any more."""
        tree.send(_naming(self._runtime), signal.SIGKILL)

    def _command(self) -> List[str]:
        options: Dict[str, Any] = {
            "ServerApp.sock": self.socket,
            "ServerApp.sock_mode": "0600",
            "ServerApp.base_url": self._contract.base_url,
            "ServerApp.root_dir": self._home.path,
            "ServerApp.open_browser": False,
            "ServerApp.allow_remote_access": True,
            "ServerApp.quit_button": False,
            "ServerApp.terminals_enabled": True,
            "ServerApp.terminado_settings": {"shell_command": self._shell()},
            "LabApp.extension_manager": "readonly",  # the other one would write to the shared cache
            "LabApp.check_for_updates_class": "jupyterlab.NeverCheckForUpdate",
            "LabApp.news_url": None,
        }
        if os.geteuid() == 0:
            options["ServerApp.allow_root"] = True
        words = [f"--{name}={value}" for name, value in options.items()]
        return [self._python, *_SAFELY, "-m", "jupyterlab", *words]

    def _shell(self) -> List[str]:
        """One that is not a login shell: many machines' profiles set another PATH."""
        bash = shutil.which("bash")
        return [bash, "--rcfile", self._home.rcfile] if bash else ["/bin/sh"]

    def _environment(self) -> Dict[str, str]:
        """What is on ``JUPYTER_PATH`` goes before what JupyterLab has of its own: the kernel
        ``python3`` of the shared cache, into which nobody is to install anything.
        """
        installed = os.path.join(self._home.venv, "share", "jupyter")
        variables = dict(self._variables)
        variables.pop(_NO_BYTECODE, None)
        if self.plain:
            variables[_CONFIG] = os.path.join(self._runtime, "config")
        return {
            **variables,
            "JUPYTER_TOKEN": self._contract.jupyter_token,  # not an argument: all can read those
            "JUPYTER_RUNTIME_DIR": self._runtime,
            "JUPYTER_PATH": os.pathsep.join([self._home.jupyter, installed]),
        }

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        token = self._contract.jupyter_token.encode()
        with self._process.stdout as pipe:
            for line in lines(pipe):
                shown = line.replace(token, b"***")
                self._tail.append(shown)
                write(shown)


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path
        self._limit_s = timeout_s

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self._limit_s)
        self.sock.connect(self._path)


def _naming(path: str) -> List[int]:
    """Processes with that path in their command line (Linux)."""
    found = []
    for pid in tree.processes():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(path) in file.read():
                    found.append(pid)
        except OSError:
            continue
    return [pid for pid in found if pid != os.getpid()]


def _remove(path: str) -> None:
    if os.path.isdir(path):
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(FileNotFoundError):
            os.unlink(path)
