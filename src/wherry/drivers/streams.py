"""Connections that go through the agent's own two pipes, for nodes that have no other way.

A port of the node that leads to the server, and a way from the server to a port of the node. What
was not taken yet is bounded at both ends: ``WINDOW`` bytes may be on their way, and more when the
other side has passed some on.
"""

from __future__ import annotations

import itertools
import queue
import socket
import threading
import time
from contextlib import suppress
from functools import partial
from typing import Any, Callable, Dict, Mapping, Optional

WINDOW = 1 << 20
PIECE = 1 << 16
_CONNECT_S = 10.0
_PAUSE_S = 0.1

Send = Callable[..., None]
Connect = Callable[[], socket.socket]


class Streams:
    """``send`` takes the fields of a frame, and bytes."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._streams: Dict[str, _Stream] = {}
        self._numbers = itertools.count(1)
        self._listener: Optional[socket.socket] = None

    def listen(self, wanted: int) -> int:
        """A port of this machine whose connections lead to the server: that one, or any."""
        if self._listener is None:
            self._listener = _listening(wanted) or _listening(0)
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()
        port: int = self._listener.getsockname()[1]
        return port

    def take(self, fields: Mapping[str, Any], data: bytes) -> None:
        """What came for a stream; returns at once."""
        name = str(fields["stream"])
        if "open" in fields:
            self._begin(name, partial(_connected, dict(fields["open"])))
            return
        stream = self._streams.get(name)
        if stream is not None:
            stream.take(fields, data)

    def close(self) -> None:
        if self._listener is not None:
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes who waits for the next one
            self._listener.close()
        for stream in list(self._streams.values()):
            stream.close()

    def _accept(self, listener: socket.socket) -> None:
        while listener.fileno() >= 0:
            try:
                connection, _ = listener.accept()
            except OSError:  # too many are open
                time.sleep(_PAUSE_S)
                continue
            self._begin(f"n{next(self._numbers)}", partial(_same, connection), tell=True)

    def _begin(self, name: str, connect: Connect, *, tell: bool = False) -> None:
        """Known before anything is said of it: an answer may come at once."""
        stream = self._streams[name] = _Stream(name, connect, self._send, self._forget)
        if tell:
            self._send({"stream": name, "open": {}})
        stream.start()

    def _forget(self, name: str) -> None:
        self._streams.pop(name, None)


class _Stream:
    """A thread for each direction."""

    def __init__(
        self, name: str, connect: Connect, send: Send, forget: Callable[[str], None]
    ) -> None:
        self._name = name
        self._connect = connect
        self._socket: Optional[socket.socket] = None
        self._send = send
        self._forget = forget
        self._arrived: queue.Queue[Optional[bytes]] = queue.Queue()
        self._may_send = WINDOW
        self._changed = threading.Condition()
        self._open_ends = 2
        self._closed = False

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def take(self, fields: Mapping[str, Any], data: bytes) -> None:
        if data:
            self._arrived.put(data)
        if "more" in fields:
            with self._changed:
                self._may_send += int(fields["more"])
                self._changed.notify_all()
        if fields.get("end"):
            self._arrived.put(None)
        if "closed" in fields:
            self.close()

    def _run(self) -> None:
        try:
            connected = self._socket = self._connect()
        except OSError as error:
            self._break(error)
            return
        threading.Thread(target=self._read, args=(connected,), daemon=True).start()
        self._write(connected)

    def _read(self, connected: socket.socket) -> None:
        try:
            while True:
                piece = connected.recv(self._room())
                if not piece:
                    break
                with self._changed:
                    self._may_send -= len(piece)
                self._send({"stream": self._name}, piece)
        except OSError as error:
            self._break(error)
            return
        self._send({"stream": self._name, "end": True})
        self._ended()

    def _room(self) -> int:
        with self._changed:
            while self._may_send <= 0 and not self._closed:
                self._changed.wait()
            return max(1, min(self._may_send, PIECE))

    def _write(self, connected: socket.socket) -> None:
        try:
            while True:
                piece = self._arrived.get()
                if piece is None:
                    break
                connected.sendall(piece)
                self._send({"stream": self._name, "more": len(piece)})
            connected.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._break(error)
            return
        self._ended()

    def _ended(self) -> None:
        with self._changed:
            self._open_ends -= 1
            if self._open_ends:
                return
        self.close()

    def _break(self, error: OSError) -> None:
        if not self._closed:
            self._send({"stream": self._name, "closed": error.strerror or str(error)})
        self.close()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._arrived.put(None)
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            self._socket.close()
        self._forget(self._name)


def _same(connection: socket.socket) -> socket.socket:
    return connection


def _listening(port: int) -> Any:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128)
    except OSError:
        if not port:
            raise
        return None


def _connected(where: Mapping[str, Any]) -> socket.socket:
    if where.get("path"):
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(_CONNECT_S)
        try:
            connection.connect(str(where["path"]))
        except OSError:
            connection.close()
            raise
    else:
        connection = socket.create_connection(("127.0.0.1", int(where["port"])), _CONNECT_S)
    connection.settimeout(None)
    return connection
