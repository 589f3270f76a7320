"""A drill on what a server keeps: after many runs it must hold no more than after a few."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psutil

from chaos.workload import Workload
from chaos.world import wait_until

_AT_ONCE = 10
_SLACK_BYTES = 24 << 20


def many_runs(work: Workload, rounds: int) -> None:
    """A few runs to warm up, then many more: memory is where it was, and so is all else."""
    _run(work, 2 * _AT_ONCE)
    memory = _memory(work)
    _run(work, rounds * _AT_ONCE)
    grown = _memory(work) - memory
    bound = _SLACK_BYTES + memory // 4
    assert grown < bound, f"the server's memory grew by {grown >> 20} MB"


def _run(work: Workload, count: int) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(work.submit, 2, 0.0) for _ in range(count)]:
            done.result()
    work.settle()
    folders = work.world.home / "nodes/local"
    wait_until(lambda: not list(folders.glob("[!.]*")), "clearing away the attempts' folders")


def _memory(work: Workload) -> int:
    return int(psutil.Process(work.world.server_pid()).memory_info().rss)
