"""What the documentation says is so: links lead somewhere, examples run, references are fresh."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.homes import Home

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]+\]\(([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("script", ["reference", "cli_reference"])
def test_references_are_up_to_date(script: str) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


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
