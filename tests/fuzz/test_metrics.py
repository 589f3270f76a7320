"""Whatever a script logs: training goes on, and what can be kept comes back as it was."""

from __future__ import annotations

import json
import math
import tempfile
import uuid
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from wherry.control.reports import _named
from wherry.core.metrics import parse_lines
from wherry.core.text import clean
from wherry.sdk.spool import Spool
from wherry.sdk.tracking import Tracking
from wherry.store import metrics, runs
from wherry.store.database import Database

from ..contract.stored import add_run


class Itself:
    """An array that is made of itself."""

    def tolist(self) -> Any:
        return self


class Broken:
    def __float__(self) -> float:
        raise MemoryError("no")

    def __str__(self) -> str:
        raise OSError("no")


class Child(float):
    def __repr__(self) -> str:
        return "not a number"


LOOP: list[Any] = []
LOOP.append(LOOP)
DEEP: list[Any] = []
for _ in range(5000):
    DEEP = [DEEP]

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)
ODD = st.sampled_from(
    [
        *(10**30, -(2**63), 1e308, -0.0, 5e-324, Decimal("1e999"), Fraction(1, 3)),
        *(1 + 2j, b"\xff\0", {1, 2}, range(3), {"a": {1: 2}}, {(1, 2): 3}, object, Child(2)),
        *(Itself(), Broken(), LOOP, "\ud800", "a\0b", "é" * 5, [float("nan"), "\udfff"]),
        *(np.float32(0.1), np.int64(2**62), np.bool_(True), np.float16("nan"), np.longdouble(1)),
        *(np.array([]), np.array([[1.5]]), np.array(["a"]), np.datetime64("2020-01-01")),
        *(np.zeros((2, 0)), np.array([None, 1], object), np.ma.masked, np.str_("x")),
    ]
)
VALUES = st.recursive(
    PLAIN | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=5,
)
NAMES = st.text(max_size=10) | st.sampled_from(
    ["", "m", "loss/train", "a\0b", "\ud800", "一" * 3000, "../x", "a\nb", "\x1b[2J", " "]
)
ODD_NAMES = st.sampled_from([None, 5, b"m", [], object()])
STEPS = st.none() | st.integers() | st.sampled_from([10**30, -1, 1.5, "3", "x", float("nan")])
CALLS = st.tuples(
    st.sampled_from(["log", "log_list", "log_row", "log_table"]), NAMES | ODD_NAMES, VALUES, STEPS
)


class Logger(Tracking):
    """A run whose spool lies in a folder."""

    def __init__(self, folder: str) -> None:
        self.id = "r"
        self._recorder = SimpleNamespace(run_id="r", spool=Spool(folder))  # type: ignore[assignment]

    def _get_recorder(self) -> Any:
        return self._recorder


def logged(calls: list[tuple[str, Any, Any, Any]]) -> bytes:
    """What the spool holds after these calls, none of which raised."""
    with tempfile.TemporaryDirectory() as folder:
        logger = Logger(folder)
        for method, name, value, step in calls:
            if method == "log_row":
                logger.log_row(name, value=value)
            elif method == "log_table":
                logger.log_table(name, value)
            else:
                getattr(logger, method)(name, value, step=step)
        logger._get_recorder().spool.close()
        return b"".join(path.read_bytes() for path in Path(folder).iterdir())


def stored(database: Database, lines: bytes) -> dict[str, Any]:
    run_id = f"r{uuid.uuid4().hex}"
    add_run(database, run_id)
    entries = [_named(entry) for entry in parse_lines(lines) if entry.kind != "tag"]
    with database.write() as connection:
        run = runs.get(connection, run_id)
        metrics.append(connection, run, entries)
    with database.read() as connection:
        found = metrics.shaped(connection, [run.seq])[run.seq]
        for name in found:
            metrics.history(connection, run.seq, name)
    again: dict[str, Any] = json.loads(json.dumps(found))
    return again


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(calls=st.lists(CALLS, max_size=6))
def test_nothing_that_is_logged_harms(database: Database, calls: list[Any]) -> None:
    lines = logged(calls)
    assert all(json.loads(line) for line in lines.splitlines())
    stored(database, lines)


@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    value=st.booleans() | st.integers(-(10**100), 10**100) | st.floats() | st.text(max_size=30),
    name=st.text(min_size=1, max_size=200),
)
@example(value=-0.0, name="m")
@example(value=5e-324, name="m")
@example(value=float("inf"), name="m")
@example(value=2**53 + 1, name="m")
def test_plain_values_come_back_as_they_were(database: Database, value: Any, name: str) -> None:
    ((found, kept),) = stored(database, logged([("log", name, value, None)])).items()
    expected = clean(value) if isinstance(value, str) else value
    assert found == clean(name)
    assert type(kept) is type(expected)
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(float(kept))
    else:
        assert kept == expected


def test_what_is_lost_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    calls = {"huge": 10**5000, "loop": LOOP, "deep": DEEP}
    logged([("log", name, value, None) for name, value in calls.items()])
    told = capsys.readouterr().err
    for name in calls:
        assert f"{name!r} is not recorded" in told
    assert "Traceback" not in told
