"""Drills on disks that are full for a while."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from chaos.workload import Workload
from chaos.world import Stage, Unavailable


@contextmanager
def small_node(folder: Path) -> Iterator[Stage]:
    """The attempts' folders lie on a small disk of their own."""
    with disk(folder / "home/nodes", 32):
        yield Stage()


@contextmanager
def small_server(folder: Path) -> Iterator[Stage]:
    """Everything but the attempts' folders lies on a small disk."""
    with disk(folder / "home", 32), disk(folder / "home/nodes", 512):
        yield Stage()


def fill_node(work: Workload, rounds: int) -> None:
    """What the script could still write is kept; its metrics wait for room."""
    for _ in range(rounds):
        _, entry = work.submit(count=60, pause_s=0.02)
        entry.may_be_lost = True  # a script whose print fails may well give up
        time.sleep(work.chance.uniform(0.1, 0.8))
        fill_for(work.world.home / "nodes", work.chance.uniform(1, 3))
        work.settle()


def fill_server(work: Workload, rounds: int) -> None:
    """The server has no room for anything: runs go on, and everything is stored afterwards."""
    for _ in range(rounds):
        work.submit(count=60, pause_s=0.02)
        time.sleep(work.chance.uniform(0.1, 0.8))
        fill_for(work.world.home, work.chance.uniform(1, 3))
        work.submit(count=3)
        work.settle()


def fill_for(folder: Path, seconds: float) -> None:
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 12))
    time.sleep(seconds)
    ballast.unlink()


@contextmanager
def disk(place: Path, megabytes: int) -> Iterator[None]:
    place.mkdir(parents=True, exist_ok=True)
    options = f"size={megabytes}m,mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "wherry-chaos", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        raise Unavailable("no small disk can be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=False)
