"""Many builders of one environment, builders that die, builds that nobody wants any more."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builds.conftest import spec
from tests.builds.index import Index
from wherry.builds import BuildCanceled, BuildError, prepare

PATIENCE_S = 60.0


def wait_for(happened: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not happened():
        assert time.monotonic() < limit, "it never happened"
        time.sleep(0.02)


@pytest.fixture
def wanted(index: Index, tmp_path: Path) -> Path:
    """A specification in a file, whose one package the index gives out when the test lets it."""
    index.add("slowly", "1.0")
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(spec(f"--index-url {index.url}/simple", "slowly==1.0")))
    return path


def start(path: Path, root: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "wherry.builds", str(path), "--root", root],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def processes_of(root: str) -> list[str]:
    """Programs, other than this test, that were started for builds in this folder."""
    found = []
    for each in Path("/proc").iterdir():
        try:
            words = (each / "cmdline").read_text()
        except OSError:
            continue
        if root in words and each.name != str(os.getpid()):
            found.append(words.replace("\0", " "))
    return found


def test_ten_at_once_share_one_build(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    builders = [start(wanted, root) for _ in range(10)]
    assert index.asked.wait(PATIENCE_S)
    says = list(Path(root, "locks").glob("*.says"))
    wait_for(lambda: any("downloading" in path.read_text() for path in says))
    index.let_go.set()
    answers, errors = [], []
    for builder in builders:
        out, error = builder.communicate(timeout=PATIENCE_S)
        assert builder.returncode == 0, error
        answers.append(json.loads(out))
        errors.append(error)
    assert sum(answer["built"] for answer in answers) == 1
    assert len({answer["interpreter"] for answer in answers}) == 1
    assert sum("downloading 1 package" in error.split("waiting")[0] for error in errors) == 1


def test_who_waits_says_for_what(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    first = start(wanted, root)
    assert index.asked.wait(PATIENCE_S)
    said: list[str] = []
    second = threading.Thread(
        target=prepare,
        args=(json.loads(wanted.read_text()), root),
        kwargs={"progress": said.append},
    )
    second.start()
    waiting = "waiting for another build of environment 'train': downloading 1 package"
    wait_for(lambda: waiting in said)
    index.let_go.set()
    second.join(PATIENCE_S)
    out, _ = first.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["built"]


def test_a_build_killed_half_way_leaves_nothing_that_looks_finished(
    wanted: Path, index: Index, root: str
) -> None:
    index.let_go.clear()
    builder = start(wanted, root)
    assert index.asked.wait(PATIENCE_S)
    [half] = Path(root, "environments").iterdir()
    builder.kill()
    builder.communicate(timeout=PATIENCE_S)
    assert not (half / "environment.json").exists()
    assert list(Path(root, "specs").iterdir()) == []
    (half / "left-over").write_text("of the first build")
    index.let_go.set()
    again = prepare(json.loads(wanted.read_text()), root)
    assert again.built
    assert again.prefix == str(half)
    assert not (half / "left-over").exists()


def test_uv_that_is_killed_is_begun_again(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    builder = start(wanted, root)
    assert index.asked.wait(PATIENCE_S)
    for each in psutil.Process(builder.pid).children():
        each.kill()
    index.let_go.set()
    out, said = builder.communicate(timeout=PATIENCE_S)
    assert json.loads(out)["built"], said
    assert "uv was killed while it made an environment; it is begun again" in said


def test_uv_that_is_always_killed_is_told(wanted: Path, root: str, tmp_path: Path) -> None:
    deadly = tmp_path / "uv"
    deadly.write_text("#!/bin/sh\necho so far >&2; kill -9 $$\n")
    deadly.chmod(0o755)
    with pytest.raises(BuildError, match="uv was killed while it made") as caught:
        prepare(json.loads(wanted.read_text()), root, uv=str(deadly))
    assert "lacks memory" in caught.value.text()
    assert "so far" in caught.value.text()
    assert list(Path(root, "work").iterdir()) == []


def test_cancel_ends_every_program_of_the_build(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    ended: list[BaseException] = []
    stop = threading.Event()

    def build() -> None:
        try:
            prepare(json.loads(wanted.read_text()), root, canceled=stop.is_set)
        except BuildError as error:
            ended.append(error)

    builder = threading.Thread(target=build)
    builder.start()
    assert index.asked.wait(PATIENCE_S)
    assert processes_of(root) != []
    stop.set()
    builder.join(PATIENCE_S)
    assert isinstance(ended[0], BuildCanceled)
    assert processes_of(root) == []
    assert list(Path(root, "environments").iterdir()) == []
    assert list(Path(root, "work").iterdir()) == []


def test_the_command_ends_at_a_signal(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    builder = start(wanted, root)
    assert index.asked.wait(PATIENCE_S)
    builder.send_signal(signal.SIGTERM)
    _, error = builder.communicate(timeout=PATIENCE_S)
    assert builder.returncode == 130
    assert "was canceled" in error
    assert processes_of(root) == []


def test_who_waits_can_be_canceled(wanted: Path, index: Index, root: str) -> None:
    index.let_go.clear()
    first = start(wanted, root)
    assert index.asked.wait(PATIENCE_S)
    said: list[str] = []
    with pytest.raises(BuildCanceled):
        prepare(
            json.loads(wanted.read_text()),
            root,
            progress=said.append,
            canceled=lambda: bool(said),
        )
    index.let_go.set()
    _, error = first.communicate(timeout=PATIENCE_S)
    assert first.returncode == 0, error


@pytest.fixture
def small_disk(tmp_path: Path) -> Any:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("this machine does not let the test mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_is_a_sentence_and_the_next_build_works(small_disk: Path, index: Index) -> None:
    index.add("large", "1.0", source="x = 1\n" * 200_000)
    wanted = spec(f"--index-url {index.url}/simple", "large")
    with pytest.raises(BuildError, match="there is no space left for environments in"):
        prepare(wanted, str(small_disk / "root"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(small_disk)], check=True)
    assert prepare(wanted, str(small_disk / "root")).built
