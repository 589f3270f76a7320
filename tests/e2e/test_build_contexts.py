"""Images that are built from a folder of the user's, and all that can be wrong with one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.homes import Home
from tests.podman import BASE, Podman, SmallDisk, on_a_small_disk
from wherry import DockerBuildContext, Environment, Run, UserErrorException, Workspace

SHOW = "print(open('/word.txt').read())"


@pytest.fixture
def folder(home: Home) -> Path:
    """A build context that no other test has."""
    folder = home.folder / "docker"
    folder.mkdir()
    (folder / "word.txt").write_text(f"made {uuid4()}")
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY word.txt /word.txt\n")
    return folder


def boxed(folder: Path, **options: Any) -> Environment:
    context = DockerBuildContext.from_local_directory(path=folder, **options)
    return Environment.from_docker_build_context("boxed", context)


def output(run: Run) -> str:
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, follow=False)
    return b"".join(pieces).decode()


def failure(run: Run) -> str:
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    return str((run.get_error() or {}).get("message"))


def test_a_folder_reaches_the_node_and_a_change_in_it_counts(boxes: Home, folder: Path) -> None:
    word = (folder / "word.txt").read_text()
    environment = boxed(folder)
    run = boxes.submit(SHOW, environment=environment)
    run.wait_for_completion()
    assert output(run).strip() == word
    registered = environment.register(Workspace.create("w", exist_ok=True))
    (folder / "word.txt").write_text("another")
    later = boxes.submit(SHOW, environment=boxed(folder))
    later.wait_for_completion()
    assert output(later).strip() == "another"
    again = boxes.submit(SHOW, environment=registered)
    again.wait_for_completion()
    assert output(again).strip() == word, "a version that is registered never changes"


def test_what_is_wrong_with_it_is_one_sentence_and_the_next_run_works(
    boxes: Home, folder: Path
) -> None:
    with pytest.raises(UserErrorException, match=r"docker' has no 'mine.dockerfile'"):
        boxes.submit(SHOW, environment=boxed(folder, dockerfile_path="mine.dockerfile"))
    with pytest.raises(UserErrorException, match=r"there is no folder .*none' to build an image"):
        boxes.submit(SHOW, environment=boxed(folder / "none"))
    whole = (folder / "Dockerfile").read_text()
    (folder / "Dockerfile").write_text("\n")
    with pytest.raises(UserErrorException, match=r"docker/Dockerfile is empty"):
        boxes.submit(SHOW, environment=boxed(folder))
    for text, said in (
        (f"FROM {BASE}\nCOPY none.txt /\n", "none.txt"),
        (f"FROM {BASE}\nRUN echo No space left on device\nRUN echo so far; exit 7\n", "exit 7"),
        (f"FROM {BASE}\nNONSENSE\n", "NONSENSE"),
    ):
        (folder / "Dockerfile").write_text(text)
        message = failure(boxes.submit(SHOW, environment=boxed(folder)))
        assert "the image of environment 'boxed' cannot be built" in message
        assert said in message
    (folder / "Dockerfile").write_text(whole)
    run = boxes.submit(SHOW, environment=boxed(folder))
    run.wait_for_completion()
    assert output(run).strip() == (folder / "word.txt").read_text()


@pytest.fixture
def small_disk(podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallDisk]:
    with on_a_small_disk("24m") as disk:
        if disk is None:
            pytest.skip("this machine does not let the test mount a small disk")
        monkeypatch.setenv("DOCKER_HOST", disk.podman.host)
        yield disk


def test_a_full_disk_is_one_sentence_and_the_next_run_works(
    small_disk: SmallDisk, folder: Path, home: Home
) -> None:
    fill = 'python3 -c \'open("/large", "wb").write(bytes(32 << 20))\''
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nRUN {fill}\n")
    message = failure(home.submit(SHOW, environment=boxed(folder)))
    assert "has no room to build the image of environment 'boxed': the engine's disk" in message
    assert "32 << 20" in message
    (folder / "large").write_bytes(os.urandom(32 << 20))
    (folder / "Dockerfile").write_text(f"FROM {BASE}\nCOPY . /\n")
    message = failure(home.submit(SHOW, environment=boxed(folder)))
    assert "has no room to build the image of environment 'boxed'" in message
    small_disk.grow("512m")
    run = home.submit(SHOW, environment=boxed(folder))
    run.wait_for_completion()
    assert output(run).strip() == (folder / "word.txt").read_text()
