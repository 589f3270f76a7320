from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest

from wherry.core.errors import (
    ConflictError,
    ForbiddenError,
    NotFoundError,
    ServerUnavailableError,
    VersionMismatchError,
)
from wherry.sdk import client as client_module
from wherry.sdk.client import Address, Client, quote

from .fake_server import TOKEN, FakeServer


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "_PAUSES_S", (0.0, 0.01, 0.01))


@pytest.fixture
def client(fake: FakeServer) -> Iterator[Client]:
    client = Client(Address(fake.url, TOKEN))
    yield client
    client.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_json_goes_both_ways(client: Client) -> None:
    record = client.post("/workspaces", json={"name": "höhe"})
    assert record["name"] == "höhe"
    assert client.get(f"/workspaces/{quote('höhe')}") == record


def test_one_connection_serves_many_calls(client: Client, fake: FakeServer) -> None:
    for _ in range(20):
        client.get("/workspaces")
    assert fake.connections == 1


def test_a_request_goes_out_in_one_piece(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    send = HTTPConnection.send

    def noted(self: HTTPConnection, data: bytes) -> None:
        sent.append(data)
        send(self, data)

    monkeypatch.setattr(HTTPConnection, "send", noted)
    client.post("/workspaces", json={"name": "w"})
    assert [each.endswith(b'{"name": "w"}') for each in sent] == [True]


def test_a_call_within_a_stream_has_a_connection_of_its_own(
    client: Client, fake: FakeServer
) -> None:
    run = fake.new_run("lab", {"experiment": "e"})
    fake.finish(run["id"], b"log")
    for chunk in client.stream(f"/runs/{run['id']}/logs/user_logs/std_log.txt"):
        assert chunk == b"log"
        client.get("/workspaces")
    client.get("/workspaces")
    assert fake.connections == 2


def test_every_request_says_who_and_which_version(client: Client, fake: FakeServer) -> None:
    client.get("/workspaces")
    assert fake.headers[-1]["Authorization"] == f"Bearer {TOKEN}"
    assert fake.headers[-1]["Wherry-Api"] == "1"


def test_problems_come_back_as_their_class(client: Client) -> None:
    with pytest.raises(NotFoundError, match="there is no run 'x'"):
        client.get("/runs/x")
    client.post("/workspaces", json={"name": "a"})
    with pytest.raises(ConflictError):
        client.post("/workspaces", json={"name": "a"})


def test_fields_of_a_problem_are_kept(client: Client, fake: FakeServer) -> None:
    for index in range(2):
        fake.new_run("lab", {"experiment": "e", "run_id": f"same_{index}"})
    with pytest.raises(ConflictError) as caught:
        client.get("/workspaces/lab/runs/resolve/same")
    assert caught.value.fields["candidates"] == ["same_0", "same_1"]


def test_a_wrong_token_is_told(fake: FakeServer) -> None:
    with pytest.raises(ForbiddenError, match="a token is needed"):
        Client(Address(fake.url, "wrong")).get("/workspaces")


def test_a_get_is_repeated_when_its_answer_is_lost(client: Client, fake: FakeServer) -> None:
    fake.drop("GET /api/v1/workspaces", "after", times=2)
    assert client.get("/workspaces") == {"items": []}


def test_a_post_is_not_repeated_when_it_may_have_arrived(client: Client, fake: FakeServer) -> None:
    fake.drop("POST /api/v1/workspaces", "after")
    with pytest.raises(ServerUnavailableError):
        client.post("/workspaces", json={"name": "a"})
    assert fake.count("POST") == 1


def test_a_post_is_repeated_when_the_caller_allows(client: Client, fake: FakeServer) -> None:
    fake.drop("POST /api/v1/workspaces", "after")
    client.post("/workspaces", json={"name": "a", "exist_ok": True}, retry=True)
    assert fake.count("POST") == 2


def test_data_that_can_be_iterated_once_is_sent_once(client: Client, fake: FakeServer) -> None:
    run = fake.new_run("lab", {"experiment": "e"})
    fake.drop("PUT", "after")
    with pytest.raises(ServerUnavailableError):
        client.put(f"/runs/{run['id']}/files/a", data=iter([b"x"]))
    assert fake.count("PUT") == 1


def test_data_that_can_be_made_again_is_sent_again(client: Client, fake: FakeServer) -> None:
    run = fake.new_run("lab", {"experiment": "e"})
    fake.drop("PUT", "after")
    client.put(f"/runs/{run['id']}/files/a", data=lambda: iter([b"x", b"yz"]))
    assert fake.files[run["id"]]["a"] == b"xyz"
    fake.drop("PUT", "after")
    client.put(f"/runs/{run['id']}/files/b", data=[b"12", b"3"], length=3)
    assert fake.files[run["id"]]["b"] == b"123"


def test_an_error_of_the_data_passes_through(client: Client, fake: FakeServer) -> None:
    def broken() -> Iterator[bytes]:
        yield b"x"
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        client.post("/blobs", data=broken(), length=100)
    assert client.get("/workspaces") == {"items": []}


def test_a_closed_idle_connection_is_not_used(fake: FakeServer) -> None:
    port = fake.port
    client = Client(Address(fake.url, TOKEN))
    client.get("/workspaces")
    fake.close()
    again = FakeServer(port)
    try:
        client.post("/workspaces", json={"name": "a"})
        assert again.count("POST") == 1
    finally:
        client.close()
        again.close()


def test_no_server_is_one_sentence_with_the_address() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(ServerUnavailableError, match=f"the server at {url} cannot be reached") as e:
        Client(Address(url, "t")).get("/workspaces")
    assert "wherry server status" in str(e.value.hint)


def test_something_else_at_the_address_is_told() -> None:
    listener = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        for _ in range(4):
            connection, _address = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ServerUnavailableError, match="not as a Wherry server"):
        Client(Address(url, "t")).get("/workspaces")
    thread.join(10)
    listener.close()


