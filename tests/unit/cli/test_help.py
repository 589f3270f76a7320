"""Help that teaches, the same in the program, the reference and the overview."""

from __future__ import annotations

import ast
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

from tests.unit.cli.conftest import Wherry
from wherry.cli.app import cli
from wherry.cli.command import Command, Group
from wherry.cli.overview import SECTIONS, overview

ROOT = Path(__file__).resolve().parents[3]
REFERENCE: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "cli_reference"))


def every(
    command: click.Command = cli, context: click.Context | None = None
) -> Iterator[tuple[click.Command, click.Context]]:
    context = context or click.Context(command, info_name="wherry", **command.context_settings)
    yield command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            inner = click.Context(below, context, info_name=name, **below.context_settings)
            yield from every(below, inner)


ALL = {context.command_path: (command, context) for command, context in every()}


def test_reference_and_golden_texts_are_up_to_date() -> None:
    stale = [
        str(path.relative_to(ROOT))
        for path, text in REFERENCE["files"]().items()
        if not path.exists() or path.read_text() != text
    ]
    assert stale == [], "run .venv/bin/python scripts/cli_reference, and look at what it changed"
    assert REFERENCE["main"](["--check"]) == 0


@pytest.mark.parametrize("path", ALL)
def test_every_command_has_a_sentence_examples_and_explained_options(path: str) -> None:
    command, context = ALL[path]
    first = (command.help or "").strip().splitlines()[0]
    assert first.endswith("."), first
    assert isinstance(command, Command | Group)
    if path != "wherry":
        assert command.examples
    for param in command.get_params(context):
        if isinstance(param, click.Option) and not param.hidden:
            assert param.help, f"{path} {param.opts}"
            assert re.search(r"(\.|\])$", param.help), param.help


@pytest.mark.parametrize("path", [path for path in ALL if path != "wherry"])
def test_examples_can_be_parsed(path: str) -> None:
    """Each calls a command that exists, with options that it has."""
    command, _ = ALL[path]
    assert isinstance(command, Command | Group)
    for example in command.examples:
        words = _command_line(example)
        below, context = _resolve(words)
        known = {name for param in below.get_params(context) for name in param.opts}
        for word in words:
            if word == "--":
                break
            if word.startswith("-"):
                assert word.split("=")[0] in known, f"{example}: {word}"


def _command_line(example: str) -> list[str]:
    """What follows ``wherry``, without what belongs to the shell."""
    inner = re.search(r"\$\((wherry [^)]*)\)", example)
    words = shlex.split(inner.group(1) if inner else example, comments=True)
    words = words[words.index("wherry") + 1 :]
    return words[: words.index(">")] if ">" in words else words


def _resolve(words: list[str]) -> tuple[click.Command, click.Context]:
    path = "wherry"
    for word in words:
        if f"{path} {word}" not in ALL:
            break
        path = f"{path} {word}"
    return ALL[path]


def test_the_overview_has_each_command_with_its_own_summary() -> None:
    context = click.Context(cli, info_name="wherry")
    listed = [each for _, commands in SECTIONS for each in commands]
    for name, _, summary in listed:
        command = cli.get_command(context, name)
        assert command is not None
        assert (command.help or "").strip().splitlines()[0] == summary
        assert f"  {name:<12}{summary}\n" in overview()
    assert max(map(len, overview().splitlines())) < 80


def test_no_sentence_in_a_list_of_commands_is_cut() -> None:
    for command, context in ALL.values():
        text = " ".join(command.get_help(context).split())
        for name in command.list_commands(context) if isinstance(command, click.Group) else []:
            below, _ = ALL[f"{context.command_path} {name}"]
            assert " ".join((below.help or "").split("\n\n")[0].split()) in text


def test_help_is_the_same_with_and_without_click(wherry: Wherry) -> None:
    assert wherry("--help").out == overview()
    assert wherry().out == overview()
    assert wherry("-h").out == overview()


@pytest.mark.parametrize(
    "path", sorted((ROOT / "src/wherry/cli").glob("*.py")), ids=lambda p: p.name
)
def test_the_command_line_is_written_for_python_3_8(path: Path) -> None:
    ast.parse(path.read_text(), feature_version=(3, 8))


def test_help_loads_only_what_it_shows() -> None:
    """The cost of ``wherry --help`` is that of starting Python."""
    code = (
        "import sys; from wherry.cli.main import main; assert main(sys.argv[1:]) == 0\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}), file=sys.stderr)\n"
        "print(*[name for name in sys.modules if name.startswith('wherry.')], file=sys.stderr)"
    )

    def loaded(*arguments: str) -> set[str]:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return set(done.stderr.split())

    assert loaded("--help") & {"click", "typing", "re", "wherry.sdk"} == set()
    assert loaded("run", "--help") & {"rich", "yaml", "jmespath", "wherry.sdk"} == set()
    assert "click" in loaded("run", "--help")
