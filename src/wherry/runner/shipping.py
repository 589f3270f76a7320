"""Brings logs, metrics and files to the server, however long it is away."""

from __future__ import annotations

import _thread
import os
import stat
import sys
import time

from .connection import Connection, NetworkError, Response
from .light import TYPE_CHECKING, dumps, loads

if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Tuple

CHUNK = 1 << 20
LOG_CHUNK = 4 << 20  # as much as the server takes: each request has its price
LONGEST_LINE = 4 << 20
LARGE = 8 << 20  # what is sent from where it broke off, not from its start
_MARK = 64
PATIENCE_S = 7 * 86400.0

_FIRST_DELAY_S = 0.2
_LAST_DELAY_S = 10.0
_LOOK_EVERY_S = 0.5
_TRIES = 3
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
_FINAL = frozenset({401, 403, 404, 410})
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/")


class RejectedError(Exception):
    """The server understood and said no; asking again would not help.

    ``final`` means that it no longer knows this run or this token: nothing else will be taken.
    """

    def __init__(self, status: int, detail: str, size: Optional[int] = None) -> None:
        super().__init__(f"{detail} ({status})")
        self.status = status
        self.size = size
        self.final = status in _FINAL


class AwayError(Exception):
    """The server did not answer for as long as the shipper was willing to wait."""


class ChangedError(Exception):
    """The file became shorter while it was sent; it has to be sent again."""


