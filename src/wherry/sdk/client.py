"""The server as the SDK sees it: calls, retries, streams, and problems as exceptions."""

from __future__ import annotations

import time
from json import dumps, loads
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Tuple,
)

from ..core.errors import ServerUnavailableError, VersionMismatchError, WherryError, from_problem
from ..core.version import API, VERSION
from .console import say
from .transport import Body, Pool, Response, Unreachable

BASE = "/api/v1"

Params = Mapping[str, Any]


class Address(NamedTuple):
    """Where a server is, how to be let in, and by what to tell it from another at that place."""

    url: str
    token: str = ""
    server_id: str = ""


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
        self._pool = Pool()

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def token(self) -> str:
        return self._address.token

    @property
    def server_id(self) -> str:
        return self._address.server_id

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
                        raise self.unavailable(failure) from failure
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
            safe = method in ("GET", "PUT", "PATCH")
            retry = safe or path.endswith(("/blobs", "/snapshots"))
        once = hasattr(body, "__next__")
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        target = BASE + path + _query(params)
        for pause_s in (*_PAUSES_S, None):
            try:
                return self._exchange(method, target, body, sent, timeout_s)
            except Unreachable as failure:
                if pause_s is None or (failure.sent and (once or not retry)):
                    raise self.unavailable(failure) from failure
                self._move(start)
                time.sleep(pause_s)
        raise AssertionError

    def stream(
        self,
        path: str,
        *,
        offset: int = 0,
        follow: bool = False,
        patience_s: Optional[float] = None,
    ) -> Iterator[bytes]:
        """The bytes of a log from ``offset`` on; a broken connection is taken up where it broke.

        With ``follow`` it goes on until the server says that this is all.
        """
        if patience_s is None:
            patience_s = 600.0 if follow else 10.0
        outage = Outage(patience_s)
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
                    outage.bear(self.unavailable(failure))

    def wait(
        self, path: str, params: Params, *, timeout_s: float, patience_s: float = 600.0
    ) -> Any:
        """A ``get`` that the server may hold back for ``timeout_s``; an outage is sat out."""
        outage = Outage(patience_s)
        while True:
            try:
                return self.get(
                    path, {**params, "timeout_s": timeout_s}, timeout_s=timeout_s + 30, start=False
                )
            except ServerUnavailableError as failure:
                outage.bear(self.unavailable(failure))

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
        if self.server_id not in ("", response.header("Wherry-Server")):
            response.close()
            raise Unreachable("another server answers at its address", sent=False)
        if api != str(API):
            other = response.header("Wherry-Version") or "of another version"
            response.close()
            raise mismatch(self.url, other, api)
        if response.status >= 400:
            raise _problem(response)

    def _move(self, start: bool) -> None:
        if self._relocate is not None:
            self._address = self._relocate(start)

    def unavailable(self, failure: ServerUnavailableError) -> ServerUnavailableError:
        """The failure as a sentence for users."""
        if not isinstance(failure, Unreachable):
            return failure
        return ServerUnavailableError(
            f"the server at {self.url} cannot be reached: {failure.message}",
            hint="wherry server status says whether one runs; WHERRY_SERVER names another",
        )


class Outage:
    """A time without a server: borne for so long, and told once when it is not over at once."""

    def __init__(self, patience_s: float) -> None:
        self._patience_s = patience_s
        self._since: Optional[float] = None
        self._told = False

    def bear(self, failure: ServerUnavailableError) -> None:
        if self._since is None:
            self._since = time.monotonic()
        lasted = time.monotonic() - self._since
        if lasted > self._patience_s:
            raise failure
        if lasted > _TELL_AFTER_S and not self._told:
            self._told = True
            say(f"{failure.message}; trying again")
        time.sleep(0.2)

    def over(self) -> None:
        self._since = None
        self._told = False


_TELL_AFTER_S = 3.0
_PAUSES_S = (0.0, 0.2, 0.5, 1.0, 2.0)


def mismatch(url: str, version: str, api: str) -> VersionMismatchError:
    """The sentence for a server that this client cannot talk to."""
    return VersionMismatchError(
        f"the server at {url} is Wherry {version} (API {api}), "
        f"this client is Wherry {VERSION} (API {API})",
        hint="stop it with wherry server stop and repeat, "
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
    return WherryError(f"the server answered {status}", hint="wherry server logs says more")
