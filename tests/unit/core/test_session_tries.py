"""How often a session is begun again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wherry.core.session_tries import STEADY, again_at, failures_with

_NOW = datetime(2026, 11, 16, 8, tzinfo=UTC)


@pytest.mark.parametrize(("failures", "pause_s"), [(0, 0), (1, 10), (2, 20), (3, None)])
def test_pauses_grow_until_there_are_no_more_tries(failures: int, pause_s: int | None) -> None:
    due = None if pause_s is None else _NOW + timedelta(seconds=pause_s)
    assert again_at(failures, _NOW) == due


def test_a_long_life_forgives_what_was_before() -> None:
    assert failures_with(2, None, _NOW) == 3  # it never began
    assert failures_with(2, _NOW - STEADY / 2, _NOW) == 3
    assert failures_with(2, _NOW - STEADY, _NOW) == 1