class Shipper:
    """A client for what a running script produces, which waits out a server that is away.

    Every call blocks until the server has taken what it was given. While the server does not
    answer, the call repeats itself with growing pauses for up to ``patience_s``, reading
    ``server_file`` again each time, since a restarted server may have another address. Nothing is
    counted twice: bytes travel with their offset. Files are read in pieces, so memory stays small.

    Raises ``RejectedError`` when the server says no and ``AwayError`` when patience ends. Safe to
    call from several threads; they take turns. With an empty ``server_url`` nothing is sent and
    every call succeeds. An answer that lacks ``server_id`` comes from another server, at an address
    that was ours: whatever it says, it is not the one that was asked.

        shipper = Shipper("http://127.0.0.1:8123", token)
        shipper.put_log(run_id, "user_logs/std_log.txt", attempt_id, "/tmp/x/std_log.txt")
        shipper.put_spool(run_id, "metrics.4711", "/tmp/x/spool/metrics.4711.jsonl")
        shipper.put_file(run_id, "outputs/model.pkl", "/tmp/x/work/outputs/model.pkl")
        shipper.close()

    Call ``put_log`` and ``put_spool`` again whenever the file may have grown: each sends what is
    new. ``hurry`` may be called from anywhere, also from a signal handler: it ends all waiting for
    an absent server, now and from then on. Call it before ``close`` where another thread may be
    waiting.
    """

    def __init__(
        self,
        server_url: str,
        token: str,
        server_file: Optional[str] = None,
        *,
        server_id: str = "",
        tunnel: bool = False,
        patience_s: float = PATIENCE_S,
        tell: Optional[Callable[[str], None]] = None,
    ) -> None:
        self._url = server_url
        self._token = token
        self._server_file = server_file
        self._server_id = server_id
        self._tunnel = tunnel
        self._patience_s = patience_s
        self._tell = tell or (lambda _sentence: None)
        self._connection: Optional[Connection] = None
        self._offsets: Dict[str, int] = {}
        self._emptied_at: Dict[str, int] = {}
        self._marks: Dict[str, Tuple[int, bytes]] = {}
        self._sent_whole: Dict[str, Tuple[int, int]] = {}
        self._blank_until: Dict[str, int] = {}
        self.sent_bytes = 0
        self._away = False
        self._hurried = False
        self._turn = _thread.allocate_lock()
        self._server_version: Optional[Tuple[int, int]] = None
        self._alarm = _thread.allocate_lock()
        self._alarm.acquire()

    @property
    def enabled(self) -> bool:
        return bool(self._url or self._server_file)

    def report(self, attempt_id: str, **fields: Any) -> Dict[str, Any]:
        """Tell how far the attempt has come; the reply says whether to cancel."""
        reply = self._ask("POST", f"/attempts/{quote(attempt_id)}/report", dumps(fields).encode())
        return reply if isinstance(reply, dict) else {}

    def put_log(
        self, run_id: str, name: str, attempt_id: str, path: str, limit: int = sys.maxsize
    ) -> int:
        """Send what the log gained, at most ``limit`` bytes of it; how many are left to send.

        A log may be emptied, as ``echo > /dev/stderr`` does to a file; what is in it then follows
        what was sent before.
        """
        return self._follow("PUT", _log_place(run_id, name, attempt_id), path, _log_piece, limit)

    def log_tail(
        self, run_id: str, name: str, attempt_id: str, path: str, limit: int
    ) -> Optional[Tuple[int, bytes]]:
        """Where the unsent part of the log begins, and all of it; None if it is not that simple."""
        place = _log_place(run_id, name, attempt_id)
        offset = self._offsets.get(place, 0)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            self._notice_emptied(place, handle)
            data = os.pread(handle, limit + 1, offset)
        finally:
            os.close(handle)
        if self._emptied_at.get(place) or len(data) > limit:
            return None
        return offset, data

    def put_spool(self, run_id: str, stream: str, path: str, limit: int = sys.maxsize) -> int:
        """Send the whole lines that the file gained; how many bytes are left to send.

        A last line that has no end yet is left for later and not counted. A line longer than the
        server takes arrives blank, so that those behind it can follow.
        """
        place = f"/runs/{quote(run_id)}/spool/{quote(stream)}?offset="

        def cut(handle: int, offset: int, size: int) -> bytes:
            return self._whole_lines(place, handle, offset, size)

        return self._follow("POST", place, path, cut, limit)

    def put_file(self, run_id: str, name: str, path: str) -> int:
        """Send a regular file under a name in the run; its size as sent.

        Raises ``OSError`` for a file that cannot be read, ``ChangedError`` for one that shrinks.
        """
        place = f"/runs/{quote(run_id)}/files/{quote(name)}"
        handle = open_regular(path)
        try:
            size = os.fstat(handle).st_size
            if size >= LARGE:
                return self._put_large(run_id, place, path, handle)
            self._ask("PUT", place, b"", size, lambda: _pieces(handle, size))
        finally:
            os.close(handle)
        return size

    def _put_large(self, run_id: str, place: str, path: str, handle: int) -> int:
        """In as many goes as it takes, each from where the server's copy ends."""
        wrong = gaps = 0
        while True:
            about = os.fstat(handle)
            size, upload = about.st_size, _upload_name(path, about, wrong)
            offset = int(self._ask("GET", f"/runs/{quote(run_id)}/uploads/{upload}").get("size", 0))
            rest = _Rest(handle, offset, size)
            try:
                where = f"{place}?upload={upload}&offset={offset}"
                reply = self._ask("PUT", where, b"", size - offset, rest.pieces)
            except _BrokenOffError:
                continue
            except RejectedError as error:
                gaps += 1
                if error.status != 409 or gaps == _TRIES:
                    raise
                continue
            if not offset or reply.get("digest") == rest.digest():
                return size
            wrong += 1
            if wrong == _TRIES:
                raise ChangedError("it changed while it was sent")

    def put_files(self, run_id: str, files: Iterable[Tuple[str, bytes]]) -> None:
        """Send small files, given as name and content, in one request."""
        frames = [b"%s %d\n%s" % (quote(name).encode(), len(data), data) for name, data in files]

        def all_stored(response: Response) -> None:
            if _json_body(response) != {"stored": len(frames)}:
                raise NetworkError("it does not say that it has stored everything")

        if frames:
            place = f"/runs/{quote(run_id)}/files/batch"
            self._ask("POST", place, b"".join(frames), receive=all_stored)

    def fetch(self, path: str, receive: Callable[[Iterator[bytes]], None]) -> None:
        """Hand the body found at ``path`` to ``receive``; again from its start if it breaks off."""
        if self.enabled:
            with self._turn:
                self._exchange("GET", path, receive=lambda response: receive(response.pieces()))

    def hurry(self) -> None:
        """Wait for an absent server no longer."""
        self._hurried = True
        if self._alarm.locked():
            self._alarm.release()

    def close(self) -> None:
        with self._turn:
            self._drop()

    def _follow(self, method: str, place: str, path: str, cut: _Cut, limit: int) -> int:
        """Send a growing file from where the server's copy ends."""
        try:
            about = os.stat(path)
        except FileNotFoundError:
            return 0
        version = (about.st_size, about.st_mtime_ns)
        if version == self._sent_whole.get(place, (0, version[1])) or not self.enabled:
            return 0
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._notice_emptied(place, handle)
            left = self._send_from(method, place, handle, about.st_size, cut, limit)
        finally:
            os.close(handle)
        if not left:
            self._sent_whole[place] = version
        return left

    def _notice_emptied(self, place: str, handle: int) -> None:
        """What was last sent no longer lies where it did."""
        at, mark = self._marks.get(place, (0, b""))
        if os.pread(handle, len(mark), at) != mark:
            self._emptied_at[place] = self._offsets.get(place, 0)

    def _send_from(
        self, method: str, place: str, handle: int, size: int, cut: _Cut, limit: int
    ) -> int:
        offset = start = self._offsets.get(place, 0)
        while True:
            begin = self._emptied_at[place] = min(offset, self._emptied_at.get(place, 0))
            if offset - begin >= size or offset - start >= limit:
                return max(0, begin + size - offset)
            data = cut(handle, offset - begin, size)
            if not data:
                return 0
            at = max(0, offset - begin + len(data) - _MARK)
            self._marks[place] = (at, os.pread(handle, offset - begin + len(data) - at, at))
            offset = self._put_at(method, place, offset, data)

    def _whole_lines(self, place: str, handle: int, offset: int, size: int) -> bytes:
        blank = self._blank_until.get(place, 0) - offset
        if blank > 0:
            return b" " * (min(blank, CHUNK) - 1) + b"\n"
        data = _piece(handle, offset, size)
        if b"\n" in data or len(data) < CHUNK:
            return data[: data.rfind(b"\n") + 1]
        end = _end_of_line(handle, offset)
        if end - offset > LONGEST_LINE:
            self._tell(f"a metric of {end - offset} bytes is larger than the server takes")
            self._blank_until[place] = end
            return self._whole_lines(place, handle, offset, size)
        return os.pread(handle, end - offset, offset) if end else b""

    def _put_at(self, method: str, place: str, offset: int, data: bytes) -> int:
        """Put bytes at their offset; where the server's copy ends now."""
        try:
            stored = self._ask(method, f"{place}{offset}", data).get("size", offset + len(data))
        except RejectedError as error:
            if error.status != 409 or error.size is None or error.size == offset:
                raise
            stored = error.size
        self.sent_bytes += len(data)
        self._offsets[place] = int(stored)
        return int(stored)

    def _ask(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        more: int = 0,
        stream: Optional[Callable[[], Iterable[bytes]]] = None,
        receive: Optional[Callable[[Response], Any]] = None,
    ) -> Any:
        if not self.enabled:
            return {}
        with self._turn:
            return self._exchange(method, path, body, more, stream, receive)

    def _exchange(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        more: int = 0,
        stream: Optional[Callable[[], Iterable[bytes]]] = None,
        receive: Optional[Callable[[Response], Any]] = None,
    ) -> Any:
        delay, give_up_at = _FIRST_DELAY_S, time.monotonic() + self._patience_s
        headers = self._headers(len(body) + more, method)
        while True:
            used = self._connection is not None and self._connection.used
            try:
                connection = self._connected()
                pieces = stream() if stream else ()
                response = connection.request(method, f"/api/v1{path}", headers, body, pieces)
                _check(response, self._server_id)
                return self._taken(response, receive or _json_body)
            except NetworkError as error:
                self._drop()
                problem = str(error)
                if used:
                    continue  # the server closes what has long been idle
            except BaseException:
                self._drop()
                raise
            self._wait(problem, delay, give_up_at)
            delay = min(delay * 2, _LAST_DELAY_S)

    def _headers(self, size: int, method: str) -> str:
        length = "" if method == "GET" else f"Content-Length: {size}\r\n"
        return f"Authorization: Bearer {self._token}\r\nWherry-Api: 1\r\n{length}"

    def _connected(self) -> Connection:
        if self._connection is None:
            if not self._url:
                self._locate()
            try:
                self._connection = Connection(self._url, tunnel=self._tunnel)
            except ValueError as error:
                raise NetworkError(str(error)) from None
        return self._connection

    def _taken(self, response: Response, receive: Callable[[Response], Any]) -> Any:
        if response.status >= 300:
            raise _rejection(response)
        result = receive(response)
        if not response.keeps_alive:
            self._drop()
        if self._away:
            self._away = False
            self._tell("the server answers again")
        return result

    def _wait(self, problem: str, delay: float, give_up_at: float) -> None:
        if self._hurried or time.monotonic() >= give_up_at:
            raise AwayError(f"the server at {self._url} does not answer: {problem}")
        if not self._away:
            self._away = True
            self._tell(f"the server at {self._url} does not answer ({problem}); trying again")
        until = time.monotonic() + delay
        while not self._locate() and time.monotonic() < until:
            if self._alarm.acquire(timeout=min(_LOOK_EVERY_S, delay)):
                return  # hurried

    def _locate(self) -> bool:
        """Whether a server has written its address since the last look, the same or another."""
        if not self._server_file:
            return False
        try:
            about = os.stat(self._server_file)
            version = (about.st_mtime_ns, about.st_ino)
            if version == self._server_version:
                return False
            with open(self._server_file, encoding="utf-8") as file:
                url = loads(file.read()).get("url")
        except (OSError, ValueError, AttributeError):
            return False
        first, self._server_version = self._server_version is None, version
        if not isinstance(url, str) or not url or (first and url == self._url):
            return False
        self._url = url
        return True

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _log_place(run_id: str, name: str, attempt_id: str) -> str:
    return f"/runs/{quote(run_id)}/logs/{quote(name)}?attempt={quote(attempt_id)}&offset="


