from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.capabilities import modes_count
from wherry.runner.folder import Folder
from wherry.runner.outputs import Outputs, Sweeper
from wherry.runner.shipping import RejectedError, Shipper
from wherry.testing.fakes import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(str(tmp_path))
    (tmp_path / "work" / "outputs").mkdir(parents=True)
    (tmp_path / "files").mkdir()
    return made


@pytest.fixture
def outputs(server: FakeServer, folder: Folder) -> Iterator[Outputs]:
    shipper = Shipper(server.url, "secret")
    yield Outputs(shipper, "r", folder)
    shipper.close()


def test_what_a_run_leaves(server: FakeServer, outputs: Outputs, tmp_path: Path) -> None:
    big = os.urandom(300_000)
    write(tmp_path / "work/outputs/model.bin", big)
    write(tmp_path / "work/outputs/deep/er/ü 1.txt", b"small")
    write(tmp_path / "work/logs/train.log", b"log")
    write(tmp_path / "work/other.txt", b"not kept")
    write(tmp_path / "files/plots/roc.png", b"png")
    outputs.sweep()
    assert server.files == {
        "outputs/model.bin": big,
        "outputs/deep/er/ü 1.txt": b"small",
        "logs/train.log": b"log",
        "plots/roc.png": b"png",
    }
    assert len(server.exchanges) == 2


def test_nothing_there_costs_no_request(server: FakeServer, outputs: Outputs) -> None:
    outputs.sweep(last=True)
    assert server.exchanges == []


