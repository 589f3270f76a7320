"""When a JupyterLab was last used, by its own words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from wherry.core.idleness import in_use, last_used


@pytest.mark.parametrize(
    ("kernel", "used"),
    [
        ({"execution_state": "busy", "connections": 0}, True),
        ({"execution_state": "starting"}, True),
        ({"execution_state": "idle", "connections": 1}, True),
        ({"execution_state": "idle", "connections": 0}, False),
        ({"execution_state": "idle", "connections": -1}, False),
        ({"execution_state": "dead"}, False),
        ({}, False),
    ],
)
def test_a_cell_at_work_and_somebody_connected_are_use(kernel: dict[str, Any], used: bool) -> None:
    assert in_use([{"execution_state": "idle"}, kernel]) is used


def test_the_latest_word_counts_whoever_says_it() -> None:
    status = {"last_activity": "2026-11-16T07:00:00.000000Z"}
    kernels = [{"last_activity": "2026-11-16T07:20:00.000000Z"}, {"last_activity": None}]
    terminals = [{"name": "1", "last_activity": "2026-11-16T07:10:00Z"}, {}]
    last = datetime(2026, 11, 16, 7, 20, tzinfo=UTC)
    assert last_used(status, kernels, terminals) == last
    assert last_used(status, [], [{"last_activity": "2026-11-16T07:20:00"}]) == last
    assert last_used({"last_activity": "yesterday"}, [], "nonsense") is None
