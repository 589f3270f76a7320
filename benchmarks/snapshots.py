"""Submissions of a tree of 10,000 small files, against ``cp -r`` and ``git status`` on that tree.

A submission that has been answered is on disk, so the copy is synced, too.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import WHERRY, Row, command, medians_s, ratio_row, server_home
from wherry import Experiment, Run, ScriptRunConfig, Workspace
from wherry.sdk.snapshot import Snapshot

FILES = 10_000
FILES_PER_FOLDER = 20
ROUNDS = 15
FIRST_ROUNDS = 3
SCRIPT = "noop.py"

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
    with server_home() as place:
        tree = place / "tree"
        make_tree(tree)
        (tree / SCRIPT).write_text("pass\n")
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "snapshots")
        holders = _hold(experiment, place / "hold")
        first = _compare_first(experiment, tree, place)
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "x"]):
            run(*GIT, "-C", tree, *words)
        (tree / ".gitignore").write_text(GITIGNORE)
        again = _compare_again(tree, lambda: submit(experiment, tree))
        captured = _compare_again(tree, lambda: capture(tree, place / "own-cache"))
        whole = _compare_again(tree, command(WHERRY, "-w", "bench", "-q", *_create(place, tree)))
        for holder in holders:
            holder.cancel()
    return [
        ratio_row("10,000 files submitted, nothing known", first[0], "cp -r, sync", first[1], 2),
        ratio_row("submitted again, one file changed", again[0], "git status", again[1], 2),
        _information("of that, the capture", *captured),
        _information("the same as a whole command", *whole),
    ]


def _information(what: str, measured_s: float, baseline_s: float) -> Row:
    row = ratio_row(what, measured_s, "git status", baseline_s, 2)
    return replace(row, goal="", holds=None)


def submit(experiment: Experiment, tree: Path) -> Run:
    return experiment.submit(ScriptRunConfig(source_directory=str(tree), script=SCRIPT))


def _create(place: Path, tree: Path) -> list[str]:
    """``wherry job create``, which submits and returns."""
    job = place / "job.yml"
    job.write_text(f"command: python {SCRIPT}\ncode: {tree}\nexperiment_name: snapshots\n")
    return ["job", "create", "-f", str(job)]


def _hold(experiment: Experiment, source: Path) -> list[Run]:
    """What keeps the machine, so that nothing else of ours runs meanwhile."""
    source.mkdir()
    (source / "hold.py").write_text("import time; time.sleep(900)\n")
    config = ScriptRunConfig(source_directory=str(source), script="hold.py")
    return [experiment.submit(config) for _ in range(os.cpu_count() or 1)]


def _compare_first(experiment: Experiment, tree: Path, place: Path) -> tuple[float, float]:
    """Each round with contents that neither side has seen."""
    round_ = 0

    def renew() -> None:
        nonlocal round_
        round_ += 1
        for number, file in enumerate(sorted(tree.rglob("*.py"))):
            if file.name != SCRIPT:
                file.write_text(f"# {round_} {number}\n" + file.read_text()[:2000])
        clear(place / "copy")
        os.sync()

    def copy() -> None:
        run("cp", "-r", tree, place / "copy")
        run("sync", "-f", place / "copy")

    return medians_s(lambda: submit(experiment, tree), copy, FIRST_ROUNDS, renew)


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


def _compare_again(tree: Path, act: Callable[[], object]) -> tuple[float, float]:
    act()
    file = tree / "package3" / "part75" / "module_1500.py"

    def change() -> None:
        with open(file, "a") as stream:
            stream.write("changed")

    return medians_s(act, lambda: run(*GIT, "-C", tree, "status"), ROUNDS, change)
