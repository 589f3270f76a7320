"""Files of a run against a real server: large ones go on where they broke, small ones travel
together.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import Home, living, wait_until
from tests.lines import Line
from wherry import Experiment, Run, Workspace
from wherry.cli.main import main
from wherry.core.errors import ServerUnavailableError, WherryError
from wherry.runner.shipping import Shipper
from wherry.sdk import fetching, sending
from wherry.sdk.client import Address, Client
from wherry.sdk.files import RunFiles

MB = 1 << 20
SIZE = 32 * MB


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One server for all of these."""
    with (
        pytest.MonkeyPatch.context() as patch,
        living(tmp_path_factory.mktemp("files"), patch) as home,
    ):
        yield home


@pytest.fixture
def run(home: Home) -> Run:
    return Experiment(Workspace.create("w", exist_ok=True), "e").start_logging(
        snapshot_directory=None
    )


@pytest.fixture
def line(run: Run) -> Iterator[Line]:
    line = Line(int(run._client.url.rpartition(":")[2]))
    yield line
    line.close()


@pytest.fixture
def large(tmp_path: Path) -> Path:
    path = tmp_path / "large.bin"
    path.write_bytes(os.urandom(SIZE))
    return path


def through(line: Line, run: Run) -> Client:
    return Client(Address(line.url, run._client.token, run._client.server_id))


def content(run: Run, name: str, tmp_path: Path) -> bytes:
    run.download_file(name, tmp_path / "back")
    return (tmp_path / "back").read_bytes()


def test_an_upload_goes_on_where_it_broke(
    run: Run, line: Line, large: Path, tmp_path: Path
) -> None:
    line.cuts = [("up", 20 * MB), ("up", 8 * MB), ("down", 1)]
    sending.put_file(through(line, run), run.id, "outputs/large", str(large))
    assert line.cuts == []
    assert line.up < SIZE + 14 * MB
    assert content(run, "outputs/large", tmp_path) == large.read_bytes()
    run.complete()


def test_a_runners_upload_goes_on_where_it_broke(
    run: Run, line: Line, large: Path, tmp_path: Path
) -> None:
    shipper = Shipper(line.url, run._client.token, server_id=run._client.server_id)
    line.cuts = [("up", 20 * MB), ("up", 8 * MB), ("down", 1)]
    assert shipper.put_file(run.id, "outputs/large", str(large)) == SIZE
    shipper.close()
    assert line.up < SIZE + 14 * MB
    assert content(run, "outputs/large", tmp_path) == large.read_bytes()
    run.complete()


