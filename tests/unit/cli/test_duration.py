"""Lengths of time, read and written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from wherry.cli.duration import ago, between, parse_duration, show_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90.0),
        ("45s", 45.0),
        ("30m", 1800.0),
        ("2h", 7200.0),
        ("1h30m", 5400.0),
        ("1H 30M", 5400.0),
        ("1.5h", 5400.0),
        ("1d", 86400.0),
        (600, 600.0),
        (0.5, 0.5),
    ],
)
def test_lengths_of_time(text: object, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "h", "2x", "-1", "1h30", "0", "0s", True, "m30", "1:30", "nan"]
)
def test_what_is_no_length_of_time(text: object) -> None:
    assert parse_duration(text) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0s"),
        (-3, "0.0s"),
        (12.34, "12.3s"),
        (59.96, "1m00s"),
        (250, "4m10s"),
        (3599.6, "1h00m"),
        (7500, "2h05m"),
        (273600, "3d04h"),
    ],
)
def test_for_people(seconds: float, text: str) -> None:
    assert show_duration(seconds) == text


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ({"seconds": -5}, "now"),
        ({"seconds": 59}, "now"),
        ({"seconds": 60}, "1 min ago"),
        ({"minutes": 59, "seconds": 59}, "59 min ago"),
        ({"minutes": 60}, "11:03"),
        ({"hours": 12}, "00:03"),
        ({"hours": 13}, "yesterday"),
        ({"hours": 36}, "yesterday"),
        ({"hours": 37}, "2026-03-02"),
    ],
)
def test_how_long_ago(before: dict[str, int], said: str) -> None:
    now = datetime(2026, 3, 4, 12, 3).astimezone()
    at = (now - timedelta(**before)).astimezone(UTC)
    assert ago(at.isoformat().replace("+00:00", "Z"), now) == said
    assert ago(None) == ""


def test_between() -> None:
    assert between(None, None) is None
    assert between("2026-01-01T00:00:00Z", "2026-01-01T00:00:01.500000Z") == 1.5
    since = between("2026-01-01T00:00:00Z", None)
    assert since is not None
    assert since > 0