def test_another_version_is_told_with_both_and_the_remedy(client: Client, fake: FakeServer) -> None:
    fake.api, fake.version = "7", "3.2.1"
    with pytest.raises(VersionMismatchError) as caught:
        client.get("/workspaces")
    text = str(caught.value)
    assert "3.2.1 (API 7)" in text
    assert "0.1.0 (API 1)" in text
    assert "pip install 'wherry==3.2.1'" in text


def test_a_moved_server_is_found_again(fake: FakeServer) -> None:
    dead = Address(f"http://127.0.0.1:{free_port()}", "old")
    asked: list[bool] = []

    def relocate(start: bool) -> Address:
        asked.append(start)
        return Address(fake.url, TOKEN)

    client = Client(dead, relocate=relocate)
    assert client.post("/workspaces", json={"name": "a"})["name"] == "a"
    assert asked == [True]
    client.close()


def test_another_home_at_the_address_is_not_believed(fake: FakeServer) -> None:
    """It has no id of ours, and refuses our token: nothing of what it says is for us."""
    stolen = Address(fake.url, "wrong", "ours")
    client = Client(stolen, relocate=lambda _start: Address(fake.url, TOKEN))
    assert client.post("/workspaces", json={"name": "a"})["name"] == "a"
    client.close()


@pytest.mark.parametrize("times", [1, 3])
def test_a_broken_stream_goes_on_where_it_broke(
    client: Client, fake: FakeServer, times: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = fake.new_run("lab", {"experiment": "e"})
    fake.write_log(run["id"], b"0123456789" * 1000)
    fake.drop("logs", "during", times)
    path = f"/runs/{run['id']}/logs/user_logs/std_log.txt"
    received = b""
    for chunk in client.stream(path, offset=5, follow=True):
        received += chunk
        if len(received) == 9995:
            fake.finish(run["id"], b"end")
    assert received == (b"0123456789" * 1000)[5:] + b"end"
    assert fake.count("GET.*logs.*offset=10000") >= 1


def test_a_stream_waits_for_a_server_that_restarts(fake: FakeServer) -> None:
    run = fake.new_run("lab", {"experiment": "e"})
    fake.write_log(run["id"], b"before ")
    client = Client(Address(fake.url, TOKEN))
    path = f"/runs/{run['id']}/logs/user_logs/std_log.txt"
    received = []
    second: list[FakeServer] = []

    def restart() -> None:
        again = FakeServer(fake.port)
        again.runs, again.logs = fake.runs, fake.logs
        again.finish(run["id"], b"after")
        second.append(again)

    for chunk in client.stream(path, follow=True):
        received.append(chunk)
        if len(received) == 1:
            fake.drop("logs", "during")
            fake.close()
            fake.write_log(run["id"], b"between ")
            threading.Timer(0.3, restart).start()
    assert b"".join(received) == b"before between after"
    client.close()
    second[0].close()


def test_patience_with_an_absent_server_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_module, "_TELL_AFTER_S", 0.0)
    client = Client(Address(f"http://127.0.0.1:{free_port()}", "t"))
    with pytest.raises(ServerUnavailableError):
        list(client.stream("/runs/x/logs/y", patience_s=0.5))
    assert capsys.readouterr().err.count("cannot be reached") == 1
    with pytest.raises(ServerUnavailableError):
        client.wait("/runs/x/wait", {}, timeout_s=1, patience_s=0.1)


def test_a_forked_child_uses_no_connection_of_its_parent(client: Client, fake: FakeServer) -> None:
    client.get("/workspaces")
    pool = client._pool
    pool._pid = os.getpid() + 1
    client.get("/workspaces")
    assert fake.connections == 2


def test_proxies_are_not_used_for_this_machine(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")
    assert client.get("/workspaces") == {"items": []}


def test_proxies_are_used_for_other_machines(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", fake.url)
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    client = Client(Address("http://wherry.example:8700", TOKEN))
    assert client.get("/workspaces") == {"items": []}
    client.close()
    assert fake.requests[-1] == "GET http://wherry.example:8700/api/v1/workspaces"


def test_a_large_upload_that_is_refused_early_still_tells_why(tmp_path: Path) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    body = b'{"code": "too_large", "detail": "the request is too large"}'
    head = b"HTTP/1.1 413 Too Large\r\nWherry-Api: 1\r\nContent-Length: %d\r\n\r\n" % len(body)

    def answer() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(head + body)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    client = Client(Address(f"http://127.0.0.1:{listener.getsockname()[1]}", "t"))
    with pytest.raises(Exception, match="the request is too large"):
        client.put("/runs/x/files/y", data=b"x" * 2_000_000)
    client.close()
    thread.join(10)
    listener.close()
