from __future__ import annotations

import socket
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from wherry.runner.connection import Connection, NetworkError, split_url

Answer = Callable[[list[bytes]], str]


@pytest.fixture
def answer() -> Iterator[Answer]:
    """Serves one connection with these bytes, one per request, and then hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def serve(answers: list[bytes]) -> None:
        client, _ = listener.accept()
        with client:
            for one in answers:
                received = b""
                while b"\r\n\r\n" not in received:
                    received += client.recv(65536)
                client.sendall(one)

    def start(answers: list[bytes]) -> str:
        threads.append(threading.Thread(target=serve, args=(answers,)))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(10)
    listener.close()


def get(url: str) -> tuple[int, bytes]:
    connection = Connection(url, timeout_s=10)
    try:
        response = connection.request("GET", "/", "")
        return response.status, response.body()
    finally:
        connection.close()


def test_a_body_of_known_length(answer: Answer) -> None:
    assert get(answer([b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"])) == (200, b"hello")


def test_a_chunked_body(answer: Answer) -> None:
    body = b"4;ext=1\r\nhell\r\nC\r\no and so on!\r\n0\r\nTrailer: x\r\n\r\n"
    url = answer([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body])
    assert get(url) == (200, b"hello and so on!")


def test_no_body(answer: Answer) -> None:
    assert get(answer([b"HTTP/1.1 204 No Content\r\n\r\n"])) == (204, b"")


def test_an_interim_answer_is_passed_over(answer: Answer) -> None:
    late = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    assert get(answer([late])) == (200, b"ok")


def test_one_connection_serves_many_requests(answer: Answer) -> None:
    one = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
    connection = Connection(answer([one, one, one]), timeout_s=10)
    for _ in range(3):
        response = connection.request("GET", "/", "")
        assert response.body() == b"ok"
        assert response.keeps_alive
    connection.close()


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"x" * 100_000,
    ],
)
def test_anything_else_is_a_network_error(answer: Answer, bad: bytes) -> None:
    with pytest.raises(NetworkError):
        get(answer([bad]))


def test_nobody_there_is_a_network_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        port = unused.getsockname()[1]
    with pytest.raises(NetworkError):
        get(f"http://127.0.0.1:{port}")


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a reset may discard the answer")
def test_a_server_that_refuses_a_long_body_is_heard() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def refuse() -> None:
        client, _ = listener.accept()
        with client:
            client.recv(1024)
            client.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")

    thread = threading.Thread(target=refuse)
    thread.start()
    connection = Connection(f"http://127.0.0.1:{listener.getsockname()[1]}", timeout_s=10)
    pieces = (b"x" * (1 << 20) for _ in range(64))
    response = connection.request("PUT", "/", f"Content-Length: {64 << 20}\r\n", stream=pieces)
    assert response.status == 413
    assert not response.keeps_alive
    connection.close()
    thread.join(10)
    listener.close()


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://127.0.0.1:8123", ("http", "127.0.0.1", 8123, "")),
        ("https://wherry.lab", ("https", "wherry.lab", 443, "")),
        ("http://lab/wherry/", ("http", "lab", 80, "/wherry")),
        ("http://[::1]:99/a/b", ("http", "::1", 99, "/a/b")),
        ("http://[::1]", ("http", "::1", 80, "")),
    ],
)
def test_the_parts_of_an_address(url: str, parts: tuple[str, str, int, str]) -> None:
    assert split_url(url) == parts


@pytest.mark.parametrize("url", ["", "lab:80", "ftp://lab", "http://lab:x"])
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        split_url(url)
