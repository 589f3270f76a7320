"""The same data in every form."""

from __future__ import annotations

import json
import math
import re

import pytest
import yaml

from tests.unit.cli.conftest import Runs, Wherry
from wherry.cli.output import count, select, to_json, to_table, to_tsv, to_yaml
from wherry.cli.session import Session

DATA = [{"id": "a", "n": 1, "tags": {"x": "y"}}, {"id": "b\tc", "n": None, "tags": {}}]


def test_json_is_json() -> None:
    assert json.loads(to_json(DATA)) == DATA
    assert json.loads(to_json({"a": math.nan, "b": [math.inf], "c": 1.5})) == {
        "a": None,
        "b": [None],
        "c": 1.5,
    }
    assert "é" in to_json("é")


def test_yaml_is_yaml() -> None:
    assert yaml.safe_load(to_yaml(DATA)) == DATA
    assert to_yaml("word") == "word\n"
    assert to_yaml({"b": 1, "a": 2}) == "b: 1\na: 2\n"


def test_tab_separated_lines() -> None:
    assert to_tsv(DATA) == ['a\t1\t{"x": "y"}', "b c\t\t"]
    assert to_tsv("one") == ["one"]
    assert to_tsv(["one", "two"]) == ["one", "two"]
    assert to_tsv([["a", 1], ["b", True]]) == ["a\t1", "b\ttrue"]
    assert to_tsv(None) == [""]


def test_tables_of_anything() -> None:
    session = Session()
    session.color = False
    assert to_table(session, {"a": 1, "b": "x"}) == ["a  1", "b  x"]
    assert to_table(session, [{"a": 1}, {"b": 2}]) == ["a  b", "1", "   2"]
    assert to_table(session, []) == []
    assert to_table(session, "word") == ["word"]


def test_queries() -> None:
    assert select("[?n==`1`].id", DATA) == ["a"]
    assert select("[0].tags.x", DATA) == "y"


def test_counts() -> None:
    assert [count(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_records_are_given_whole(wherry: Wherry, runs: Runs, form: str) -> None:
    made = runs.queued(tags={"a": "b"}, display_name="nick")
    printed = wherry("ps", "-o", form).out
    (record,) = json.loads(printed) if form == "json" else yaml.safe_load(printed)
    assert list(record) == list(made)
    assert {name: record[name] for name in ("id", "tags", "display_name", "status")} == {
        "id": made["id"],
        "tags": {"a": "b"},
        "display_name": "nick",
        "status": "Queued",
    }


def test_a_query_in_each_form(wherry: Wherry, runs: Runs) -> None:
    made = runs.queued()
    query = ["ps", "--query", "[0].id", "-o"]
    assert wherry(*query, "tsv").out == made["id"] + "\n"
    assert wherry(*query, "table").out == made["id"] + "\n"
    assert wherry(*query, "json").out == f'"{made["id"]}"\n'
    assert wherry(*query, "yaml").out == made["id"] + "\n"


def test_the_form_may_be_a_setting(
    wherry: Wherry, runs: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs.queued()
    monkeypatch.setenv("WHERRY_OUTPUT", "tsv")
    printed = wherry("ps").out
    assert printed.count("\t") == 7
    assert re.search(r"\t\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\t", printed)
    assert wherry("ps", "-o", "json").out.startswith("[")
