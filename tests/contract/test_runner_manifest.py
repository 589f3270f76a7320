"""The control plane writes what the runner reads, and reads what the runner writes."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.interpreters import find_python
from wherry.control import bundle
from wherry.core import manifest as core
from wherry.core.lifecycle import ExitRecord, Status, verdict
from wherry.core.manifest import Manifest
from wherry.runner import folder
from wherry.runner.environment import command_environment
from wherry.runner.folder import Folder
from wherry.testing.fakes import FakeServer

FULL = Manifest(
    run_id="exp_1_ab",
    attempt_id="a1",
    server="http://127.0.0.1:1",
    server_file="/tmp/server.json",
    server_id="5e71d",
    token="t0ken",
    snapshot_id="0123",
    argv=["/bin/sh", "-c", 'printf "%s|" "$@"; env', "sh", "a b", "", "$HOME", "ü\n"],
    env={"ODD": 'it\'s "odd"\nü', "EMPTY": ""},
    time_limit_s=30.0,
    grace_s=0.5,
)


def test_the_runner_reads_every_field(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps(FULL.to_dict()))
    read = Folder(str(tmp_path)).manifest()
    assert read == FULL.to_dict()
    assert set(read) == {field.name for field in dataclasses.fields(Manifest)}


def test_one_version_of_the_format() -> None:
    assert folder.MANIFEST_VERSION == core.VERSION


def test_a_manifest_with_defaults_alone_is_enough() -> None:
    least = Manifest(run_id="r", attempt_id="a", server="", argv=["true"]).to_dict()
    assert command_environment({}, least, "/n", "/lib")["WHERRY_RUN_ID"] == "r"


def test_a_manifest_becomes_a_command(tmp_path: Path) -> None:
    with FakeServer(token="t0ken", server_id=FULL.server_id) as server:
        server.add_snapshot("0123", {"x": "1"})
        wanted = dataclasses.replace(FULL, server=server.url)
        record = run(tmp_path, wanted)
        log = server.log.decode()
        assert server.exits == [record]
    assert log.startswith("a b||$HOME|ü\n|")
    for line in ("EMPTY=", 'ODD=it\'s "odd"', "WHERRY_RUN_ID=exp_1_ab", f"PWD={tmp_path}/work"):
        assert f"\n{line}\n" in f"\n{log.replace('|', chr(10))}\n"


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["/bin/true"], Status.COMPLETED),
        (["/bin/false"], Status.FAILED),
        (["/no/such"], Status.FAILED),
        (["/bin/sh", "-c", "kill -9 $$"], Status.FAILED),
    ],
)
def test_the_control_plane_reads_the_exit_record(
    tmp_path: Path, argv: list[str], status: Status
) -> None:
    record = run(tmp_path, Manifest(run_id="r", attempt_id="a", server="", argv=argv))
    assert set(record) == {field.name for field in dataclasses.fields(ExitRecord)}
    assert verdict(ExitRecord.parse(record)).status is status


def test_the_archive_is_the_same_for_the_same_sources() -> None:
    code = (
        "import hashlib; from wherry.control import bundle;"
        "print(hashlib.sha256(bundle.build()).hexdigest(), bundle.content_hash())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    mine = hashlib.sha256(bundle.build()).hexdigest()
    assert done.stdout.split() == [mine, bundle.content_hash()]
    assert bundle.build() is bundle.build()


def test_the_archive_holds_what_a_node_needs_and_no_more() -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.build())) as archive:
        names = archive.namelist()
        start = archive.read("__main__.py")
    assert {"wherry/__init__.py", "wherry/runner/__main__.py", "wherry/core/errors.py"} <= set(
        names
    )
    parts = {name.split("/")[1] for name in names if name.count("/") > 1}
    assert parts == {"builds", "cli", "containers", "core", "runner", "sdk", "session"}
    assert start == bundle.files()["runner.py"]
    assert f'HASH = "{bundle.content_hash()}"'.encode() in start


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_all_that_travels_compiles_everywhere(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    with zipfile.ZipFile(io.BytesIO(bundle.build())) as archive:
        archive.extractall(tmp_path)
    done = subprocess.run(
        [python, "-W", "error", "-m", "compileall", "-q", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout


def run(path: Path, manifest: Manifest) -> dict[str, object]:
    (path / "manifest.json").write_text(json.dumps(manifest.to_dict()))
    for name, content in bundle.files().items():
        (path / name).write_bytes(content)
    argv = [part.replace("{dir}", str(path)) for part in bundle.command(sys.executable)]
    env = {"WHERRY_CACHE": str(path / "cache"), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(argv, capture_output=True, timeout=60, env=env)
    assert done.returncode == 0, done.stderr
    record = json.loads((path / "exit.json").read_text())
    assert isinstance(record, dict)
    return record
