from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote as public_quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.runner import shipping
from wherry.runner.connection import NetworkError
from wherry.runner.shipping import AwayError, ChangedError, RejectedError, Shipper, quote
from wherry.testing.fakes import FakeServer

LOG = "user_logs/std_log.txt"


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def shipper(server: FakeServer) -> Iterator[Shipper]:
    made = Shipper(server.url, "secret")
    yield made
    made.close()


def test_a_log_grows_by_what_is_new(server: FakeServer, shipper: Shipper, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert shipper.put_log("r", LOG, "a", str(log)) == 0
    log.write_bytes(b"one\ntw")
    assert shipper.put_log("r", LOG, "a", str(log)) == 0
    with log.open("ab") as file:
        file.write(b"o\n\xff")
    shipper.put_log("r", LOG, "a", str(log))
    shipper.put_log("r", LOG, "a", str(log))
    assert server.logs == {f"a/{LOG}": bytearray(b"one\ntwo\n\xff")}
    assert [each.method for each in server.exchanges] == ["PUT", "PUT"]
    assert server.connections == 1


def test_a_long_log_goes_in_chunks(server: FakeServer, shipper: Shipper, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(os.urandom(shipping.LOG_CHUNK * 2 + 7))
    left = shipper.put_log("r", LOG, "a", str(log), limit=shipping.LOG_CHUNK)
    assert left == shipping.LOG_CHUNK + 7
    assert shipper.put_log("r", LOG, "a", str(log)) == 0
    assert server.log == log.read_bytes()
    assert len(server.exchanges) == 3


def test_a_server_that_lost_the_end_gets_it_again(
    server: FakeServer, shipper: Shipper, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"0123456789")
    shipper.put_log("r", LOG, "a", str(log))
    del server.logs[f"a/{LOG}"][4:]
    with log.open("ab") as file:
        file.write(b"ab")
    shipper.put_log("r", LOG, "a", str(log))
    assert server.log == b"0123456789ab"


def test_bytes_that_are_there_already_count_once(
    server: FakeServer, shipper: Shipper, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"0123456789")
    shipper.put_log("r", LOG, "a", str(log))
    again = Shipper(server.url, "secret")
    again.put_log("r", LOG, "a", str(log))
    again.close()
    assert server.log == b"0123456789"


def test_a_spool_goes_in_whole_lines(server: FakeServer, shipper: Shipper, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b'{"a": 1}\n{"b":')
    shipper.put_spool("r", "metrics.1", str(spool))
    assert server.streams["metrics.1"] == b'{"a": 1}\n'
    assert shipper.put_spool("r", "metrics.1", str(spool)) == 0
    assert len(server.exchanges) == 1
    with spool.open("ab") as file:
        file.write(b" 2}\n")
    shipper.put_spool("r", "metrics.1", str(spool))
    assert server.streams["metrics.1"] == b'{"a": 1}\n{"b": 2}\n'


def test_a_line_longer_than_a_chunk_goes_whole(
    server: FakeServer, shipper: Shipper, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    line = b"x" * (shipping.CHUNK + 10) + b"\n"
    spool.write_bytes(b"first\n" + line + b"last\n")
    shipper.put_spool("r", "m", str(spool))
    assert server.streams["m"] == b"first\n" + line + b"last\n"


def test_a_line_longer_than_the_server_takes_arrives_blank(
    server: FakeServer, tmp_path: Path
) -> None:
    told: list[str] = []
    shipper = Shipper(server.url, "secret", tell=told.append)
    spool = tmp_path / "spool"
    line = b"x" * (shipping.LONGEST_LINE + shipping.CHUNK // 2) + b"\n"
    spool.write_bytes(b"first\n" + line + b"last\n")
    shipper.put_spool("r", "m", str(spool))
    shipper.close()
    assert len(server.streams["m"]) == spool.stat().st_size
    assert server.streams["m"].split() == [b"first", b"last"]
    assert told == [f"a metric of {len(line)} bytes is larger than the server takes"]


def test_a_long_line_without_an_end_waits(shipper: Shipper, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(b"x" * (shipping.CHUNK + 10))
    assert shipper.put_spool("r", "m", str(spool)) == 0


def test_files_of_any_size(server: FakeServer, shipper: Shipper, tmp_path: Path) -> None:
    big, empty = tmp_path / "big", tmp_path / "empty"
    big.write_bytes(os.urandom(3 * shipping.CHUNK + 1))
    empty.touch()
    assert shipper.put_file("r", "outputs/a b/ü?#%.bin", str(big)) == big.stat().st_size
    shipper.put_file("r", "empty", str(empty))
    assert server.files == {"outputs/a b/ü?#%.bin": big.read_bytes(), "empty": b""}


def test_small_files_travel_together(server: FakeServer, shipper: Shipper) -> None:
    shipper.put_files("r", [("outputs/a b", b"1\n2"), ("ü", b"")])
    shipper.put_files("r", [])
    assert server.files == {"outputs/a b": b"1\n2", "ü": b""}
    assert len(server.exchanges) == 1


def test_a_file_that_shrinks_is_told(shipper: Shipper, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 10)
    handle = os.open(path, os.O_RDONLY)
    pieces = shipping._pieces(handle, 20)
    assert next(pieces) == b"x" * 10
    with pytest.raises(ChangedError):
        next(pieces)
    os.close(handle)


def test_what_is_no_file_is_an_os_error(shipper: Shipper, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", tmp_path, tmp_path / "missing"):
        with pytest.raises(OSError, match=r".*"):
            shipper.put_file("r", "x", str(path))


def test_reports_and_their_reply(server: FakeServer, shipper: Shipper) -> None:
    assert shipper.report("a", stage="running", pid=3) == {"cancel": False}
    server.cancel = True
    assert shipper.report("a", exit={"exit_code": 0}) == {"cancel": True}
    assert server.reports == [{"stage": "running", "pid": 3}, {"exit": {"exit_code": 0}}]


def test_a_fetch_that_breaks_off_begins_again(server: FakeServer, shipper: Shipper) -> None:
    server.snapshots["s"] = b"x" * 300_000
    tries: list[int] = []

    def receive(pieces: Iterator[bytes]) -> None:
        tries.append(0)
        for piece in pieces:
            tries[-1] += len(piece)
            if len(tries) == 1:
                raise NetworkError("cut")

    shipper.fetch("/snapshots/s/archive", receive)
    assert len(tries) == 2
    assert tries[1] == 300_000


def test_an_absent_server_is_waited_for(server: FakeServer, tmp_path: Path) -> None:
    told: list[str] = []
    shipper = Shipper(server.url, "secret", tell=told.append)
    shipper.report("a", stage="running")
    server.stop()
    threading.Timer(0.5, server.start).start()
    shipper.report("a", stage="finalizing")
    shipper.close()
    assert server.stages == ["running", "finalizing"]
    assert len(told) == 2
    assert "does not answer" in told[0]
    assert told[1] == "the server answers again"


@pytest.mark.parametrize("status", [500, 502, 503, 429])
def test_trouble_is_waited_out(server: FakeServer, shipper: Shipper, status: int) -> None:
    answers = iter([status, None])
    server.fail = lambda _method, _path: next(answers)
    shipper.report("a", stage="running")
    assert server.stages == ["running"]


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_final_no(server: FakeServer, shipper: Shipper, status: int) -> None:
    server.fail = lambda _method, _path: status
    with pytest.raises(RejectedError, match="as the test wished") as caught:
        shipper.report("a", stage="running")
    assert caught.value.final
    assert len(server.exchanges) == 1


@pytest.mark.parametrize("status", [400, 409, 413, 422, 426])
def test_a_no_to_this_alone(
    server: FakeServer, shipper: Shipper, tmp_path: Path, status: int
) -> None:
    (tmp_path / "log").write_text("x")
    server.fail = lambda _method, _path: status
    with pytest.raises(RejectedError) as caught:
        shipper.put_log("r", LOG, "a", str(tmp_path / "log"))
    assert not caught.value.final


def test_a_wrong_token_is_a_final_no(server: FakeServer) -> None:
    shipper = Shipper(server.url, "wrong")
    with pytest.raises(RejectedError, match="not valid") as caught:
        shipper.report("a")
    assert caught.value.final
    shipper.close()


def test_a_server_that_moved_is_found(server: FakeServer, tmp_path: Path) -> None:
    address = tmp_path / "server.json"
    shipper = Shipper(dead_url(), "secret", str(address))
    threading.Timer(0.3, lambda: address.write_text(json.dumps({"url": server.url}))).start()
    shipper.report("a", stage="running")
    shipper.close()
    assert server.stages == ["running"]


def test_a_server_that_is_back_at_its_address_is_not_kept_waiting(
    server: FakeServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipping, "_FIRST_DELAY_S", 600.0)
    address = tmp_path / "server.json"
    address.write_text(json.dumps({"url": server.url}))
    server.stop()

    def come_back() -> None:
        server.start()
        address.write_text(json.dumps({"url": server.url, "pid": 2}))

    threading.Timer(0.3, come_back).start()
    shipper = Shipper(server.url, "secret", str(address))
    shipper.report("a", stage="running")
    shipper.close()
    assert server.stages == ["running"]


def test_a_file_alone_may_name_the_server(server: FakeServer, tmp_path: Path) -> None:
    address = tmp_path / "server.json"
    address.write_text(json.dumps({"url": server.url}))
    shipper = Shipper("", "secret", str(address))
    assert shipper.enabled
    shipper.report("a", stage="running")
    shipper.close()
    assert server.stages == ["running"]


def test_the_answer_of_another_home_at_the_address_is_no_answer(
    server: FakeServer, tmp_path: Path
) -> None:
    server.server_id = "ours"
    with FakeServer(token="of another home", server_id="theirs") as other:
        address = tmp_path / "server.json"
        address.write_text(json.dumps({"url": other.url}))
        shipper = Shipper(other.url, "secret", str(address), server_id="ours")
        timer = threading.Timer(0.3, lambda: address.write_text(json.dumps({"url": server.url})))
        timer.start()
        shipper.put_files("r", [("outputs/a", b"1")])
        shipper.close()
    assert [each.status for each in other.exchanges][:1] == [401]
    assert server.files == {"outputs/a": b"1"}


def test_files_are_sent_until_all_are_stored(
    server: FakeServer, shipper: Shipper, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers: Iterator[Any] = iter([{}, {"stored": 1}])
    route = server._route

    def forgetful(*request: Any) -> tuple[int, Any]:
        status, reply = route(*request)
        return status, next(answers, reply)

    monkeypatch.setattr(server, "_route", forgetful)
    shipper.put_files("r", [("outputs/a", b"1"), ("outputs/b", b"2")])
    assert len(server.exchanges) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"url": 3}', '{"url": ""}'])
def test_a_damaged_server_file_is_no_server(tmp_path: Path, text: str) -> None:
    address = tmp_path / "server.json"
    address.write_text(text)
    shipper = Shipper(dead_url(), "secret", str(address), patience_s=0)
    with pytest.raises(AwayError):
        shipper.report("a")


def test_another_program_at_the_address_is_not_believed(server: FakeServer, tmp_path: Path) -> None:
    class Stranger(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.send_error(404)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Stranger) as stranger:
        threading.Thread(target=stranger.serve_forever, args=(0.02,)).start()
        address = tmp_path / "server.json"
        url = f"http://127.0.0.1:{stranger.server_address[1]}"
        address.write_text(json.dumps({"url": url}))
        shipper = Shipper(url, "secret", str(address))
        timer = threading.Timer(0.3, lambda: address.write_text(json.dumps({"url": server.url})))
        timer.start()
        shipper.report("a", stage="running")
        shipper.close()
        stranger.shutdown()
    assert server.stages == ["running"]


def test_patience_ends() -> None:
    shipper = Shipper(dead_url(), "secret", patience_s=0)
    with pytest.raises(AwayError, match="does not answer"):
        shipper.report("a")


def test_hurry_ends_all_waiting() -> None:
    shipper = Shipper(dead_url(), "secret")
    threading.Timer(0.3, shipper.hurry).start()
    began = time.monotonic()
    with pytest.raises(AwayError):
        shipper.report("a")
    with pytest.raises(AwayError):
        shipper.report("a")
    assert time.monotonic() - began < 60
    shipper.hurry()


def test_a_hurried_shipper_still_ships(server: FakeServer, shipper: Shipper) -> None:
    shipper.hurry()
    shipper.report("a", stage="running")
    assert server.stages == ["running"]


def test_threads_take_turns(server: FakeServer, shipper: Shipper, tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(8)]
    for path in paths:
        path.write_bytes(path.name.encode() * 200_000)
    threads = [
        threading.Thread(target=shipper.put_file, args=("r", path.name, str(path)))
        for path in paths
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert server.files == {path.name: path.read_bytes() for path in paths}
    assert server.connections == 1


def test_without_a_server_everything_succeeds(tmp_path: Path) -> None:
    shipper = Shipper("", "")
    (tmp_path / "file").write_text("x\n")
    assert shipper.report("a", stage="running") == {}
    assert shipper.put_log("r", LOG, "a", str(tmp_path / "file")) == 0
    assert shipper.put_spool("r", "m", str(tmp_path / "file")) == 0
    shipper.put_file("r", "x", str(tmp_path / "file"))
    shipper.put_files("r", [("x", b"")])
    shipper.close()


@given(st.text())
def test_quoting(text: str) -> None:
    expected = public_quote(text, safe="/", errors="surrogateescape")
    assert quote(text) == expected


def dead_url() -> str:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return f"http://127.0.0.1:{unused.getsockname()[1]}"


def test_a_log_that_is_emptied_goes_on(
    server: FakeServer, shipper: Shipper, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    for content in (
        b"long first words\n",
        b"second\n",
        b"another\n",
        b"another\nthird\n",
        b"x",
        b"y",
        b"z\n",
    ):
        path.write_bytes(content)
        assert shipper.put_log("r", LOG, "a", str(path)) == 0
    assert bytes(server.logs[f"a/{LOG}"]) == b"long first words\nsecond\nanother\nthird\nxyz\n"


def test_a_server_that_lost_what_was_emptied_gets_the_rest(
    server: FakeServer, shipper: Shipper, tmp_path: Path
) -> None:
    path = tmp_path / "log"
    for content in (b"long first words\n", b"second\n"):
        path.write_bytes(content)
        shipper.put_log("r", LOG, "a", str(path))
    del server.logs[f"a/{LOG}"][4:]
    path.write_bytes(b"second\nthird\n")
    assert shipper.put_log("r", LOG, "a", str(path)) == 0
    assert bytes(server.logs[f"a/{LOG}"]) == b"longsecond\nthird\n"
