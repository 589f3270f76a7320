"""Azure ML's shapes, and lines that cannot be read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.metrics import parse_lines, shape


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        ("scalar", [0.5], 0.5),
        ("scalar", [0.5, 0.7], [0.5, 0.7]),
        ("scalar", ["text"], "text"),
        ("list", [[1, 2]], [1, 2]),
        ("list", [[1, 2], [3]], [1, 2, 3]),
        ("row", [{"x": 1, "y": 2}], {"x": 1, "y": 2}),
        ("row", [{"x": 1, "y": 2}, {"x": 3, "y": 4}], {"x": [1, 3], "y": [2, 4]}),
        ("table", [{"x": [1, 2]}], {"x": [1, 2]}),
        ("table", [{"x": [1, 2]}, {"x": [3]}], {"x": [1, 2, 3]}),
        ("image", ["aml://a"], "aml://a"),
    ],
)
def test_shapes(kind: str, values: list[Any], expected: Any) -> None:
    assert shape(kind, values) == expected


def test_lines_that_cannot_be_read_are_left_out() -> None:
    good = json.dumps({"t": 1.0, "k": "scalar", "n": "a", "v": 1})
    lines = [good, "{", "[]", '{"k":"scalar"}', '{"t":1,"k":"odd","n":"a","v":1}', good]
    assert [entry.name for entry in parse_lines("\n".join(lines).encode())] == ["a", "a"]


@given(st.binary(max_size=200))
def test_no_bytes_can_break_it(data: bytes) -> None:
    parse_lines(data)
