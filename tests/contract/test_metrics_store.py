"""Points come back as they were logged, however they came: one by one, in heaps, twice."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Sequence
from typing import Any

import pytest
from sqlalchemy import Row, func, select

from wherry.core.metrics import Logged
from wherry.store import chunks, metrics, runs
from wherry.store.database import Database
from wherry.store.points import Points
from wherry.store.tables import chunks as chunk_rows

from .stored import add_run

BLOCK = chunks.BLOCK


def scalars(values: Sequence[Any], first: int = 0, name: str = "m") -> list[Logged]:
    return [
        Logged(1000.0 + place, "scalar", name, value, place)
        for place, value in enumerate(values, first)
    ]


def put(database: Database, entries: Sequence[Logged], *, once: bool = False) -> None:
    with database.write() as connection:
        metrics.append(connection, runs.get(connection, "r"), entries, once=once)


def read(database: Database, name: str = "m") -> Points:
    with database.read() as connection:
        return metrics.history(connection, runs.get(connection, "r").seq, name)


def last(database: Database, name: str = "m") -> Row[Any]:
    with database.read() as connection:
        seq = runs.get(connection, "r").seq
        return metrics.last_values(connection, [seq])[seq][name]


def chunk_count(database: Database) -> int:
    with database.read() as connection:
        return connection.execute(select(func.count()).select_from(chunk_rows)).scalar_one()


@pytest.fixture(autouse=True)
def _run(database: Database) -> None:
    add_run(database, "r")


def test_metrics_come_back_exactly_and_in_order(database: Database) -> None:
    values: list[Any] = [0.1, float("inf"), 2**60, "text", True, 1e-320]
    entries = [Logged(1.0 + i, "scalar", "m", value, i) for i, value in enumerate(values)]
    with database.write() as connection:
        run = runs.get(connection, "r")
        metrics.append(connection, run, entries[:3])
        metrics.append(connection, run, entries[3:])
        nan = [Logged(1.0, "scalar", "n", float("nan")), Logged(1.0, "row", "t", {"x": 1})]
        metrics.append(connection, run, nan)
        shaped = metrics.shaped(connection, [run.seq])[run.seq]
        only = metrics.shaped(connection, [run.seq], "t")[run.seq]
        history = metrics.history(connection, run.seq, "m")
    assert shaped["m"] == values
    assert [type(value) for value in shaped["m"]] == [type(value) for value in values]
    assert math.isnan(shaped["n"])
    assert only == {"t": {"x": 1}}
    assert history.steps == list(range(6))


def test_however_they_are_cut_the_points_are_the_same(database: Database) -> None:
    chance = random.Random(5)
    values = [chance.random() for _ in range(3 * BLOCK + 100)]
    first = 0
    while first < len(values):
        count = chance.choice([1, 1, 1, 3, 70, 500, BLOCK, 5000])
        put(database, scalars(values[first : first + count], first))
        first += count
    assert read(database).values == values
    assert read(database).steps == list(range(len(values)))
    assert last(database).last_value == values[-1]
    assert last(database).point_count == len(values)


def test_points_that_come_one_by_one_end_in_few_rows(database: Database) -> None:
    for place in range(BLOCK + 130):
        put(database, scalars([float(place)], place))
    assert chunk_count(database) == 1 + 3
    assert read(database).values == [float(place) for place in range(BLOCK + 130)]


def test_large_values_are_not_written_again_and_again(database: Database) -> None:
    for number in range(5):
        put(database, [Logged(1.0, "list", "l", [number] * 10_000)])
    assert chunk_count(database) == 5
    with database.read() as connection:
        seq = runs.get(connection, "r").seq
        assert len(metrics.shaped(connection, [seq])[seq]["l"]) == 50_000


def test_what_is_sent_again_counts_once(database: Database) -> None:
    put(database, scalars([1.0, math.nan, 3.0]), once=True)
    put(database, scalars([1.0, math.nan, 3.0, 4.0]), once=True)
    put(database, [*scalars([2.0], 1), *scalars([2.0], 1)], once=True)
    found = read(database)
    assert found.steps == [0, 1, 2, 3, 1]
    assert [value for value in found.values if not math.isnan(value)] == [1.0, 3.0, 4.0, 2.0]
    put(database, scalars([1.0]))  # a script may log the same twice
    assert len(read(database)) == 6


@pytest.mark.parametrize(
    ("points", "step", "value"),
    [
        ([(3, 1.0, 0.3), (1, 2.0, 0.1), (2, 3.0, 0.2)], 3, 0.3),
        ([(1, 1.0, 0.3), (1, 2.0, 0.1)], 1, 0.1),
        ([(1, 2.0, 0.3), (1, 2.0, 0.1)], 1, 0.3),
        ([(1, 2.0, 0.3), (None, 3.0, 0.1), (None, 4.0, 0.2)], 2, 0.2),
        ([(0, 1.0, 0.3), (1, 1.0, math.nan)], 1, None),
        ([(0, 1.0, 0.3), (1, 1.0, math.inf)], 1, math.inf),
        ([(0, 1.0, 0.3), (1, 1.0, 7)], 1, 7.0),
        ([(0, 1.0, 0.3), (1, 1.0, 10**400)], 1, math.inf),
        ([(0, 1.0, "text")], 0, None),
    ],
)
def test_the_last_value_is_of_the_highest_step(
    database: Database, points: list[tuple[int | None, float, Any]], step: int, value: float
) -> None:
    for given, at, logged in points:
        put(database, [Logged(at, "scalar", "m", logged, given)])
    row = last(database)
    assert (row.last_step, row.last_value) == (step, value)
    one_by_one = tuple(row)[5:]
    add_run(database, "other")
    with database.write() as connection:
        other = runs.get(connection, "other")
        entries = [Logged(at, "scalar", "m", logged, given) for given, at, logged in points]
        metrics.append(connection, other, entries)
        together = metrics.last_values(connection, [other.seq])[other.seq]["m"]
    assert tuple(together)[5:] == one_by_one


def test_the_last_value_keeps_its_type(database: Database) -> None:
    for name, value in (("i", 2**60), ("f", 2.0), ("b", True), ("s", "text"), ("n", math.nan)):
        put(database, [Logged(1.0, "scalar", name, value)])
    found = {name: metrics.last_value(last(database, name)) for name in "ifbsn"}
    assert json.dumps(found) == json.dumps(
        {"i": 2**60, "f": 2.0, "b": True, "s": "text", "n": math.nan}
    )
