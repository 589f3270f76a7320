"""Captures of a tree of 10,000 small files, against ``cp -r`` and ``git status`` on that tree."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.measure import Row, ratio_row, scratch
from wherry.sdk.snapshot import Snapshot

FILES = 10_000
FILES_PER_FOLDER = 20
ROUNDS = 9

# As a Python project has it; what matters is that patterns of every kind are there.
GITIGNORE = """
*.py[cod]
*$py.class
*.so
build/
dist/
/downloads/
.env
.coverage.*
nosetests.xml
docs/_build/
**/.scrapy
/data/**/*.parquet
!/data/small/*.parquet
models/*.pt
runs/[0-9]*
wandb/
"""

# Git's own defaults, not the user's, and nothing that goes on in the background.
GIT = ["git", "-c", "user.name=x", "-c", "user.email=x", "-c", "gc.auto=0"]
GIT_ENV = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}


def rows() -> list[Row]:
    """Each a median over rounds in which both sides take turns."""
    with scratch() as place:
        tree = place / "tree"
        make_tree(tree)
        first = _compare(
            lambda: capture(tree, place / "new"),
            lambda: run("cp", "-r", tree, place / "copy"),
            before=lambda: clear(place / "new", place / "copy"),
        )
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
            run(*GIT, "-C", tree, *words)
        again = _compare_again(tree, place / "cache")
        (tree / ".gitignore").write_text(GITIGNORE)
        with_rules = _compare_again(tree, place / "cache")
    return [
        ratio_row("capture 10,000 files, nothing remembered", first[0], "cp -r", first[1], 2),
        ratio_row("capture again, one file changed", again[0], "git status", again[1], 2),
        ratio_row("the same, with a .gitignore", with_rules[0], "git status", with_rules[1], 2),
    ]


def make_tree(root: Path) -> None:
    chance = random.Random(1)
    for number in range(FILES):
        folder = root / f"package{number // 500}" / f"part{number // FILES_PER_FOLDER}"
        if number % FILES_PER_FOLDER == 0:
            folder.mkdir(parents=True)
        content = chance.randbytes(chance.randint(100, 2000)).hex()
        (folder / f"module_{number}.py").write_text(content)
    time.sleep(0.5)  # a file just written is not remembered


def capture(tree: Path, cache: Path) -> Snapshot:
    snapshot = Snapshot.capture(tree, cache_dir=cache)
    assert len(snapshot.id) == 64
    return snapshot


def clear(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


def run(*words: str | Path) -> None:
    env = {**os.environ, **GIT_ENV}
    subprocess.run([str(w) for w in words], check=True, stdout=subprocess.DEVNULL, env=env)


def _compare_again(tree: Path, cache: Path) -> tuple[float, float]:
    capture(tree, cache)
    file = tree / "package3" / "part75" / "module_1500.py"

    def change() -> None:
        with open(file, "a") as stream:
            stream.write("changed")

    return _compare(
        lambda: capture(tree, cache), lambda: run(*GIT, "-C", tree, "status"), before=change
    )


def _compare(
    measured: Callable[[], object], baseline: Callable[[], object], before: Callable[[], None]
) -> tuple[float, float]:
    taken: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        before()
        taken.append((_time_s(measured), _time_s(baseline)))
    return statistics.median(t[0] for t in taken), statistics.median(t[1] for t in taken)


def _time_s(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started