def quote(text: str) -> str:
    """Percent-encoding of a path; slashes stay."""
    data = text.encode("utf-8", "surrogateescape")
    if _PLAIN.issuperset(data):
        return text
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def _check(response: Response, server_id: str) -> None:
    """An answer that does not count: from another program, or from a server in trouble."""
    if "wherry-api" not in response.headers:
        raise NetworkError("something else answers at its address")
    if server_id and response.headers.get("wherry-server") != server_id:
        raise NetworkError("another server answers at its address")
    if response.status in _PASSING:
        raise NetworkError(f"it answers {response.status}")


def _json_body(response: Response) -> Any:
    body = response.body()
    try:
        return loads(body.decode()) if body else {}
    except ValueError:
        raise NetworkError("the answer is not JSON") from None


def _rejection(response: Response) -> RejectedError:
    """Reads a problem's body; whatever it looks like, the status counts."""
    try:
        problem = _json_body(response)
        detail = str(problem.get("detail") or "no reason given")
        size = problem.get("fields", {}).get("size")
    except (NetworkError, AttributeError):
        detail, size = "no reason given", None
    return RejectedError(response.status, detail, size if isinstance(size, int) else None)


def _piece(handle: int, offset: int, size: int) -> bytes:
    return os.pread(handle, min(CHUNK, size - offset), offset)


