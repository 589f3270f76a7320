"""A value that was packed is the same, bit by bit and type by type."""

from __future__ import annotations

import json
import math
import struct
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wherry.core.sampling import outline
from wherry.store.points import Points, bounded, pack, unpack

INT64 = st.integers(-(2**63) + 1, 2**63 - 1)
VALUES = st.one_of(
    st.lists(st.floats(), min_size=1),
    st.lists(st.integers(), min_size=1),
    st.lists(
        st.one_of(st.floats(), st.integers(), st.text(), st.booleans(), st.lists(st.integers())),
        min_size=1,
    ),
)


def told(value: Any) -> Any:
    return struct.pack("<d", value) if type(value) is float else json.dumps(value)


@given(VALUES, st.data())
def test_everything_comes_back(values: list[Any], data: Any) -> None:
    count = len(values)
    times = data.draw(st.lists(INT64, min_size=count, max_size=count))
    steps = data.draw(st.lists(st.none() | INT64, min_size=count, max_size=count))
    row = SimpleNamespace(**pack(Points(times, steps, values)))
    back = unpack(row)
    assert (back.times, back.steps) == (times, steps)
    assert [type(value) for value in back.values] == [type(value) for value in values]
    if not any(isinstance(value, float) and math.isnan(value) for value in values):
        assert list(map(told, back.values)) == list(map(told, values))


def test_steps_beyond_eight_bytes_are_the_nearest() -> None:
    assert [bounded(step) for step in (10**30, -(10**30), 5, None)] == [
        2**63 - 1,
        -(2**63) + 1,
        5,
        None,
    ]


@given(st.lists(st.floats(), max_size=300), st.integers(2, 50))
def test_an_outline_keeps_the_peaks(values: list[float], wanted: int) -> None:
    places = outline(values, wanted)
    assert places == sorted(set(places))
    assert len(places) <= max(wanted + 2, 0)
    numbers = [value for value in values if not math.isnan(value)]
    shown = [values[place] for place in places if not math.isnan(values[place])]
    if numbers:
        assert (min(shown), max(shown)) == (min(numbers), max(numbers))
    if values:
        assert (places[0], places[-1]) == (0, len(values) - 1)
