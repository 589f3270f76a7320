"""HTTP connections: kept while idle, closed when broken, and one kind of failure for all."""

from __future__ import annotations

import os
import select
from types import TracebackType
from typing import (
    Any,
    Callable,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Type,
    Union,
)

from ..core.errors import ServerUnavailableError
from ..runner.peers import is_strange
from .settings import variable

CHUNK = 1 << 16

Body = Union[bytes, Iterable[bytes], Callable[[], Iterable[bytes]]]


class _Link(NamedTuple):
    """A connection, the server it is for, and what goes before a path to get there."""

    connection: Any
    url: str
    prefix: str = ""


class Pool:
    """Idle connections. A forked child starts with none."""

    def __init__(self) -> None:
        self._idle: List[_Link] = []
        self._pid = os.getpid()

    def take(self, url: str, timeout_s: float) -> _Link:
        """A live connection; failing to make one is ``Unreachable`` with nothing sent."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self.close()
        while self._idle:
            link = self._idle.pop()
            if link.url == url and not _stale(link.connection):
                link.connection.sock.settimeout(timeout_s)
                return link
            link.connection.close()
        return _connect(url, timeout_s)

    def give(self, link: _Link) -> None:
        if link.connection.sock is None or len(self._idle) >= 8:
            link.connection.close()
        else:
            self._idle.append(link)

    def close(self) -> None:
        while self._idle:
            self._idle.pop().connection.close()


class Response:
    """One answer. Closing it early gives up its connection; reading it to the end keeps it."""

    def __init__(self, pool: Pool, link: _Link) -> None:
        self._pool = pool
        self._link: Optional[_Link] = link
        self._raw: Any = None

    @property
    def status(self) -> int:
        return int(self._raw.status)

    def header(self, name: str) -> Optional[str]:
        value = self._raw.getheader(name)
        return None if value is None else str(value)

    def begin(
        self, method: str, target: str, body: Optional[Body], headers: Mapping[str, str]
    ) -> None:
        assert self._link is not None
        connection, chunked = self._link.connection, "Transfer-Encoding" in headers
        with _Guard(self):
            try:
                content = body() if callable(body) else body
                with _AtOnce(connection, isinstance(content, bytes)):
                    connection.request(
                        method, self._link.prefix + target, content, headers, encode_chunked=chunked
                    )
            except (BrokenPipeError, ConnectionResetError):
                pass  # a server that refuses a body answers before it has read it
            self._raw = connection.getresponse()

    def read(self, limit: int = -1) -> bytes:
        with _Guard(self):
            return bytes(self._raw.read() if limit < 0 else self._raw.read(limit))

    def chunks(self) -> Iterator[bytes]:
        """The content as it arrives."""
        while True:
            with _Guard(self):
                chunk = self._raw.read1(CHUNK)
                if not chunk and self._raw.length:  # read1 itself does not mind
                    raise OSError(f"{self._raw.length} bytes of the answer are missing")
            if not chunk:
                self._raw.close()
                return
            yield chunk

    def close(self) -> None:
        link, self._link = self._link, None
        if link is None:
            return
        if self._raw is not None and self._raw.isclosed():
            self._pool.give(link)
            return
        if self._raw is not None:
            self._raw.close()
        link.connection.close()

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()


class Unreachable(ServerUnavailableError):
    """No answer, or half of one.

    ``sent``: the request may have arrived. ``quiet``: nothing but silence.
    """

    def __init__(self, message: str, *, sent: bool, quiet: bool = False) -> None:
        super().__init__(message)
        self.sent = sent
        self.quiet = quiet


class _Guard:
    """Turns what can go wrong on a connection into ``Unreachable``, and closes it."""

    def __init__(self, response: Response) -> None:
        self._response = response

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is None:
            return
        self._response.close()
        from http.client import HTTPException
        from socket import timeout

        # http.client lets ValueError out when a chunked answer breaks off.
        if isinstance(error, (OSError, HTTPException, ValueError)):
            broken = not isinstance(error, OSError)
            message = "its answer broke off" if broken else str(error) or type(error).__name__
            raise Unreachable(message, sent=True, quiet=isinstance(error, timeout)) from error


class _AtOnce:
    """A request whose body is at hand goes out in one piece: its head alone wakes the server up
    for nothing.
    """

    def __init__(self, connection: Any, wanted: bool) -> None:
        self._connection = connection
        self._wanted = wanted
        self._pieces: List[bytes] = []

    def __enter__(self) -> None:
        if self._wanted:
            self._connection.send = self._pieces.append

    def __exit__(self, kind: Optional[Type[BaseException]], *_: object) -> None:
        if self._wanted:
            del self._connection.send
            if kind is None:
                self._connection.send(b"".join(self._pieces))


def _connect(url: str, timeout_s: float) -> _Link:
    from http.client import HTTPConnection, HTTPException, HTTPSConnection
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    secure = parts.scheme == "https"
    host, port = parts.hostname or "127.0.0.1", parts.port or (443 if secure else 80)
    proxy = None if _is_loopback(host) else _proxy_for(parts.scheme, host)
    kind = HTTPSConnection if secure else HTTPConnection
    connection: Any = kind(proxy.hostname, proxy.port or 8080) if proxy else kind(host, port)
    if proxy and secure:
        connection.set_tunnel(host, port)
    connection.timeout = min(timeout_s, _CONNECT_S)
    try:
        connection.connect()
    except (OSError, HTTPException) as error:
        connection.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise Unreachable(str(reason).lower(), sent=False) from error
    if _leads_astray(host, connection.sock):
        connection.close()
        raise Unreachable("a program of another user answers at its address", sent=False)
    connection.sock.settimeout(timeout_s)
    whole = proxy and not secure  # a plain proxy is told the whole address
    return _Link(connection, url, (f"http://{parts.netloc}" if whole else "") + parts.path)


_CONNECT_S = 10.0


def _leads_astray(host: str, connected: Any) -> bool:
    """In a run on another machine than the server's: its port there may be anybody's by now."""
    user = variable("WHERRY_SERVER_USER")
    return bool(user) and _is_loopback(host) and is_strange(connected, str(user))


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


def _proxy_for(scheme: str, host: str) -> Any:
    from urllib.parse import urlsplit
    from urllib.request import getproxies_environment, proxy_bypass

    proxy = getproxies_environment().get(scheme)
    if not proxy or proxy_bypass(host):
        return None
    return urlsplit(proxy if "//" in proxy else f"//{proxy}")


def _stale(connection: Any) -> bool:
    """Whether the server has closed it: an idle connection has nothing to read."""
    if connection.sock is None:
        return True
    poll = select.poll()
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
