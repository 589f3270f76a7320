"""A fake server, and a world in which the SDK knows of no other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry import Experiment, Workspace
from wherry.sdk import connection, interactive, run

from . import fake_computes  # noqa: F401 - adds its routes
from .fake_server import TOKEN, FakeServer

VARIABLES = (
    "WHERRY_SERVER",
    "WHERRY_TOKEN",
    "WHERRY_WORKSPACE",
    "WHERRY_RUN_ID",
    "WHERRY_RUN_TOKEN",
    "WHERRY_SPOOL",
    "WHERRY_SERVER_FILE",
    "WHERRY_EXPERIMENT",
    "AZUREML_RUN_ID",
    "AZUREML_ARM_WORKSPACE_NAME",
    "AZUREML_ARM_PROJECT_NAME",
)


@pytest.fixture(autouse=True)
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home and cache; nothing of the machine's own settings."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    run._of_this_process.clear()
    connection.forget()


@pytest.fixture
def fake(world: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    server = FakeServer()
    monkeypatch.setenv("WHERRY_SERVER", server.url)
    monkeypatch.setenv("WHERRY_TOKEN", TOKEN)
    yield server
    interactive.finish_all()
    connection.forget()
    server.close()


@pytest.fixture
def workspace(fake: FakeServer) -> Workspace:
    return Workspace.create("lab", exist_ok=True)


@pytest.fixture
def experiment(workspace: Workspace) -> Experiment:
    return Experiment(workspace, "churn")
