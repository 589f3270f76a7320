"""Sessions with a real JupyterLab, as runs on this machine."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.jupyter import Lab
from wherry import Environment, Experiment, Run, ScriptRunConfig, Workspace
from wherry.builds import prepare
from wherry.control import curated

REPOSITORY = Path(__file__).resolve().parents[2]
_PATIENCE_S = 500.0
_ENDED = ("Completed", "Failed", "Canceled")
_TOKEN = "a-token-of-jupyter"


class Instance:
    """What a server would start for a compute instance: one session after the other."""

    def __init__(self, home: Home) -> None:
        self.wherry = home
        self.workspace = Workspace.create("w", exist_ok=True)
        self.folder = home.folder / "instance"
        self.target = "local"
        self.run: Run | None = None

    def start(self, **contract: Any) -> Lab:
        """When JupyterLab answers."""
        self.submit(**contract)
        wait_until(lambda: self.tags().get("session.socket") or self.ended(), _PATIENCE_S)
        assert not self.ended(), f"{self.record()}\n{self.log()}"
        return Lab(self.tags()["session.socket"], "/instances/w/nb/", _TOKEN)

    def submit(self, **contract: Any) -> None:
        given = {
            "instance": "nb",
            "workspace": "w",
            "home": str(self.folder),
            "base_url": "/instances/w/nb/",
            "jupyter_token": _TOKEN,
            "token": (self.wherry.home / "token").read_text().strip(),
            "create": False,
            "creation_script": None,
            "startup_script": None,
            "kernels": [],
            **contract,
        }
        config = ScriptRunConfig(
            str(self.wherry.source),
            command=["python", "-m", "wherry.session"],
            environment=Environment.get(self.workspace, "Wherry-jupyter"),
            compute_target=self.target,
        )
        config.run_config.environment_variables = {"WHERRY_SESSION": json.dumps(given)}
        self.run = Experiment(self.workspace, "session").submit(config)

    def stop(self) -> None:
        """As the server would, by a cancel; nothing of it is left."""
        if self.run is None:
            return
        self.run.cancel()
        wait_until(self.ended, _PATIENCE_S)
        self.run = None
        assert self.processes() == []

    def processes(self) -> list[psutil.Process]:
        """Of JupyterLab, its kernels and its terminals."""
        return [
            each for each in self.wherry.processes() if each.environ().get("JUPYTER_CONFIG_DIR")
        ]

    def tags(self) -> dict[str, str]:
        assert self.run is not None
        return self.run.get_tags()

    def ended(self) -> bool:
        assert self.run is not None
        return self.run.get_status() in _ENDED

    def record(self) -> dict[str, Any]:
        assert self.run is not None
        return self.run.get_detailed_status()

    def log(self) -> str:
        assert self.run is not None
        pieces: list[bytes] = []
        self.run.stream_logs(pieces.append, follow=False)
        return b"".join(pieces).decode("utf-8", "replace")


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JupyterLab is installed once for all tests; hosts of theirs may not reach an index."""
    cache = tmp_path_factory.mktemp("cache")
    uv = str(REPOSITORY / ".tools" / "bin" / "uv")
    specification = dict(curated.get("w", "Wherry-jupyter", None).specification)
    prepare(specification, str(cache / "environments"), uv=uv).use.close()
    return cache


@pytest.fixture
def instance(home: Home, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Instance]:
    monkeypatch.setenv("WHERRY_CACHE", str(shared_cache))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("PATH", f"{REPOSITORY / '.tools' / 'bin'}:{os.environ['PATH']}")
    instance = Instance(home)
    yield instance
    instance.stop()
