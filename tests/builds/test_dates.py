from __future__ import annotations

import pytest

from wherry.builds.dates import cutoff


@pytest.mark.parametrize(
    ("as_of", "moment"),
    [
        ("2020-05-01", "2020-05-02T00:00:00Z"),
        ("2020-12-31", "2021-01-01T00:00:00Z"),
        ("2020-05-01T12:00", "2020-05-01T12:00:00Z"),
        ("2020-05-01 12:00:30Z", "2020-05-01T12:00:30Z"),
        ("2020-05-01T00:30:00+02:00", "2020-04-30T22:30:00Z"),
    ],
)
def test_a_day_counts_whole_and_a_time_exactly(as_of: str, moment: str) -> None:
    assert cutoff(as_of) == moment