def _log_piece(handle: int, offset: int, size: int) -> bytes:
    return os.pread(handle, min(LOG_CHUNK, size - offset), offset)


def _end_of_line(handle: int, offset: int) -> int:
    """Where the line at ``offset`` ends, or 0 if it has no end yet."""
    while True:
        data = os.pread(handle, CHUNK, offset)
        cut = data.find(b"\n") + 1
        if cut or not data:
            return offset + cut if cut else 0
        offset += len(data)


def open_regular(path: str) -> int:
    """Never waits for a writer, as opening a fifo would."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    raise OSError(f"{path} is not a regular file")


class _BrokenOffError(Exception):
    """The connection broke within a large file: the server knows how much of it arrived."""


class _Rest:
    """What the server lacks of a file, once."""

    def __init__(self, handle: int, offset: int, size: int) -> None:
        self._handle = handle
        self._offset = offset
        self._size = size
        self._begun = False

    def pieces(self) -> Iterator[bytes]:
        if self._begun:
            raise _BrokenOffError
        self._begun = True
        return _pieces(self._handle, self._size, self._offset)

    def digest(self) -> str:
        """Of the whole file."""
        from hashlib import sha256

        digest = sha256()
        for piece in _pieces(self._handle, self._size):
            digest.update(piece)
        return digest.hexdigest()


def _upload_name(path: str, about: os.stat_result, tries: int) -> str:
    """The same for the same version of the same file, also of a runner that took over."""
    from hashlib import sha256

    version = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
    told = (os.uname().nodename, path, version, tries)
    return sha256(repr(told).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _pieces(handle: int, size: int, offset: int = 0) -> Iterator[bytes]:
    """Up to ``size`` bytes: what was promised in the header, even if the file grows."""
    while offset < size:
        piece = os.pread(handle, min(CHUNK, size - offset), offset)
        if not piece:
            raise ChangedError("it became shorter while it was sent")
        offset += len(piece)
        yield piece


if TYPE_CHECKING:
    _Cut = Callable[[int, int, int], bytes]
