"""Tables fit; what is cut or dropped is the least of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.cli.run_view import list_columns, short_id
from wherry.cli.session import Session
from wherry.cli.table import Column, display_width, layout

RUNS: list[dict[str, Any]] = [
    {
        "id": "churn_1794733521_fd578bfa",
        "display_name": "baseline",
        "experiment": "churn",
        "status": "Failed",
        "target": "local",
        "submitted_at": "2026-01-01T09:00:00Z",
        "started_at": "2026-01-01T10:00:00Z",
        "ended_at": "2026-01-01T11:30:00Z",
        "message": "exited with code 1: ValueError: no rows in data.csv (train.py, line 12)",
    }
]


def plain() -> Session:
    session = Session()
    session.color = False
    return session


def lines(width: int | None) -> list[str]:
    return layout(RUNS, list_columns(), plain(), width)


def test_without_a_terminal_nothing_is_cut() -> None:
    head, row = lines(None)
    titles = "ID NAME EXPERIMENT STATUS SUBMITTED DURATION TARGET MESSAGE"
    assert head.split() == titles.split()
    assert RUNS[0]["id"] in row
    assert RUNS[0]["message"] in row
    assert " 1h30m " in row


def test_a_narrow_terminal_takes_short_ids_then_wraps_then_drops() -> None:
    wide = lines(200)
    assert RUNS[0]["id"] in wide[1]
    medium = lines(110)
    assert medium[1].startswith("fd578bfa  baseline  churn")
    assert "TARGET" in medium[0]
    assert " 2026-01-01 " in medium[1]
    narrow = lines(60)
    assert "TARGET" not in narrow[0]
    assert "SUBMITTED" not in narrow[0]
    assert "EXPERIMENT" not in narrow[0]
    assert "DURATION" in narrow[0]
    told = " ".join(line[narrow[0].index("MESSAGE") :] for line in narrow[1:])
    assert " ".join(told.split()) == RUNS[0]["message"]


@pytest.mark.parametrize("width", [20, 25, 30, 40, 50, 60, 79, 80, 100, 132])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert max(display_width(line) for line in lines(width)) <= width


@given(
    st.lists(st.lists(st.text(max_size=60), min_size=3, max_size=3), max_size=4),
    st.integers(20, 120),
    st.integers(0, 2),
)
def test_any_text_fits_any_terminal(rows: list[list[str]], width: int, wraps: int) -> None:
    columns = [
        Column(f"C{place}", lambda row, place=place: row[place], wraps=place == wraps)  # type: ignore[misc]
        for place in range(3)
    ]
    shown = layout(rows, columns, plain(), width)
    assert all(display_width(line) <= width for line in shown)
    assert all(line.isprintable() for line in shown)


def test_wide_characters_keep_columns_in_line() -> None:
    columns = [Column("A", lambda row: str(row[0])), Column("B", lambda row: str(row[1]))]
    shown = layout([("数据", "x"), ("e\u0301", "y")], columns, plain(), None)
    assert shown == ["A     B", "数据  x", "e\u0301     y"]


def test_colour_does_not_move_anything() -> None:
    coloured = Session()
    plain_lines = lines(None)
    with_colour = layout(RUNS, list_columns(), coloured, None)
    assert with_colour != plain_lines
    import click

    assert [click.unstyle(line) for line in with_colour] == plain_lines


def test_short_ids() -> None:
    assert short_id("churn_1794733521_fd578bfa") == "fd578bfa"
    assert short_id("0f1e2d3c-aaaa-bbbb-cccc-000000000000") == "0f1e2d3c"
    assert short_id("mine") == "mine"