def test_each_file_goes_once_and_again_when_it_changed(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    path = tmp_path / "work/outputs/a"
    write(path, b"1")
    outputs.sweep()
    outputs.sweep(last=True)
    assert len(server.exchanges) == 1
    write(path, b"22")
    outputs.sweep()
    assert len(server.exchanges) == 1, "too soon for a file that just went"
    outputs.sweep(last=True)
    assert server.files == {"outputs/a": b"22"}


def test_a_file_uploaded_by_hand_wins_over_one_that_was_found(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    write(tmp_path / "work/outputs/a", b"found")
    write(tmp_path / "files/outputs/a", b"by hand")
    for _ in range(3):
        outputs.sweep(last=True)
    assert server.files == {"outputs/a": b"by hand"}
    assert len(server.exchanges) == 1


def test_links_are_followed_within_the_run_alone(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "secret", b"secret")
    write(tmp_path / "work/data/kept.txt", b"kept")
    links = tmp_path / "work/outputs"
    (links / "in").symlink_to("../data/kept.txt")
    (links / "out").symlink_to("../../secret")
    (links / "folder").symlink_to("../data")
    (links / "away").symlink_to("/etc")
    (links / "loop").symlink_to(".")
    (links / "nowhere").symlink_to("missing")
    write(tmp_path / "work/logs/log", b"log")
    (links / "logs").symlink_to("../logs")
    outputs.sweep(last=True)
    assert server.files == {
        "outputs/in": b"kept",
        "outputs/folder/kept.txt": b"kept",
        "outputs/logs/log": b"log",
        "logs/log": b"log",
    }
    told = capfd.readouterr().err
    assert "'outputs/out' is not kept: it is a link to a place outside the run" in told
    assert "'outputs/away' is not kept: it is a link to a place outside the run" in told
    assert "'outputs/nowhere' is not kept: its target is missing" in told


def test_a_watched_folder_that_is_a_link_out_is_told(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "work/outputs").rmdir()
    (tmp_path / "work/outputs").symlink_to("/etc")
    outputs.sweep(last=True)
    assert server.files == {}
    told = capfd.readouterr().err
    assert "'outputs' is not kept: it is a link to a place outside the run" in told


def test_folders_nested_deeper_than_python_calls(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    write(tmp_path / "work/outputs/z", b"beside")
    here = os.getcwd()
    os.chdir(tmp_path / "work/outputs")
    for _ in range(1200):
        os.mkdir("d")
        os.chdir("d")
    Path("deep").write_bytes(b"down there")
    os.chdir(here)
    outputs.sweep(last=True)
    assert server.files == {"outputs/z": b"beside", f"outputs/{'d/' * 1200}deep": b"down there"}
    subprocess.run(["rm", "-rf", tmp_path / "work"], check=True)


def test_a_file_that_becomes_a_fifo_is_not_waited_for(
    server: FakeServer, outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "work/outputs/file"
    write(path, b"1")
    about = path.stat()
    path.unlink()
    os.mkfifo(path)
    found = iter([("outputs/file", str(path), (1, about.st_mtime_ns, about.st_ino))])
    monkeypatch.setattr(outputs, "_found", lambda: found)
    outputs.sweep(last=True)
    assert server.files == {}


def test_what_is_no_regular_file_is_told_once(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    os.mkfifo(tmp_path / "work/outputs/fifo")
    listener = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(tmp_path / "work/outputs")
    listener.bind("socket")
    os.chdir(here)
    write(tmp_path / "work/outputs/kept", b"1")
    outputs.sweep()
    outputs.sweep(last=True)
    listener.close()
    assert server.files == {"outputs/kept": b"1"}
    told = capfd.readouterr().err
    assert told.count("'outputs/fifo' is not kept: it is not a regular file") == 1
    assert told.count("'outputs/socket' is not kept") == 1


def test_an_unreadable_file_is_told(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "work/outputs/locked", b"1")
    (tmp_path / "work/outputs/locked").chmod(0)
    write(tmp_path / "work/outputs/open", b"2")
    with modes_count():
        outputs.sweep(last=True)
    assert server.files == {"outputs/open": b"2"}
    assert "'outputs/locked' is not kept: Permission denied" in capfd.readouterr().err


def test_a_file_that_vanishes_is_told(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    version = (1, 1, 1)
    outputs._send("outputs/x", str(tmp_path / "work/outputs/x"), version)
    write(tmp_path / "work/outputs/y", b"1")
    outputs.sweep(last=True)
    assert server.files == {"outputs/y": b"1"}
    assert "'outputs/x' is not kept: No such file" in capfd.readouterr().err


def test_a_file_the_server_refuses_does_not_cost_the_others(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def fail(method: str, path: str) -> int | None:
        if path.endswith("big"):
            return 413
        batches = [each for each in server.exchanges if each.path.endswith("/batch")]
        return 400 if path.endswith("/batch") and len(batches) < 2 else None

    server.fail = fail
    write(tmp_path / "work/outputs/big", b"x" * 100_000)
    write(tmp_path / "work/outputs/bad", b"1")
    write(tmp_path / "work/outputs/good", b"2")
    outputs.sweep(last=True)
    assert server.files == {"outputs/good": b"2"}
    told = capfd.readouterr().err
    assert "'outputs/big' is not kept: as the test wished (413)" in told
    assert "'outputs/bad' is not kept: as the test wished (400)" in told


def test_a_server_that_knows_the_run_no_more_ends_it(
    server: FakeServer, outputs: Outputs, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server.fail = lambda _method, _path: 404
    write(tmp_path / "work/outputs/a", b"1")
    with pytest.raises(RejectedError):
        outputs.sweep()
    sweeper = Sweeper(outputs)
    write(tmp_path / "work/outputs/b", b"1")
    assert sweeper.finish() == [
        "'outputs/a' is not kept: as the test wished (404)",
        "'outputs/b' is not kept: as the test wished (404)",
    ]
    assert "no more files are sent" in capfd.readouterr().err


def test_a_refusal_while_the_run_goes_on_is_not_the_last_word(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    server.fail = lambda _method, _path: 401
    write(tmp_path / "work/outputs/a", b"1")
    sweeper = Sweeper(outputs)
    sweeper._sweep(last=False)
    server.fail = None
    assert sweeper.finish() == []
    assert server.files["outputs/a"] == b"1"


def test_a_sweep_that_breaks_is_told(
    server: FakeServer, outputs: Outputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "work/outputs/a", b"1")

    def broken(*_arguments: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr(outputs._shipper, "put_files", broken)
    told = Sweeper(outputs).finish()
    assert told == ["'outputs/a' is not kept: MemoryError: no room"]


def test_what_is_not_kept_is_told_in_few_sentences(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    server.fail = lambda _method, _path: 404
    for number in range(25):
        write(tmp_path / f"work/outputs/{number}", b"1")
    told = Sweeper(outputs).finish()
    assert len(told) == 21
    assert told[-1] == "5 more files are not kept"


def test_a_file_that_was_refused_and_removed_is_not_missing(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    server.fail = lambda _method, _path: 400
    write(tmp_path / "work/outputs/a", b"1")
    outputs.sweep()
    (tmp_path / "work/outputs/a").unlink()
    assert outputs.warnings() == []


def test_many_small_files_go_in_few_requests(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    for number in range(500):
        write(tmp_path / f"work/outputs/{number}", b"x" * 5000)
    outputs.sweep()
    assert len(server.files) == 500
    assert len(server.exchanges) <= 4


def test_a_request_has_a_bounded_number_of_files(
    server: FakeServer, outputs: Outputs, tmp_path: Path
) -> None:
    for number in range(500):
        write(tmp_path / f"work/outputs/{number}", b"")
    outputs.sweep()
    assert len(server.files) == 500
    assert len(server.exchanges) == 3


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
