"""What the documentation says is so: links lead somewhere, examples run, references are fresh."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.homes import Home
from wherry.cli.app import cli

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INDENTED = re.compile(r"^    .*", re.MULTILINE)
INLINE = re.compile(r"`(wherry [^`]+)`")
# After these a shell expects a command; after a colon so does a reader.
BEFORE = re.compile(r"[();<>|&]+|if|elif|then|else|do|while|!|\$|\w+=.*|.*:")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if page.name != "mistakes.md"],  # see tests/e2e/test_mistakes.py
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_commands_can_be_given(page: Path) -> None:
    wrong = {" ".join(words): problem(words) for words in commands(page.read_text())}
    assert {command: why for command, why in wrong.items() if why} == {}


def test_the_commands_of_a_page_are_found() -> None:
    text = """Say `wherry ps -n 5` or `wherry logs \\| head`; `wherry.Run` is no command.

    $ wherry job cancel RUN   # wherry nonsense

```sh
if X=1 wherry run --quiet train.py > out; then
  wherry job download "$(wherry ps --query '[0].id')" \\
    outputs
fi
```
```python
wherry = 1
```
"""
    assert sorted(commands(text)) == [
        ["job", "cancel", "RUN"],
        ["job", "download", "$(wherry ps --query '[0].id')", "outputs"],
        ["logs"],
        ["ps", "--query", "[0].id"],
        ["ps", "-n", "5"],
        ["run", "--quiet", "train.py"],
    ]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("cancel RUN", "no command 'cancel'"),
        ("job cancle RUN", "no command 'cancle'"),
        ("ps --limits 5", "no such option"),
        ("job diff RUN OTHER THIRD", "too many arguments: THIRD"),
        ("run --tag", "requires an argument"),
        ("run train.py -- --anything", ""),
        ("-w churn ps", ""),
        ("COMMAND --help", ""),
        ("job", ""),
    ],
)
def test_a_command_that_cannot_be_given_is_found(command: str, why: str) -> None:
    found = problem(command.split())
    assert why.lower() in found.lower()
    assert bool(why) == bool(found)


def commands(text: str) -> Iterator[list[str]]:
    """The words after ``wherry`` of every command that a page shows."""
    for command in INLINE.findall(text):
        yield from _in_line(command.replace("\\|", "|"))
    for language, block in FENCED.findall(text):
        if language in ("", "bash", "sh", "text") and not block.startswith("Usage:"):
            yield from _in_lines(block)
    yield from _in_lines("\n".join(INDENTED.findall(FENCED.sub("", text))))


def _in_lines(block: str) -> Iterator[list[str]]:
    for line in block.replace("\\\n", " ").splitlines():
        if "wherry " in line:
            yield from _in_line(line)


def _in_line(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    words = list(lexer)
    for place, word in enumerate(words):
        for inner in re.findall(r"\$\((wherry [^)]*)\)", word):
            yield from _in_line(inner)
        if word == "wherry" and (not place or BEFORE.fullmatch(words[place - 1])):
            rest = words[place + 1 :]
            ends = (at for at, each in enumerate(rest) if re.fullmatch(r"[();<>|&]+", each))
            yield rest[: next(ends, len(rest))]


def problem(words: list[str]) -> str:
    """Why a command cannot be given so; empty if it can. What is written LIKE_THIS may be any."""
    command: click.Command = cli
    context = click.Context(cli, info_name="wherry")
    while True:
        try:
            _, rest, _ = command.make_parser(context).parse_args(list(words))
        except click.UsageError as error:
            return error.format_message()
        if not isinstance(command, click.Group):
            return f"too many arguments: {' '.join(rest)}" if rest else ""
        if not rest or rest[0].isupper():
            return ""
        below = command.get_command(context, rest[0])
        if below is None:
            return f"{context.command_path!r} has no command {rest[0]!r}"
        context = click.Context(below, context, info_name=rest[0], **below.context_settings)
        command, words = below, rest[1:]


@pytest.mark.parametrize("script", ["reference", "cli_reference"])
def test_references_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_no_table_of_the_reference_is_empty() -> None:
    text = (ROOT / "docs" / "reference" / "sdk.md").read_text()
    for section in text.split("\n## ")[1:]:
        assert section.rstrip().splitlines()[-1] != "|---|---|", section


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "decisions" / "README.md").read_text()
    for page in (ROOT / "docs" / "decisions").glob("0*.md"):
        assert page.name in index


def test_the_readmes_first_program_runs(
    home: Home, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    submit, inside = BLOCK.findall((ROOT / "README.md").read_text())
    source = home.folder / "project" / "src"
    source.mkdir(parents=True)
    (source / "train.py").write_text(inside)
    monkeypatch.chdir(source.parent)
    exec(compile(submit, "README.md", "exec"), {})
    assert "{'loss': 0.25}" in capsys.readouterr().out


def test_the_quickstarts_programs_run(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, submit, _ = BLOCK.findall((ROOT / "docs" / "quickstart.md").read_text())
    source = home.folder / "project" / "src"
    source.mkdir(parents=True)
    (source / "train.py").write_text(inside)
    monkeypatch.chdir(source.parent)
    names: dict[str, object] = {}
    exec(compile(submit, "quickstart.md", "exec"), names)
    assert len(names["runs"]) == 2  # type: ignore[arg-type]
