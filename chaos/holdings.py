"""What a server holds, counted by kind: descriptors, threads, children, locks, folders."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from chaos.world import World
from wherry.sdk.connection import forget

_POOL = 50
_RUNNERS = 20
_CALM_S = 0.2
_ASKING = min(32, (os.cpu_count() or 1) + 4)  # as asyncio has them


def holdings(world: World) -> Counter[str]:
    pid = world.server_pid()
    assert pid is not None, "the server is gone"
    found = held_by(pid)
    for nursery in world.nursery_pids():
        theirs = held_by(nursery)
        found["runner"] += theirs["child"]
        found["pipe of the nursery"] += theirs["pipe"]
    found["attempt folder"] = len(world.attempt_folders())
    found["node folder"] = len(world.node_folders())
    found["incoming folder"] = len(list(world.home.glob("blobs/incoming/*")))
    return found


def calm_holdings(world: World) -> Counter[str]:
    """Of a server that has been started and asked for nothing, once it stays as it is."""
    forget()
    seen = [holdings(world)]
    while len(seen) < 3 or seen[-1] != seen[-2] or seen[-1] != seen[-3]:
        time.sleep(_CALM_S)
        seen.append(holdings(world))
    return seen[-1]


def held_by(pid: int) -> Counter[str]:
    process = psutil.Process(pid)
    connections = {each.fd for each in process.net_connections("inet")}
    found = Counter(_kind(fd, link, connections) for fd, link in _descriptors(pid))
    found["thread"] = process.num_threads()
    found["child"] = len(process.children())
    found["lock"] = Path("/proc/locks").read_text().count(f" {pid} ")
    return found


def grown(before: Mapping[str, int], now: Mapping[str, int], kept: Mapping[str, int]) -> list[str]:
    """What there is more of than before and what may be ``kept``, in words."""
    return [
        f"{count} of kind {kind!r} where there were {before.get(kind, 0)}"
        for kind, count in now.items()
        if count > before.get(kind, 0) + kept.get(kind, 0)
    ]


def kept(world: World) -> dict[str, int]:
    """What a server that rests may still have from its work, each up to a bound.

    The process that runners come from, with a pipe to it and one back; it has five, and one for
    each runner that has ended since it started the last. Connections to the database, of which
    SQLite has two files each. The loop of all agents elsewhere, with threads in which it asks an
    engine. A few threads for requests: those that were idle for ten seconds go when the next
    request comes.
    """
    sockets = _POOL if "WHERRY_DATABASE_URL" in world.variables else 0
    far = world.hosts or world.engine
    loop = {"anon_inode": 1, "socket": sockets + 2} if far else {"socket": sockets}
    nursery = {"child": 1, "pipe": 2, "pipe of the nursery": 5 + _RUNNERS}
    threads = 4 + (_ASKING if world.engine else 0)
    return {**nursery, **loop, "database file": 2 * _POOL, "thread": threads}


def _descriptors(pid: int) -> list[tuple[int, str]]:
    links = []
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(OSError):  # closed meanwhile
            links.append((int(name), os.readlink(f"/proc/{pid}/fd/{name}")))
    return links


def _kind(descriptor: int, link: str, connections: set[int]) -> str:
    if descriptor in connections:
        return "connection"
    if "/wherry.db" in link:
        return "database file"
    return "file" if link.startswith("/") else link.partition(":")[0]
