"""What every driver that dials promises, tried with an echo on the node's own socket."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from wherry.drivers.base import Dialing

PATIENCE_S = 60


@contextmanager
def echoing(path: Path) -> Iterator[Path]:
    """Whatever connects there hears what it says."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        threading.Thread(target=_accept, args=(listener,), daemon=True).start()
        yield path
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket) -> None:
    with suppress(OSError):
        while True:
            threading.Thread(target=_echo, args=(listener.accept()[0],), daemon=True).start()


def _echo(connection: socket.socket) -> None:
    with connection, suppress(OSError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


@contextmanager
def connected(path: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(path)
        yield connection


def there_and_back(path: str, data: bytes) -> bytes:
    with connected(path) as connection:
        saying = threading.Thread(target=_say, args=(connection, data))
        saying.start()
        heard = heard_to_the_end(connection)
        saying.join()
    return heard


def _say(connection: socket.socket, data: bytes) -> None:
    connection.sendall(data)
    connection.shutdown(socket.SHUT_WR)


def heard_to_the_end(connection: socket.socket) -> bytes:
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def keeps_its_promises(driver: object, folder: Path, node: str = "") -> None:
    """``folder`` is the same here and on the node."""
    assert isinstance(driver, Dialing)
    with echoing(folder / "echo") as path:
        here = driver.dial(str(path), node)
        assert driver.dial(str(path), node) == here
        said = os.urandom(1 << 16) * 50
        assert there_and_back(here, said) == said
        with connected(here) as first, connected(here) as second:
            first.sendall(b"one")
            second.sendall(b"two")
            assert (first.recv(3), second.recv(3)) == (b"one", b"two")
