"""The engine that runs containers, Docker or podman, spoken to by Docker's HTTP interface.

Paths carry no version: Docker then answers as its newest, and podman knows but one.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import ssl
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Union
from urllib.parse import urlencode

from . import certificates
from .contexts import chosen
from .error import ContainerError, EngineError

_RUN = "the environment"
_CONNECT_S = 10.0
ANSWER_S = 120.0
_BLOCK = 1 << 16
_MOST = 2000

Body = Union[bytes, Iterator[bytes], Mapping[str, Any], None]


class Engine:
    """``address`` is written as in ``DOCKER_HOST``, or as ``certificates`` has it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._open: List[http.client.HTTPConnection] = []

    @property
    def rootless(self) -> bool:
        """Whether root in its containers is the user that owns it."""
        path = _socket_path(self.address)
        try:
            return bool(path) and os.stat(path).st_uid != 0
        except OSError:
            return False

    def call(
        self,
        method: str,
        path: str,
        body: Body = None,
        /,
        *,
        patient: bool = False,
        raw: bool = False,
        within_s: float = ANSWER_S,
        **query: Any,
    ) -> Any:
        """What it answers, parsed unless ``raw``; ``EngineError`` if it does not do it.

        With ``patient`` the answer may take for ever.
        """
        patience_s = None if patient else within_s
        connection, reply = self._send(method, path, body, query, {}, patience_s)
        try:
            return reply.read() if raw else _parsed(reply.read())
        except (OSError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        finally:
            self._close(connection)

    def follow(
        self,
        path: str,
        body: Body = None,
        headers: Optional[Mapping[str, str]] = None,
        **query: Any,
    ) -> Iterator[Dict[str, Any]]:
        """The objects that it sends one by one while it works."""
        connection, reply = self._send("POST", path, body, query, headers or {}, None)
        try:
            yield from _objects(reply)
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._silent(error) from None
        finally:
            self._close(connection)

    def hang_up(self) -> None:
        """From another thread: end what is under way, which makes the engine stop its work."""
        for connection in list(self._open):
            if connection.sock is not None:
                try:
                    connection.sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue

    def name(self) -> str:
        """For sentences, such as ``podman 4.3.1``."""
        try:
            version = self.call("GET", "/version")
        except (ContainerError, EngineError):
            return "the container engine"
        podman = any("Podman" in str(part.get("Name")) for part in version.get("Components") or [])
        return f"{'podman' if podman else 'Docker'} {version.get('Version', '')}".strip()

    def _send(
        self,
        method: str,
        path: str,
        body: Body,
        query: Mapping[str, Any],
        headers: Mapping[str, str],
        patience_s: Optional[float],
    ) -> Tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        connection = self._connection()
        self._open.append(connection)
        wanted = {"Host": "localhost", **headers}
        if isinstance(body, Mapping):
            body = json.dumps(body).encode()
            wanted["Content-Type"] = "application/json"
        if query:
            path += "?" + urlencode({name: _text(value) for name, value in query.items()})
        try:
            connection.connect()
            connection.sock.settimeout(patience_s)
            connection.request(method, path, body, wanted)
            reply = connection.getresponse()
            refusal = _message(reply) if reply.status >= 400 else ""
        except (OSError, http.client.HTTPException) as error:
            self._close(connection)
            raise self._silent(error) from None
        if refusal:
            self._close(connection)
            raise EngineError(reply.status, refusal)
        return connection, reply

    def _connection(self) -> http.client.HTTPConnection:
        path = _socket_path(self.address)
        if path:
            return _UnixConnection(path)
        try:
            host, port, trust = certificates.dialled(self.address)
        except OSError as error:
            raise ContainerError(
                f"the certificates for the container engine at {self.address} cannot be used: "
                f"{error}; DOCKER_CERT_PATH, or Docker's context, says where they are"
            ) from None
        if trust is None:
            return http.client.HTTPConnection(host, port, timeout=_CONNECT_S)
        return http.client.HTTPSConnection(host, port, timeout=_CONNECT_S, context=trust)

    def _close(self, connection: http.client.HTTPConnection) -> None:
        if connection in self._open:
            self._open.remove(connection)
        connection.close()

    def _silent(self, error: Exception) -> ContainerError:
        if isinstance(error, ssl.SSLError):
            return ContainerError(
                f"the container engine at {self.address} and {os.uname().nodename} do not trust "
                f"each other ({error}); look at the certificates"
            )
        return ContainerError(
            f"the container engine at {self.address} on {os.uname().nodename} does not answer "
            f"({error}); start Docker or podman's socket there"
        )


def find(variables: Mapping[str, str], who: str = _RUN) -> Engine:
    """The engine that the variables or Docker's context name, else the first that answers."""
    named = chosen(variables)
    if named:
        return Engine(_checked(named))
    for path in sockets(variables):
        if _answers(path):
            return Engine(f"unix://{path}")
    anew = "" if who == _RUN else ", where the server is started (wherry server stop, then start)"
    raise ContainerError(
        f"{who} asks for a container, but no container engine answers on "
        f"{os.uname().nodename}; install Docker, or podman with its socket "
        f"(systemctl --user enable --now podman.socket), or name one in DOCKER_HOST{anew}"
    )


def sockets(variables: Mapping[str, str]) -> List[str]:
    """Where engines are that nobody names."""
    own = variables.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    return [
        "/var/run/docker.sock",
        f"{own}/docker.sock",
        f"{own}/podman/podman.sock",
        "/run/podman/podman.sock",
    ]


def _checked(address: str) -> str:
    if not address.startswith(("unix://", "tcp://", "http://", "https://")):
        raise ContainerError(
            f"the container engine of {os.uname().nodename} is to be {address!r} (DOCKER_HOST, or "
            "the context of Docker), which cannot be used here; it begins with unix:// or tcp://"
        )
    return address


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_CONNECT_S)
        try:
            probe.connect(path)
        except OSError:
            return False
    return True


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_CONNECT_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _socket_path(address: str) -> str:
    return address[len("unix://") :] if address.startswith("unix://") else ""


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, (dict, list)) else str(value)


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except ValueError:
        return data


def _message(reply: http.client.HTTPResponse) -> str:
    data = reply.read(_BLOCK)
    found = _parsed(data)
    if isinstance(found, dict):
        return str(found.get("message") or found.get("cause") or found)[:_MOST]
    return data.decode("utf-8", "replace").strip()[:_MOST] or f"it answered {reply.status}"


def _objects(reply: http.client.HTTPResponse) -> Iterator[Dict[str, Any]]:
    """One after the other, with or without line ends between them."""
    decoder, text = json.JSONDecoder(), ""
    while True:
        piece = reply.read1(_BLOCK)
        text = (text + piece.decode("utf-8", "replace")).lstrip()
        while text:
            try:
                found, end = decoder.raw_decode(text)
            except ValueError:
                break  # the rest of it is on its way
            text = text[end:].lstrip()
            if isinstance(found, dict):
                yield found
        if not piece:
            return
