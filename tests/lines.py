"""Networks that break when a test says so."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Line:
    """A way to a server of this machine, on which connections are cut off after so many bytes, as
    often as it is told to. Nothing passes while ``open`` is not set.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self.up = self.down = 0
        self.cuts: list[tuple[str, int]] = []
        self._ends: list[socket.socket] = []
        self.open = threading.Event()
        self.open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.open.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def lead_nowhere(self) -> None:
        """From now on nobody answers, on old connections and new ones."""
        self.port = 1
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.port))
            except OSError:
                near.close()
                continue
            self._ends += [near, far]
            for way, source, sink in (("up", near, far), ("down", far, near)):
                threading.Thread(target=self._pump, args=(way, source, sink), daemon=True).start()

    def _pump(self, way: str, source: socket.socket, sink: socket.socket) -> None:
        passed = 0
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self.open.wait()
                sink.sendall(data)
                passed += len(data)
                setattr(self, way, getattr(self, way) + len(data))
                if self.cuts and self.cuts[0][0] == way and passed >= self.cuts[0][1]:
                    self.cuts.pop(0)
                    break
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