def test_another_process_goes_on_with_an_upload(
    run: Run, line: Line, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_PATIENCE_S", -1.0)
    line.cuts = [("up", 20 * MB)]
    with pytest.raises(ServerUnavailableError):
        sending.put_file(through(line, run), run.id, "outputs/large", str(large))
    broken = line.up
    assert "outputs/large" not in run.get_file_names()
    sending.put_file(through(line, run), run.id, "outputs/large", str(large))
    assert line.up - broken < SIZE - 4 * MB
    assert content(run, "outputs/large", tmp_path) == large.read_bytes()
    run.complete()


def test_a_file_that_changed_meanwhile_begins_anew(
    run: Run, line: Line, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "_PATIENCE_S", -1.0)
    line.cuts = [("up", 20 * MB)]
    with pytest.raises(ServerUnavailableError):
        sending.put_file(through(line, run), run.id, "outputs/large", str(large))
    about = large.stat()
    large.write_bytes(os.urandom(SIZE))
    os.utime(large, ns=(about.st_atime_ns, about.st_mtime_ns))  # even if nothing shows it
    sending.put_file(through(line, run), run.id, "outputs/large", str(large))
    assert content(run, "outputs/large", tmp_path) == large.read_bytes()
    run.complete()


def test_a_killed_server_loses_nothing_that_arrived(
    home: Home, run: Run, line: Line, large: Path, tmp_path: Path
) -> None:
    """The sender goes on with the server that comes after it."""
    shipper = Shipper(
        line.url, run._client.token, str(home.home / "server.json"), server_id=run._client.server_id
    )
    arrived = home.home / "blobs" / "partial"
    line.cuts = [("up", 20 * MB)]
    sent_file = (run.id, "outputs/large", str(large))
    sender = threading.Thread(target=shipper.put_file, args=sent_file, daemon=True)
    sender.start()
    wait_until(lambda: line.cuts == [] and any(arrived.glob("*")))
    home.kill_server()
    sent = line.up
    assert next(arrived.iterdir()).stat().st_size > 8 * MB
    assert [each["path"] for each in run.list_files()] == []  # which starts another server
    line.port = int(run._client.url.rpartition(":")[2])
    sender.join(120)
    assert not sender.is_alive()
    shipper.close()
    assert line.up - sent < SIZE - 4 * MB
    assert content(run, "outputs/large", tmp_path) == large.read_bytes()
    assert list(arrived.iterdir()) == []
    run.complete()


def test_a_download_goes_on_where_it_broke(
    run: Run, line: Line, large: Path, tmp_path: Path
) -> None:
    run.upload_file("outputs/large", large)
    line.cuts = [("down", 20 * MB), ("down", 8 * MB)]
    place = f"/runs/{run.id}/files/outputs/large"
    fetching.fetch(through(line, run), place, str(tmp_path / "back"))
    assert line.cuts == []
    assert line.down < SIZE + 14 * MB
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    run.complete()


def test_another_process_goes_on_with_a_download(
    run: Run, line: Line, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.upload_file("outputs/large", large)
    folder = tmp_path / "into"
    folder.mkdir()
    monkeypatch.setattr(fetching, "_PATIENCE_S", -1.0)
    line.cuts = [("down", 20 * MB)]
    place = f"/runs/{run.id}/files/outputs/large"
    with pytest.raises(ServerUnavailableError):
        fetching.fetch(through(line, run), place, str(folder / "back"))
    (part,) = folder.iterdir()
    assert part.name.endswith(".part")
    before = line.down
    fetching.fetch(through(line, run), place, str(folder / "back"))
    assert line.down - before < SIZE - 4 * MB
    assert [path.name for path in folder.iterdir()] == ["back"]
    assert (folder / "back").read_bytes() == large.read_bytes()
    run.complete()


def test_bytes_that_went_wrong_on_this_disk_are_fetched_again(
    run: Run, large: Path, tmp_path: Path
) -> None:
    run.upload_file("outputs/large", large)
    digest = run.list_files()[0]["digest"]
    folder = tmp_path / "into"
    folder.mkdir()
    (folder / f".wherry-{digest[:32]}.part").write_bytes(bytes(9 * MB))
    run.download_file("outputs/large", folder / "back")
    assert (folder / "back").read_bytes() == large.read_bytes()
    assert [path.name for path in folder.iterdir()] == ["back"]
    run.complete()


def test_small_files_share_requests(
    run: Run, line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "many"
    (source / "ä b").mkdir(parents=True)
    for number in range(1200):
        (source / "ä b" / f"{number} %.txt").write_text(f"file {number}")
    run.upload_folder("outputs", source)
    asked: list[str] = []
    opened = Client.open

    def watched(client: Client, method: str, path: str, **options: object) -> object:
        asked.append(f"{method} {path}")
        return opened(client, method, path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Client, "open", watched)
    run.download_files("outputs/", tmp_path / "back")
    assert len([each for each in asked if "files/" in each]) == 2
    back = tmp_path / "back" / "outputs" / "ä b"
    assert len(list(back.iterdir())) == 1200
    assert (back / "7 %.txt").read_text() == "file 7"
    run.complete()


def test_a_download_given_again_fetches_what_is_left(
    run: Run, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run.upload_files(["outputs/large", "outputs/small"], [large, __file__])
    run.complete()
    words = ["job", "download", run.id, "outputs/", "-w", "w", "--path", str(tmp_path / "back")]
    assert main(words) == 0
    (tmp_path / "back" / "outputs" / "small").unlink()
    monkeypatch.setattr(RunFiles, "_fetch", lambda *_: pytest.fail("it lies there already"))
    assert main(words) == 0
    assert (tmp_path / "back" / "outputs" / "small").read_bytes() == Path(__file__).read_bytes()
    assert (tmp_path / "back" / "outputs" / "large").read_bytes() == large.read_bytes()


def test_a_small_file_that_was_replaced_meanwhile_is_told(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one")
    run.upload_file("a", tmp_path / "a")
    records = run.list_files()
    (tmp_path / "a").write_text("two")
    run.upload_file("a", tmp_path / "a")
    with pytest.raises(WherryError, match="another content than it was listed with"):
        list(run.fetch_all(records, [str(tmp_path / "back")]))
    assert not (tmp_path / "back").exists()
    run.complete()
