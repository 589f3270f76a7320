"""The OpenAPI document tells of every answer, also of those that nobody likes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.planes import make_plane
from wherry.api import answers
from wherry.api.app import create_app
from wherry.drivers.memory import MemoryDriver


@pytest.fixture
def paths(tmp_path: Path) -> dict[str, Any]:
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    paths: dict[str, Any] = create_app(plane, reconcile=False).openapi()["paths"]
    plane.close()
    return paths


def test_refusals_are_problems(paths: dict[str, Any]) -> None:
    for path, methods in paths.items():
        for operation in methods.values():
            told = operation["responses"]
            assert "422" not in told
            assert {"400", "426"} <= set(told)
            assert ("401" in told) == (not path.endswith("/health")), path
            refusals = [told[status] for status in told if status >= "4"]
            assert {next(iter(each["content"])) for each in refusals} == {
                "application/problem+json"
            }


def test_bytes_are_bytes(paths: dict[str, Any]) -> None:
    file = paths["/api/v1/runs/{run_id}/files/{path}"]
    assert set(file["get"]["responses"]["200"]["content"]) == {"application/octet-stream"}
    assert {"206", "416"} <= set(file["get"]["responses"])
    assert set(file["put"]["requestBody"]["content"]) == {"application/octet-stream"}
    archive = paths["/api/v1/snapshots/{snapshot_id}/archive"]["get"]["responses"]
    assert set(archive["200"]["content"]) == {"application/x-tar"}
    assert "413" in paths["/api/v1/blobs"]["post"]["responses"]


def test_answers_are_described(paths: dict[str, Any]) -> None:
    submitted = paths["/api/v1/workspaces/{workspace}/runs"]["post"]["responses"]
    for status in ("200", "201"):
        schema = submitted[status]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Run"}


def test_every_described_answer_belongs_to_a_route(paths: dict[str, Any]) -> None:
    routes = {f"{method.upper()} {path}" for path in paths for method in paths[path]}
    assert set(answers._ANSWERS) <= routes
