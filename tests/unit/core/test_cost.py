"""Nothing is charged twice and nothing is lost, however it is summed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.cost import BY, DAY_S, Use, by_day, by_run, by_target, days, idle_between

NOON = 20_000 * DAY_S + DAY_S / 2


def test_seconds_times_price() -> None:
    (line,) = by_run([Use("lab/c", "n", 0, 1800, 3.0, "r")])
    assert (line.key, line.node_seconds, line.cost) == ("r", 1800, 1.5)


def test_a_run_pays_for_all_its_nodes_and_the_target_for_idle_ones_too() -> None:
    uses = [
        Use("lab/c", "n1", 0, 100, 36.0, "r"),
        Use("lab/c", "n2", 0, 100, 36.0, "r"),
        Use("lab/c", "n1", 100, 150, 36.0),
    ]
    assert [(line.key, line.node_seconds) for line in by_run(uses)] == [("r", 200)]
    (line,) = by_target(uses)
    assert (line.node_seconds, line.idle_seconds) == (250, 50)
    assert line.cost == pytest.approx(2.5)


def test_midnight_of_utc_divides() -> None:
    found = by_day([Use("c", "n", NOON, NOON + 2 * DAY_S, 1.0, "r")])
    assert [line.node_seconds for line in found] == [DAY_S / 2, DAY_S, DAY_S / 2]
    assert found[0].key == "2024-10-04"
    assert [line.key for line in found] == sorted(line.key for line in found)


def test_the_idle_rest_of_a_nodes_life() -> None:
    life = Use("c", "n", 0, 100, 1.0)
    runs = [Use("c", "n", 10, 30, 1.0, "a"), Use("c", "n", 60, 200, 1.0, "b")]
    assert [(each.start, each.end) for each in idle_between(life, runs)] == [(0, 10), (30, 60)]
    assert [(each.start, each.end) for each in idle_between(life, [])] == [(0, 100)]
    assert list(idle_between(life, [Use("c", "n", -5, 105, 1.0, "a")])) == []
    late = [Use("c", "n", 150, 160, 1.0, "a")]
    assert [(each.start, each.end) for each in idle_between(life, late)] == [(0, 100)]


stretches = st.builds(
    lambda start, length, price, run: Use("c", "n", start, start + length, price, run),
    st.floats(0, 10 * DAY_S),
    st.floats(0, 3 * DAY_S),
    st.floats(0, 100),
    st.none() | st.sampled_from(["a", "b"]),
)


@given(st.lists(stretches, max_size=8))
def test_every_sum_is_the_same(uses: list[Use]) -> None:
    whole = math.fsum(each.cost for each in uses)
    assert math.fsum(line.cost for line in BY["day"](uses)) == pytest.approx(whole)
    assert math.fsum(line.cost for line in BY["target"](uses)) == pytest.approx(whole)
    mine = math.fsum(each.cost for each in uses if each.run_id)
    assert math.fsum(line.cost for line in BY["run"](uses)) == pytest.approx(mine)


@given(stretches)
def test_pieces_lie_in_one_day_and_join(use: Use) -> None:
    pieces = [piece for _, piece in days(use)]
    ends = [use.start, *(piece.end for piece in pieces)]
    assert [piece.start for piece in pieces] == ends[:-1]
    assert ends[-1] == use.end
    assert len({day for day, _ in days(use)}) == len(pieces)
    assert all(piece.seconds <= DAY_S for piece in pieces)


@given(stretches, st.lists(stretches, max_size=5))
def test_idle_and_used_make_up_a_life(life: Use, runs: list[Use]) -> None:
    idle = list(idle_between(life, runs))
    assert all(life.start <= each.start < each.end <= life.end for each in idle)
    for run in runs:
        assert all(each.end <= run.start or each.start >= run.end for each in idle)
