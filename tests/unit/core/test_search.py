"""Filters are read as they are meant, or refused with a sentence that says why."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.errors import UserErrorException
from wherry.core.lifecycle import Status
from wherry.core.mlflow import status_of, stored_statuses
from wherry.core.search import RUNS, Condition, Order, parse_filter, parse_order


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics.auc > 0.8", ("metrics", "auc", ">", 0.8)),
        ("metric.auc>=-1e-3", ("metrics", "auc", ">=", -0.001)),
        ("metrics.`a b` <= 1", ("metrics", "a b", "<=", 1.0)),
        ('metrics."a b" <> 1', ("metrics", "a b", "!=", 1.0)),
        ("metrics.val/loss < 1", ("metrics", "val/loss", "<", 1.0)),
        ("params.lr == '0.1'", ("params", "lr", "=", "0.1")),
        ('parameter.lr != "it\'s"', ("params", "lr", "!=", "it's")),
        ("tags.mlflow.source.name = 'a.py'", ("tags", "mlflow.source.name", "=", "a.py")),
        ("tags.x = 'it''s'", ("tags", "x", "=", "it's")),
        ("tags.x like '%a'", ("tags", "x", "LIKE", "%a")),
        ("tags.x IS NOT NULL", ("tags", "x", "IS NOT NULL", None)),
        ("tags.x is null", ("tags", "x", "IS NULL", None)),
        ("status IN ('A', 'B')", ("attributes", "status", "IN", ("A", "B"))),
        ("attributes.run_id not in ('A')", ("attributes", "run_id", "NOT IN", ("A",))),
        ("`run name` = 'x'", ("attributes", "run_name", "=", "x")),
        ("created > 5", ("attributes", "start_time", ">", 5.0)),
    ],
)
def test_one_comparison(text: str, expected: tuple[object, ...]) -> None:
    assert parse_filter(text, RUNS) == [Condition(*expected)]  # type: ignore[arg-type]


def test_several_are_joined_by_and() -> None:
    found = parse_filter("metrics.a > 1 AND tags.b = 'and' and status = 'RUNNING'", RUNS)
    assert [each.key for each in found] == ["a", "b", "status"]
    assert parse_filter("  ", RUNS) == parse_filter(None, RUNS) == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("metrics.auc", "ends too soon"),
        ("metrics.auc > 'x'", "is not a number"),
        ("tags.x = y", "in quotes"),
        ("statu = 'x'", "did you mean 'status'"),
        ("tags.a = 'b' or tags.c = 'd'", "'and' alone"),
        ("tags.x > 'a'", "texts are compared with"),
        ("metrics.x LIKE 'a'", "numbers are compared with"),
        ("status IN 'A'", "in parentheses"),
        ("; drop", "makes no sense"),
        ("5 > metrics.x", "is not the name of anything"),
    ],
)
def test_what_is_not_understood_is_said(text: str, problem: str) -> None:
    with pytest.raises(UserErrorException, match=problem) as caught:
        parse_filter(text, RUNS)
    assert "metrics.auc > 0.8" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("metrics.auc", Order("metrics", "auc", False)),
        ("metrics.`a b` DESC", Order("metrics", "a b", True)),
        ("attribute.start_time asc", Order("attributes", "start_time", False)),
    ],
)
def test_orders(text: str, expected: Order) -> None:
    assert parse_order(text, RUNS) == expected


def test_an_order_has_one_direction() -> None:
    for text in ("metrics.a UP", "metrics.a DESC DESC", ""):
        with pytest.raises(UserErrorException):
            parse_order(text, RUNS)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(UserErrorException):
        parse_filter(text, RUNS)


@given(st.text(min_size=1).filter(lambda text: "\\" not in text), st.floats(allow_nan=False))
def test_quoted_texts_and_numbers_come_back(text: str, number: float) -> None:
    quoted = text.replace("'", "''")
    (found,) = parse_filter(f"tags.a = '{quoted}'", RUNS)
    assert found.value == text
    if math.isfinite(number):
        (found,) = parse_filter(f"metrics.a = {number!r}", RUNS)
        assert found.value == number


def test_each_status_has_a_word_of_mlflows() -> None:
    for status in Status:
        assert status.value in stored_statuses(status_of(status.value))
        assert stored_statuses(status.value) == [status.value]
    with pytest.raises(UserErrorException, match="is not a status"):
        stored_statuses("DONE")
