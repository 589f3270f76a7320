"""Room is made, but never under a run."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.builds.conftest import spec
from tests.builds.index import Index
from wherry.builds import Prepared, prepare
from wherry.builds.prune import entries, prune

MONTH_S = 30 * 86400.0


class Build(Protocol):
    def __call__(self, name: str, days: float = 0, source: str = "") -> Prepared: ...


@pytest.fixture
def build(index: Index, root: str) -> Build:
    """Builds an environment that holds one package of this name."""

    def act(name: str, days: float = 0, source: str = "") -> Prepared:
        index.add(name, "1.0", source=source)
        made = prepare(spec(f"--index-url {index.url}/simple", name), root)
        used = time.time() - days * 86400
        os.utime(f"{made.prefix}/environment.json", (used, used))
        return made

    return act


def keys(root: str) -> set[str]:
    return {entry.key for entry in entries(root)}


def key(made: Prepared) -> str:
    assert made.prefix is not None
    return os.path.basename(made.prefix)


def test_what_was_not_used_for_long_goes(build: Build, root: str) -> None:
    old, new = build("old", days=40), build("new", days=3)
    old.use.close()
    new.use.close()
    pruned = prune(root, older_than_s=MONTH_S)
    assert [entry.key for entry in pruned.removed] == [key(old)]
    assert keys(root) == {key(new)}
    assert pruned.freed > 0


def test_what_is_used_again_is_young_again(build: Build, index: Index, root: str) -> None:
    build("old", days=40).use.close()
    prepare(spec(f"--index-url {index.url}/simple", "old"), root).use.close()
    assert prune(root, older_than_s=MONTH_S).removed == []


def test_nothing_in_use_goes(build: Build, root: str) -> None:
    used = build("used", days=40)
    assert [entry.in_use for entry in entries(root)] == [True]
    assert prune(root, older_than_s=MONTH_S, limit=0, everything=True).removed == []
    subprocess.run([used.interpreter, "-c", "import used"], check=True)
    used.use.close()
    assert [entry.key for entry in prune(root, everything=True).removed] == [key(used)]


def test_a_mark_that_was_handed_on_outlives_who_made_it(build: Build, root: str) -> None:
    used = build("used", days=40)
    mark = used.use.fileno()
    assert mark is not None
    command = subprocess.Popen(
        [used.interpreter, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[mark]
    )
    used.use.close()
    assert prune(root, everything=True).removed == []
    command.kill()
    command.communicate()
    assert len(prune(root, everything=True).removed) == 1


def test_a_limit_takes_downloads_then_what_was_used_longest_ago(build: Build, root: str) -> None:
    made = [build(name, days=9 - place, source="#" * 3_000_000) for place, name in enumerate("abc")]
    for each in made:
        each.use.close()
    pruned = prune(root, limit=7_000_000)
    assert [entry.key for entry in pruned.removed] == [key(made[0])]
    assert not os.path.exists(f"{root}/uv")
    assert pruned.size <= 7_000_000
    subprocess.run([made[2].interpreter, "-c", "import c"], check=True)


def test_a_build_can_keep_to_a_limit(build: Build, index: Index, root: str) -> None:
    build("a", days=2, source="#" * 3_000_000).use.close()
    index.add("b", "1.0", source="#" * 3_000_000)
    made = prepare(spec(f"--index-url {index.url}/simple", "b"), root, limit=4_000_000)
    assert keys(root) == {key(made)}


def test_what_was_pruned_is_built_again(build: Build, index: Index, root: str) -> None:
    build("again").use.close()
    prune(root, everything=True)
    assert os.listdir(f"{root}/specs") == []
    assert prepare(spec(f"--index-url {index.url}/simple", "again"), root).built


def test_unfinished_environments_go(build: Build, root: str) -> None:
    kept = build("kept")
    Path(root, "environments", "half").mkdir()
    assert [entry.name for entry in prune(root).removed] == ["unfinished"]
    assert keys(root) == {key(kept)}


def test_what_builders_that_died_left_behind_goes(build: Build, root: str) -> None:
    build("a")
    specs, work = Path(root, "specs"), Path(root, "work")
    [answer] = specs.iterdir()
    fresh, stale = (specs / f"{answer.name}.{part}" for part in ("fresh", "stale"))
    for path in (fresh, stale):
        path.write_text("{")
    os.utime(stale, (0, 0))
    for name in ("dead", "alive"):
        (work / name / "pip").mkdir(parents=True)
    with Path(root, "locks", "alive.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prune(root)
        assert [path.name for path in work.iterdir()] == ["alive"]
    assert set(specs.iterdir()) == {answer, fresh}


def test_what_another_one_prunes_meanwhile_is_no_error(
    build: Build, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("a")
    monkeypatch.setattr("wherry.builds.prune.read_json", lambda path: Path(path).unlink(True))
    prune(root)
    assert list(Path(root, "specs").iterdir()) == []


def test_the_command_lists_prunes_and_locks(
    build: Build, index: Index, root: str, tmp_path: Path
) -> None:
    build("one", days=2).use.close()
    wanted = tmp_path / "spec.json"
    wanted.write_text(json.dumps(spec(f"--index-url {index.url}/simple", "one")))

    def command(*words: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "wherry.builds", *words, "--root", root],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)

    [listed] = command("list")
    assert listed["name"] == "environment 'train'"
    lock = command("lock", str(wanted))
    assert [each["name"] for each in lock["pypi"]] == ["one"]
    assert command("prune", "--older-than", "1d", "--limit", "20GB")["removed"] == []
    assert len(command("prune", "--all")["removed"]) == 1


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["no.json", "--root", "R"], 1, "no.json cannot be read"),
        (["prune", "--root", "R", "--limit", "much"], 2, "is not a size"),
        (["prune", "--root", "R", "--older-than", "long"], 2, "is not an age"),
    ],
)
def test_the_command_refuses(words: list[str], code: int, sentence: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wherry.builds", *words],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == code
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
