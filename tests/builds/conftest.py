from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.builds.index import Index, serve

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def uv(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repository's own, where the machine has none: fetching it is a test of its own."""
    own = REPOSITORY / ".tools" / "bin" / "uv"
    if not shutil.which("uv") and own.exists():
        monkeypatch.setenv("WHERRY_UV", str(own))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


@pytest.fixture
def index() -> Iterator[Index]:
    with serve(Index()) as running:
        yield running


def spec(*pip: str, python: str = "", **more: Any) -> dict[str, Any]:
    """With these in its pip section."""
    dependencies: list[Any] = [python] if python else []
    conda = {"dependencies": [*dependencies, {"pip": list(pip)}]}
    return {"name": "train", "python": {"conda": conda, **more}}
