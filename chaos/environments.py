"""Drills on environments that are made while those who make them die."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from tests.builds.index import Index, serve

from chaos.books import all_runs, token_of
from chaos.workload import Workload, insist
from chaos.world import Stage, send, wait_until
from wherry import CondaDependencies, Environment
from wherry.builds.prune import entries

_RUNS = 10
_MODULES = 300
_PACKAGES = 8
_LAST = 9999
_SEARCH_S = 2.0


@contextmanager
def no_downloads(folder: Path) -> Iterator[Stage]:
    """The Pythons of this machine are enough; uv lies beside ours."""
    uv = Path(sys.executable).parent / "uv"
    yield Stage({"UV_PYTHON_DOWNLOADS": "never", **({"WHERRY_UV": str(uv)} if uv.exists() else {})})


def build_under_fire(work: Workload, rounds: int) -> None:
    """Ten runs need one environment that nobody has made yet, and whoever makes it is killed: uv,
    a runner, the server, in any order, before and after the index lets its packages go. It is made
    even so, and nothing else looks finished.
    """
    for number in range(rounds):
        with serve(_index(number)) as index:
            index.let_go.clear()
            for _ in range(_RUNS):
                _submit(work, index, number)
            _strike(work, index)
            work.settle()
        _check_runs(work)
        _check_environment(work, number)
    _check_rest(work)


def _strike(work: Workload, index: Index) -> None:
    strikes: list[Callable[[], object]] = [
        lambda: _kill_one(work, lambda: _uv_pids(work)),
        lambda: _kill_one(work, work.world.runner_pids),
        lambda: send(work.world.server_pid(), signal.SIGKILL),
        index.let_go.set,
    ]
    for strike in work.chance.sample(strikes, len(strikes)):
        time.sleep(work.chance.uniform(0, 0.7))
        strike()


def _index(number: int) -> Index:
    """Packages of this round alone, each of many files, so that linking them takes a while."""
    index = Index()
    source = "\n".join(f"def f{n}(): return {number}" for n in range(_MODULES))
    for each in range(_PACKAGES):
        needs = [f"drill{each + 1}=={number}.0"] if each + 1 < _PACKAGES else []
        index.add(f"drill{each}", f"{number}.0", *needs, source=source)
    return index


def _submit(work: Workload, index: Index, number: int) -> None:
    environment = Environment("drill")
    environment.python.user_managed_dependencies = False
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=[f"--index-url {index.url}/simple", f"drill0=={number}.0"]
    )
    _, entry = work.submit(count=2, environment=environment)
    entry.may_be_lost = True  # if it had begun


def _kill_one(work: Workload, find: Callable[[], list[int]]) -> None:
    """If there is any within a while."""
    with suppress(TimeoutError):
        wait_until(find, "a victim", _SEARCH_S)
        send(work.chance.choice(sorted(find()) or [None]), signal.SIGKILL)


def _uv_pids(work: Workload) -> list[int]:
    found = []
    for process in work.world.processes():
        with suppress(psutil.Error):
            found += [process.pid] if process.name() == "uv" else []
    return found


def _check_runs(work: Workload) -> None:
    """Only what was executed may have been lost with its runner; the rest had another attempt."""
    began = set(work.world.ledger.read_text().splitlines())
    for run in insist(all_runs):
        record = run.record
        if record["status"] != "Completed" and f"began {token_of(run)}" not in began:
            raise AssertionError(f"{run.id} was not executed: {record['message']}")


def _check_environment(work: Workload, number: int) -> None:
    """One of this round, whole: what is marked as finished has all its packages."""
    found = [_packages(path, number) for path in _cache(work).glob("environments/*")]
    assert sum(found) == 1, f"{sum(found)} environments of round {number}"


def _packages(environment: Path, number: int) -> bool:
    """Whether it is this round's; it is wrong if it is marked, but not whole."""
    marker = environment / "environment.json"
    if not marker.exists():
        return False
    locked = {
        each["name"]: each["version"] for each in json.loads(marker.read_text())["lock"]["pypi"]
    }
    for name, version in locked.items():
        there = [*environment.glob(f"lib/python*/site-packages/{name}-{version}.dist-info/RECORD")]
        assert there, f"{environment.name} looks finished, but lacks {name}"
    return locked.get("drill0") == f"{number}.0"


def _check_rest(work: Workload) -> None:
    """What a builder that died left behind goes with the next build."""
    cache = _cache(work)
    with serve(_index(_LAST)) as index:
        _submit(work, index, _LAST)
        work.settle()
    wait_until(lambda: not _left(cache), "clearing away what builders left")
    unfinished = [each.key for each in entries(str(cache)) if not each.finished]
    assert unfinished == [], f"unfinished environments: {unfinished}"


def _left(cache: Path) -> list[Path]:
    return [*cache.glob("work/*"), *cache.glob("trash/*"), *cache.glob("specs/*.json.*")]


def _cache(work: Workload) -> Path:
    return Path(work.world.variables["WHERRY_CACHE"]) / "environments"
