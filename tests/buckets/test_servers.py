"""A whole server whose files lie in a bucket of a real S3 server."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import Home, wait_until
from tests.lines import Line
from tests.s3 import BUCKET, Server
from wherry import Experiment, Run, ScriptRunConfig, Workspace
from wherry.blobs.base import BlobStore
from wherry.blobs.opening import open_blobs
from wherry.runner.shipping import Shipper
from wherry.sdk.server import HomeServer

pytestmark = pytest.mark.s3
MB = 1 << 20


@pytest.fixture
def line(s3: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Line]:
    """The server's way to its bucket."""
    line = Line(s3.port)
    monkeypatch.setenv("AWS_ENDPOINT_URL", line.url)
    yield line
    line.close()


@pytest.fixture
def address(s3: Server, monkeypatch: pytest.MonkeyPatch) -> str:
    address = s3.address()
    monkeypatch.setenv("WHERRY_BLOBS", address)
    return address


@pytest.fixture
def bucket(s3: Server, address: str, tmp_path: Path) -> BlobStore:
    """The same place, as somebody else sees it."""
    return open_blobs(address, tmp_path / "elsewhere")


def start(home: Home) -> Run:
    return Experiment(Workspace.create("w", exist_ok=True), "e").start_logging(
        snapshot_directory=None
    )


def status(home: Home) -> str:
    words = [sys.executable, "-m", "wherry.cli.main", "server", "start"]
    return subprocess.run(words, capture_output=True, text=True).stderr


def test_a_run_from_its_snapshot_to_its_files(
    home: Home, address: str, bucket: BlobStore, tmp_path: Path
) -> None:
    for number in range(200):
        (home.source / f"part{number}.py").write_text(f"x = {number}\n")
    run = home.submit(
        "import os, part7\n"
        "open('outputs/model.bin', 'wb').write(os.urandom(20 << 20))\n"
        "for n in range(300): open(f'outputs/{n}.txt', 'w').write(str(n * part7.x))\n"
    )
    run.wait_for_completion()
    files = {each["path"]: each for each in run.list_files()}
    assert len([name for name in files if name.startswith("outputs/")]) == 301
    run.download_files("outputs/", tmp_path / "back")
    back = tmp_path / "back" / "outputs"
    assert (back / "3.txt").read_text() == "21"
    digest = hashlib.sha256((back / "model.bin").read_bytes()).hexdigest()
    assert digest == files["outputs/model.bin"]["digest"]
    assert bucket.size(digest) == 20 << 20
    blobs = home.home / "blobs"
    assert {path.name for path in blobs.iterdir()} == {"incoming", "known", "partial"}
    assert not any([*(blobs / "incoming").iterdir(), *(blobs / "partial").iterdir()])


def test_a_server_killed_while_it_sends_to_the_bucket(
    home: Home, bucket: BlobStore, line: Line, tmp_path: Path
) -> None:
    """Nothing half is seen; the next server sends what the first had received."""
    run = start(home)
    kept = tmp_path / "kept"
    kept.write_bytes(os.urandom(3 * MB))
    run.upload_file("outputs/kept", kept)
    large = tmp_path / "large"
    large.write_bytes(os.urandom(40 * MB))
    client = run._client
    shipper = Shipper(
        client.url, client.token, str(home.home / "server.json"), server_id=client.server_id
    )
    partial = home.home / "blobs" / "partial"
    before = line.up
    sent = (run.id, "outputs/large", str(large))
    sender = threading.Thread(target=shipper.put_file, args=sent, daemon=True)
    sender.start()
    wait_until(lambda: line.up > before + 10 * MB)
    line.open.clear()
    home.kill_server()
    digest = hashlib.sha256(large.read_bytes()).hexdigest()
    assert not bucket.has(digest)
    assert next(partial.iterdir()).stat().st_size == 40 * MB
    line.open.set()
    names = run.get_file_names()  # which starts another server
    assert "outputs/kept" in names
    sender.join(300)
    assert not sender.is_alive()
    shipper.close()
    run.download_file("outputs/large", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == large.read_bytes()
    run.download_file("outputs/kept", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == kept.read_bytes()
    assert bucket.size(digest) == 40 * MB
    assert list(partial.iterdir()) == []
    run.complete()


def test_a_bucket_that_is_away_is_waited_for(
    home: Home, line: Line, address: str, tmp_path: Path
) -> None:
    """A script's outputs wait on its machine; its end is told when they are safe."""
    port = line.port
    Workspace.create("w", exist_ok=True)
    run = home.submit("import time; time.sleep(5); open('outputs/a', 'w').write('safe')\n")
    wait_until(lambda: run.get_status() == "Running")
    line.lead_nowhere()
    nodes = home.home / "nodes"
    wait_until(lambda: any("503" in path.read_text() for path in nodes.rglob("runner.log")), 150)
    assert run.get_status() != "Completed"
    line.port = port
    run.wait_for_completion()
    run.download_file("outputs/a", tmp_path / "a")
    assert (tmp_path / "a").read_text() == "safe"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "does not let the server in (SignatureDoesNotMatch"),
        ({"WHERRY_BLOBS": "s3://nowhere-at-all/x"}, "the bucket of s3://nowhere-at-all/x does not"),
    ],
)
def test_what_a_person_must_mend_keeps_the_server_from_starting(
    home: Home,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    change: dict[str, str],
    told: str,
) -> None:
    for name, value in change.items():
        monkeypatch.setenv(name, value)
    shown = status(home)
    assert told in shown
    assert "Traceback" not in shown


def test_a_bucket_without_the_contents_is_not_taken(
    home: Home, s3: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Copied as the page on files shows, they are found there."""
    home.script("print('kept')")
    source = ScriptRunConfig(str(home.source), "train.py")
    run = Experiment(Workspace.create("w"), "e").submit(source)
    run.wait_for_completion()
    HomeServer(str(home.home)).stop()
    address = s3.address()
    monkeypatch.setenv("WHERRY_BLOBS", address)
    shown = status(home)
    assert f"are not in {address}, which takes the place of the home's own folder" in shown
    bucket = open_blobs(address, tmp_path / "elsewhere")
    for path in (home.home / "blobs").glob("[0-9a-f][0-9a-f]/*"):
        bucket.put([path.read_bytes()], expected=path.name)
    assert run.restore_snapshot(path=str(tmp_path / "back"))
    assert (tmp_path / "back" / "train.py").read_text() == "print('kept')"
    assert BUCKET in (home.home / "blobs.store").read_text()
