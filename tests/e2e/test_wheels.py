"""Wheels of one's own, from the folder they were built in to the run that imports them."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.builds.index import metadata, wheel
from tests.homes import Home
from tests.podman import BASE
from wherry import CondaDependencies, Environment, Run, Workspace
from wherry.core.errors import ConflictError

NAME = "mine-1.0-py3-none-any.whl"
SAYS = "import mine; print(mine.WORD)"


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")


def built(folder: Path, word: str) -> Path:
    path = folder / NAME
    path.write_bytes(wheel("mine", "1.0", f"WORD = {word!r}", metadata("mine", "1.0", ())))
    return path


def asking(*pip: str) -> Environment:
    environment = Environment("train")
    packages = CondaDependencies()
    for each in pip:
        packages.add_pip_package(each)
    environment.python.conda_dependencies = packages
    return environment


def output(run: Run) -> str:
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, follow=False)
    return b"".join(pieces).decode().strip()


def all_text(run: Run, folder: Path) -> str:
    """Whatever the run keeps, and what the server says of it."""
    run.download_files(output_directory=str(folder))
    texts = [each.read_text() for each in folder.rglob("*") if each.is_file()]
    return "\n".join([*texts, json.dumps(run.get_details(), default=str)])


def test_it_goes_with_the_environment_wherever_that_is_made(home: Home, tmp_path: Path) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    address = Environment.add_private_pip_wheel(workspace, built(tmp_path, "mine"))
    assert Environment.add_private_pip_wheel(workspace, str(tmp_path / NAME)) == address
    run = home.submit(SAYS, environment=asking(address))
    run.wait_for_completion()
    assert output(run) == "mine"
    kept = all_text(run, tmp_path / "kept")
    assert address in (tmp_path / "kept" / "environment" / "lock.json").read_text()
    assert (home.home / "token").read_text().strip() not in kept
    assert not re.search(r"Bearer|wa\.[0-9a-f]{8}-", kept)
    with pytest.raises(ConflictError, match=f"keeps a wheel {NAME} already"):
        Environment.add_private_pip_wheel(workspace, built(tmp_path, "another"))
    other = Environment.add_private_pip_wheel(workspace, tmp_path / NAME, exist_ok=True)
    registered = asking(f"mine @ {other}").register(workspace)
    build = registered.build(workspace).wait_for_completion()
    for environment in (registered, Environment.from_lock("again", build.get_lock())):
        run = home.submit(SAYS, environment=environment)
        run.wait_for_completion()
        assert output(run) == "another"


def test_one_that_the_server_has_lost_fails_the_run_and_can_be_given_again(
    home: Home, tmp_path: Path
) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    address = Environment.add_private_pip_wheel(workspace, built(tmp_path, "lost and found"))
    digest = hashlib.sha256((tmp_path / NAME).read_bytes()).hexdigest()
    next((home.home / "blobs").glob(f"*/{digest}")).unlink()
    run = home.submit(SAYS, environment=asking(address))
    run.wait_for_completion(raise_on_error=False)
    message = str((run.get_error() or {}).get("message"))
    assert "a wheel of the workspace cannot be fetched" in message
    assert "is no longer on the server" in message
    assert "wherry environment add-wheel" in message
    assert Environment.add_private_pip_wheel(workspace, tmp_path / NAME) == address
    run = home.submit(SAYS, environment=asking(address))
    run.wait_for_completion()
    assert output(run) == "lost and found"


def test_on_top_of_an_image(boxes: Home, tmp_path: Path) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    address = Environment.add_private_pip_wheel(workspace, built(tmp_path, "in a box"))
    environment = asking(address)
    environment.docker.base_image = BASE
    environment.docker.enabled = True
    run = boxes.submit(SAYS, environment=environment)
    run.wait_for_completion()
    assert output(run) == "in a box"
    lock = tmp_path / "lock.json"
    run.download_file("environment/lock.json", str(lock))
    assert json.loads(lock.read_text())["pypi"][0]["url"] == address
