from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.homes import Home
from tests.podman import Podman

REPOSITORY = Path(__file__).resolve().parents[2]
_PATIENCE_S = 90


@pytest.fixture
def boxes(home: Home, podman: Podman, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    """A home whose runs may go into containers, and which has uv."""
    monkeypatch.setenv("DOCKER_HOST", podman.host)
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    tools = REPOSITORY / ".tools" / "bin"
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    yield home
    left = podman.left_after(_PATIENCE_S)
    assert left == "", f"a container is left: {left}"
