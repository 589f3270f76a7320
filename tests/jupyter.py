"""A client of JupyterLab's own interface, over its unix socket: calls, kernels, terminals."""

from __future__ import annotations

import http.client
import json
import socket
import time
import uuid
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

from websockets.sync.client import ClientConnection, connect, unix_connect

_PATIENCE_S = 300.0


class Lab:
    """One JupyterLab behind a socket of this machine."""

    def __init__(self, path: str, base_url: str, token: str) -> None:
        self._path = path
        self._base_url = base_url
        self._token = token

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """What it answers, as JSON; anything but a success is an ``AssertionError``."""
        status, content = self.answer(method, path, body)
        assert status < 300, f"{method} {path}: {status} {content!r}"
        return json.loads(content) if content else None

    def answer(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("localhost", timeout=_PATIENCE_S)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(_PATIENCE_S)
        connection.sock.connect(self._path)
        headers = {"Authorization": f"token {self._token if token is None else token}"}
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, self._base_url + path, data, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def websocket(self, path: str) -> ClientConnection:
        return unix_connect(
            self._path,
            f"ws://localhost{self._base_url}{path}",
            additional_headers={"Authorization": f"token {self._token}"},
            open_timeout=_PATIENCE_S,
            max_size=None,
        )

    def kernel(self, name: str = "python3", path: str = "") -> Kernel:
        """One of a notebook at that path: it begins in the notebook's folder."""
        body = {"kernel": {"name": name}, "name": "", "path": path or "x.ipynb", "type": "notebook"}
        found = self.call("POST", "api/sessions", body)
        return Kernel(self, str(found["kernel"]["id"]))

    def terminal(self) -> Terminal:
        return Terminal(self, str(self.call("POST", "api/terminals")["name"]))


class Kernel:
    """A kernel and its websocket. Code is executed as a notebook's cell."""

    def __init__(self, lab: Lab, kernel_id: str) -> None:
        self.id = kernel_id
        self._session = uuid.uuid4().hex
        self._socket = lab.websocket(f"api/kernels/{kernel_id}/channels?session_id={self._session}")

    def run(self, code: str) -> str:
        """What the cell printed or showed; its error is an ``AssertionError``."""
        sent = self.send(code)
        shown: list[str] = []
        until = time.monotonic() + _PATIENCE_S
        while True:
            message = json.loads(self._socket.recv(max(0.1, until - time.monotonic())))
            if message["parent_header"].get("msg_id") != sent:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "stream":
                shown.append(content["text"])
            elif kind == "execute_result":
                shown.append(content["data"]["text/plain"])
            elif kind == "error":
                raise AssertionError("\n".join(content["traceback"]) + "".join(shown))
            elif kind == "status" and content["execution_state"] == "idle":
                return "".join(shown)

    def send(self, code: str) -> str:
        header = {
            "msg_id": uuid.uuid4().hex,
            "msg_type": "execute_request",
            "username": "",
            "session": self._session,
            "version": "5.3",
            "date": "",
        }
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        message = {"header": header, "parent_header": {}, "metadata": {}, "content": content}
        self._socket.send(json.dumps({**message, "channel": "shell", "buffers": []}))
        return header["msg_id"]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Terminal:
    """A shell, typed into."""

    def __init__(self, lab: Lab, name: str) -> None:
        self._socket = lab.websocket(f"terminals/websocket/{quote(name)}")

    def run(self, line: str) -> str:
        """What the shell wrote until it was done with the line, and the line itself."""
        mark = uuid.uuid4().hex
        self.send(f"{line}; echo {mark[:16]}''{mark[16:]}\r")
        shown = ""
        until = time.monotonic() + _PATIENCE_S
        while mark not in shown:
            kind, *rest = json.loads(self._socket.recv(max(0.1, until - time.monotonic())))
            if kind == "stdout":
                shown += rest[0]
        return shown

    def send(self, text: str) -> None:
        self._socket.send(json.dumps(["stdin", text]))

    def close(self) -> None:
        self._socket.close()


class Visitor(Lab):
    """The same through the server, let in by an address that is good once, as a browser is."""

    def __init__(self, address: str) -> None:
        where = urlsplit(address)
        self._host = str(where.netloc)
        super().__init__("", where.path, "")
        status, headers, _ = self._ask("GET", f"{where.path}?{where.query}", {})
        assert status in (302, 303, 307), status
        self.cookie = str(headers["set-cookie"]).partition(";")[0]

    def answer(
        self, method: str, path: str, body: Any = None, token: str | None = None
    ) -> tuple[int, bytes]:
        headers = {"Cookie": self.cookie if token is None else token}
        status, _, content = self._ask(method, self._base_url + path, headers, body)
        return status, content

    def websocket(self, path: str) -> ClientConnection:
        return connect(
            f"ws://{self._host}{self._base_url}{path}",
            additional_headers={"Cookie": self.cookie},
            open_timeout=_PATIENCE_S,
            max_size=None,
        )

    def _ask(
        self, method: str, target: str, headers: dict[str, str], body: Any = None
    ) -> tuple[int, Any, bytes]:
        connection = http.client.HTTPConnection(self._host, timeout=_PATIENCE_S)
        origin = {"Origin": f"http://{self._host}"} if method != "GET" else {}
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, target, data, {**headers, **origin})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()
