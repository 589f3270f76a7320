"""HTTP to the server: one kept connection per call in flight, retries, problems as exceptions."""

from __future__ import annotations

import os
import select
import time
from json import dumps, loads
from types import TracebackType
from typing import (
    Any,
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    Union,
)

from ..core.errors import ServerUnavailableError, VersionMismatchError, WherryError, from_problem
from ..core.version import API, VERSION
from .console import say

BASE = "/api/v1"
CHUNK = 1 << 16

Body = Union[bytes, Iterable[bytes], Callable[[], Iterable[bytes]]]
Params = Mapping[str, Any]


class Address(NamedTuple):
    """Where a server is and how to be let in."""

    url: str
    token: str = ""


class Client:
    """A server, as the SDK sees it. May be shared by threads and survives a fork.

    ``relocate(start)`` is asked for the address when the server does not answer; with ``start`` it
    may start one. ``server_file`` is where a server on this machine writes its address.

    >>> client = Client(Address("http://127.0.0.1:8700", "secret"))
    >>> client.get("/workspaces")["items"]
    """

    def __init__(
        self,
        address: Address,
        *,
        relocate: Optional[Callable[[bool], Address]] = None,
        server_file: str = "",
        timeout_s: float = 60.0,
    ) -> None:
        self.server_file = server_file
        self._address = address
        self._relocate = relocate
        self._timeout_s = timeout_s
        self._pool = _Pool()

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def token(self) -> str:
        return self._address.token

    def get(self, path: str, params: Optional[Params] = None, **options: Any) -> Any:
        return self.request("GET", path, params=params, **options)

    def post(
        self,
        path: str,
        json: Any = None,
        *,
        data: Optional[Body] = None,
        length: Optional[int] = None,
        **options: Any,
    ) -> Any:
        return self.request("POST", path, json=json, data=data, length=length, **options)

    def put(self, path: str, *, data: Body, length: Optional[int] = None, **options: Any) -> Any:
        return self.request("PUT", path, data=data, length=length, **options)

    def patch(self, path: str, json: Any) -> Any:
        return self.request("PATCH", path, json=json)

    def delete(self, path: str) -> Any:
        return self.request("DELETE", path)

    def request(self, method: str, path: str, **options: Any) -> Any:
        """The JSON of the answer, None where it has none."""
        for last in (False, True):
            with self.open(method, path, **options) as response:
                try:
                    content = response.read()
                except Unreachable as failure:
                    if last or method not in ("GET", "PUT"):
                        raise self._unavailable(failure) from failure
                else:
                    return loads(content) if content else None
        raise AssertionError

    def open(
        self,
        method: str,
        path: str,
        *,
        params: Optional[Params] = None,
        json: Any = None,
        data: Optional[Body] = None,
        length: Optional[int] = None,
        headers: Optional[Mapping[str, str]] = None,
        timeout_s: Optional[float] = None,
        retry: Optional[bool] = None,
        start: bool = True,
    ) -> Response:
        """The answer, open for reading; use it in a ``with``.

        A call that never left is repeated. One that may have arrived is repeated only if doing it
        twice is doing it once: by its method or place, or because the caller says so with
        ``retry``. ``data`` that can be iterated only once is sent only once.
        """
        body: Optional[Body] = dumps(json).encode() if json is not None else data
        kind = "application/json" if json is not None else "application/octet-stream"
        sent = {**_content_headers(body, length, kind), **(headers or {})}
        if retry is None:
            retry = method != "POST" or path.endswith(("/blobs", "/snapshots"))
        once = hasattr(body, "__next__")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        target = BASE + path + _query(params)
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._exchange(method, target, body, sent, timeout_s)
            except Unreachable as failure:
                if pause_s is None or (failure.sent and (once or not retry)):
                    raise self._unavailable(failure) from failure
                self._move(start)
                time.sleep(pause_s)
        raise AssertionError

    def stream(
        self,
        path: str,
        *,
        offset: int = 0,
        follow: bool = False,
        patience_s: float = 600.0,
    ) -> Iterator[bytes]:
        """The bytes of a log from ``offset`` on; a broken connection is taken up where it broke.

        With ``follow`` it goes on until the server says that this is all.
        """
        outage = _Outage(patience_s)
        while True:
            params = {"offset": offset, "follow": follow}
            try:
                with self.open("GET", path, params=params, start=False) as response:
                    for chunk in response.chunks():
                        offset += len(chunk)
                        yield chunk
                        outage.over()
                    return
            except ServerUnavailableError as failure:
                if not (isinstance(failure, Unreachable) and failure.quiet):
                    outage.bear(self._unavailable(failure))

    def wait(
        self, path: str, params: Params, *, timeout_s: float, patience_s: float = 600.0
    ) -> Any:
        """A ``get`` that the server may hold back for ``timeout_s``; an outage is sat out."""
        outage = _Outage(patience_s)
        while True:
            try:
                return self.get(
                    path, {**params, "timeout_s": timeout_s}, timeout_s=timeout_s + 30, start=False
                )
            except ServerUnavailableError as failure:
                outage.bear(self._unavailable(failure))

    def close(self) -> None:
        self._pool.close()

    def __del__(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.close()

    def _exchange(
        self,
        method: str,
        target: str,
        body: Optional[Body],
        headers: Mapping[str, str],
        timeout_s: float,
    ) -> Response:
        address = self._address
        if address.token:
            headers = {**headers, "Authorization": f"Bearer {address.token}"}
        response = Response(self._pool, self._pool.take(address.url, timeout_s))
        response.begin(method, target, body, headers)
        self._check(response)
        return response

    def _check(self, response: Response) -> None:
        api = response.header("Wherry-Api")
        if api is None:
            status = response.status
            response.close()
            raise Unreachable(f"answered {status}, but not as a Wherry server", sent=True)
        if api != str(API):
            other = response.header("Wherry-Version") or "of another version"
            response.close()
            raise mismatch(self.url, other, api)
        if response.status >= 400:
            raise _problem(response)

    def _move(self, start: bool) -> None:
        if self._relocate is not None:
            self._address = self._relocate(start)

    def _unavailable(self, failure: ServerUnavailableError) -> ServerUnavailableError:
        if not isinstance(failure, Unreachable):
            return failure
        return ServerUnavailableError(
            f"the server at {self.url} cannot be reached: {failure.message}",
            hint="`wherry server status` says whether one runs; WHERRY_SERVER names another",
        )


class Response:
    """One answer. Closing it early gives up its connection; reading it to the end keeps it."""

    def __init__(self, pool: _Pool, link: _Link) -> None:
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
            message = str(error) or type(error).__name__
            raise Unreachable(message, sent=True, quiet=isinstance(error, timeout)) from error


class _Outage:
    """A time without a server, told once and borne for so long."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: Optional[float] = None

    def bear(self, failure: ServerUnavailableError) -> None:
        if self._since is None:
            self._since = time.monotonic()
            say(f"{failure.message}; trying again")
        if time.monotonic() - self._since > self._patience_s:
            raise failure
        time.sleep(0.2)

    def over(self) -> None:
        self._since = None


class _Link(NamedTuple):
    """A connection, the server it is for, and what goes before a path to get there."""

    connection: Any
    url: str
    prefix: str = ""


class _Pool:
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


_PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0)


def mismatch(url: str, version: str, api: str) -> VersionMismatchError:
    """The sentence for a server that this client cannot talk to."""
    return VersionMismatchError(
        f"the server at {url} is Wherry {version} (API {api}), "
        f"this client is Wherry {VERSION} (API {API})",
        hint="stop it with `wherry server stop` and repeat, "
        f"or install its version here: pip install 'wherry=={version}'",
    )


def quote(text: str, safe: str = "") -> str:
    """A part of a path, percent-encoded."""
    from urllib.parse import quote as encode

    return encode(text.encode("utf-8", "surrogateescape"), safe=safe)


def _content_headers(body: Optional[Body], length: Optional[int], kind: str) -> Dict[str, str]:
    headers = {"Wherry-Api": str(API), "User-Agent": f"wherry/{VERSION}"}
    if body is None:
        return headers
    headers["Content-Type"] = kind
    if isinstance(body, bytes):
        length = len(body)
    if length is None:
        headers["Transfer-Encoding"] = "chunked"
    else:
        headers["Content-Length"] = str(length)
    return headers


def _query(params: Optional[Params]) -> str:
    if not params:
        return ""
    from urllib.parse import urlencode

    pairs: List[Tuple[str, Any]] = []
    for name, value in params.items():
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is not None and item != "":
                pairs.append((name, str(item).lower() if isinstance(item, bool) else item))
    return "?" + urlencode(pairs) if pairs else ""


def _problem(response: Response) -> WherryError:
    status = response.status
    content = response.read()
    response.close()
    try:
        body = loads(content)
        if isinstance(body, dict) and body.get("detail"):
            return from_problem(body)
    except ValueError:
        pass
    return WherryError(f"the server answered {status}", hint="`wherry server logs` says more")


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
        raise Unreachable(str(error), sent=False) from error
    connection.sock.settimeout(timeout_s)
    whole = proxy and not secure  # a plain proxy is told the whole address
    return _Link(connection, url, (f"http://{parts.netloc}" if whole else "") + parts.path)


_CONNECT_S = 10.0


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
