"""What a server holds, counted by kind: after many runs it must hold no more than after a few."""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from chaos.workload import Workload
from chaos.world import wait_until

_AT_ONCE = 10
_SLACK_BYTES = 24 << 20
# Kept for the next request, up to a bound: connections of the pool, threads for requests.
_BOUNDED = {"database file": 3 * 50, "thread": 60}


def many_runs(work: Workload, rounds: int) -> None:
    """A few runs to warm up, then many more, and the counts are where they were."""
    _run(work, 2 * _AT_ONCE)
    before, memory = holdings(work), _memory(work)
    _run(work, rounds * _AT_ONCE)
    wait_until(lambda: not _grown(before, holdings(work)), _told(work, before), 90)
    grown = _memory(work) - memory
    bound = _SLACK_BYTES + memory // 4
    assert grown < bound, f"the server's memory grew by {grown >> 20} MB"


def holdings(work: Workload) -> Counter[str]:
    """Descriptors, threads, children, locks, folders of the server, by kind."""
    pid = work.world.server_pid()
    assert pid is not None, "the server is gone"
    found = Counter(_kind(link) for link in _descriptors(pid))
    found["thread"] = psutil.Process(pid).num_threads()
    found["child"] = len(psutil.Process(pid).children())
    found["lock"] = Path("/proc/locks").read_text().count(f" {pid} ")
    found["attempt folder"] = len(list(work.world.home.glob("nodes/local/[!.]*")))
    found["incoming folder"] = len(list(work.world.home.glob("blobs/incoming/*")))
    return found


def _run(work: Workload, count: int) -> None:
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for done in [pool.submit(work.submit, 2, 0.0) for _ in range(count)]:
            done.result()
    work.settle()
    folders = work.world.home / "nodes/local"
    wait_until(lambda: not list(folders.glob("[!.]*")), "clearing away the attempts' folders")


def _grown(before: Counter[str], now: Counter[str]) -> dict[str, str]:
    return {
        kind: f"{before[kind]} became {count}"
        for kind, count in now.items()
        if count > max(before[kind], _BOUNDED.get(kind, 0))
    }


def _told(work: Workload, before: Counter[str]) -> str:
    return f"returning to {dict(before)} (now {dict(holdings(work))})"


def _memory(work: Workload) -> int:
    return int(psutil.Process(work.world.server_pid()).memory_info().rss)


def _descriptors(pid: int) -> list[str]:
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            links.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            continue  # closed meanwhile
    return links


def _kind(link: str) -> str:
    if "/wherry.db" in link:
        return "database file"
    return "file" if link.startswith("/") else link.partition(":")[0]
