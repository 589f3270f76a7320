"""Every row of docs/reference/mistakes.md, given to a real ``wherry`` in the place it speaks of."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest

from tests.mistakes import SITUATIONS, Here, Row, rows
from wherry.cli.app import cli

ROWS = rows()
FIRST_OF_EACH_SECTION = {row.section: row for row in reversed(ROWS)}.values()
RUN_FAILED = 3


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Here]:
    here = Here(tmp_path_factory.mktemp("mistakes"))
    yield here
    here.close()


def _answers(here: Here, row: Row) -> None:
    before = here.state()
    with here.situation(row.situation) as place:
        code, said, printed = place.give(row.command)
        expected = place.pattern(row.said)
        shown = place.pattern(row.printed)
    assert "Traceback" not in said
    assert re.fullmatch(expected, said), f"it says: {said}"
    assert code == row.code
    if code != RUN_FAILED:
        assert re.fullmatch(shown, printed), f"it prints: {printed}"
        assert here.state() == before


@pytest.mark.parametrize("row", FIRST_OF_EACH_SECTION, ids=str)
def test_a_mistake_is_answered(here: Here, row: Row) -> None:
    _answers(here, row)


@pytest.mark.attack
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_every_mistake_is_answered(here: Here, row: Row) -> None:
    _answers(here, row)


def test_every_command_has_a_row() -> None:
    shown = {" ".join(row.arguments[: len(path)]) for row in ROWS for path in _paths(cli)}
    assert [" ".join(path) for path in _paths(cli) if " ".join(path) not in shown] == []


def test_every_situation_has_a_row() -> None:
    assert set(SITUATIONS) - {row.situation for row in ROWS} == set()


def _paths(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command that does something."""
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from _paths(below, (*path, name))
