"""What is wrong after a drill: the audit of the books, and the look for leaks."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from chaos.holdings import calm_holdings
from chaos.leaks import find_leaks
from chaos.workload import Workload, insist
from chaos.world import World

KEEP = Path(".chaos")

Act = Callable[[Workload, int], None]


def judge(act: Act, work: Workload, rounds: int, name: str) -> list[str]:
    """In words. If there is anything, the world is kept under that name."""
    wrong = _wrong(act, work, rounds)
    if wrong:
        _keep(work.world, name)
    return wrong


def _wrong(act: Act, work: Workload, rounds: int) -> list[str]:
    try:
        work.world.start_server()
        fresh = calm_holdings(work.world)
        insist(work.experiment)
        act(work, rounds)
        work.settle()
        wrong = insist(lambda: work.books.audit(work.world.ledger))
        return wrong + find_leaks(work.world, fresh)
    except (AssertionError, TimeoutError) as error:
        return [str(error) or type(error).__name__]


def _keep(world: World, name: str) -> None:
    """What the world looked like, for whoever looks for the cause."""
    place = KEEP / name.replace(" ", "-")
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(world.folder, place, symlinks=True, ignore_dangling_symlinks=True)
