"""The drills. Each breaks something while runs go on and returns what was wrong afterwards."""

from __future__ import annotations

import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chaos.books import Books, all_runs
from chaos.leaks import find_leaks
from chaos.workload import Workload, insist
from chaos.world import World, new_world, wait_until

Drill = Callable[[Workload, int], None]


@dataclass(frozen=True)
class Outcome:
    """What one drill came to."""

    name: str
    rounds: int
    runs: int
    seconds: float
    wrong: list[str]


class Unavailable(Exception):
    """This machine cannot hold the drill; the message says why."""


def hold(name: str, rounds: int, seed: int) -> Outcome:
    """One drill in a world of its own, then the audit, then the look for leaks."""
    started = time.monotonic()
    drill = DRILLS[name]
    with new_world() as world:
        work = Workload(world, Books(), random.Random(f"{name} {seed}"))
        work.experiment()
        drill(work, rounds)
        work.settle()
        wrong = insist(lambda: work.books.audit(world.ledger))
        wrong += find_leaks(world)
        return Outcome(name, rounds, len(work.books.entries), time.monotonic() - started, wrong)


def kill_server(work: Workload, rounds: int) -> None:
    """SIGKILL at a random moment of submission, start, run or end."""
    for _ in range(rounds):
        work.submit(count=work.chance.randint(1, 12), pause_s=0.02)
        time.sleep(work.chance.uniform(0, 0.4))
        _signal(work.world.server_pid(), signal.SIGKILL)


def kill_runner(work: Workload, rounds: int) -> None:
    """The script goes on without its runner; what it logs is still brought home."""
    for _ in range(rounds):
        _, entry = work.submit(count=20, pause_s=0.03)
        entry.may_be_lost = True
        wait_until(work.world.runner_pids, "the start of a runner")
        time.sleep(work.chance.uniform(0, 0.8))
        for pid in work.world.runner_pids():
            _signal(pid, signal.SIGKILL)
        work.settle()


def kill_everything(work: Workload, rounds: int) -> None:
    """Server, runners and scripts at once, as a power cut would."""
    for _ in range(rounds):
        _, entry = work.submit(count=20, pause_s=0.03)
        entry.may_be_lost = True
        time.sleep(work.chance.uniform(0, 1.0))
        for process in work.world.processes():
            _signal(process.pid, signal.SIGKILL)


def stop_server(work: Workload, rounds: int) -> None:
    """Stopped, not dead: nothing may be ended, repeated or canceled by doubt."""
    for _ in range(rounds):
        work.submit(count=30, pause_s=0.05)
        time.sleep(work.chance.uniform(0, 0.5))
        _pause(work.world.server_pid(), work.chance.uniform(2, 8))


def stop_runner(work: Workload, rounds: int) -> None:
    for _ in range(rounds):
        work.submit(count=30, pause_s=0.05)
        wait_until(work.world.runner_pids, "the start of a runner")
        for pid in work.world.runner_pids():
            _pause(pid, work.chance.uniform(2, 12))
        work.settle()


def lock_database(work: Workload, rounds: int) -> None:
    """Another program holds the database for longer than anyone likes."""
    for _ in range(rounds):
        work.submit(count=10, pause_s=0.05)
        with sqlite3.connect(work.world.home / "wherry.db", timeout=60) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            time.sleep(work.chance.uniform(1, 5))
            connection.rollback()


def two_servers(work: Workload, rounds: int) -> None:
    """More servers are started on the home; one stays, and one alone drives the runs."""
    for _ in range(rounds):
        rivals = [work.world.python("-m", "wherry.api") for _ in range(3)]
        work.submit(count=5)
        if work.chance.random() < 0.5:
            _signal(work.world.server_pid(), signal.SIGKILL)
        work.submit(count=5)
        work.settle()
        work.world.start_server()
        for rival in rivals:
            if rival.pid != work.world.server_pid():
                assert rival.wait(30) == 4
    alive = [each for each in work.world.processes() if "wherry.api" in each.cmdline()]
    assert len(alive) == 1, f"{len(alive)} servers for one home"


def kill_client(work: Workload, rounds: int) -> None:
    """A client dies in the middle of a submission: the run is there once, or not at all."""
    program = Path(work.world.folder / "client.py")
    program.write_text(_CLIENT.format(here=str(Path(__file__).resolve().parents[1])))
    blob = os.urandom(3_000_000)
    for number in range(rounds):
        (work.world.source / "data.bin").write_bytes(blob + bytes([number % 256]))
        token = f"{work.chance.getrandbits(64):016x}"
        work.books.open(token, 3)
        client = work.world.python(str(program), str(work.world.source), token)
        time.sleep(work.chance.uniform(0.02, 0.6))
        client.kill()
        client.wait()


def fill_disk(work: Workload, rounds: int) -> None:
    """The disk is full for a while; what was written is kept, and the server goes on."""
    small = _small_disk(work.world.folder / "small")
    try:
        with new_world(home=small / "home") as world:
            inner = Workload(world, Books(), work.chance)
            for _ in range(rounds):
                _, entry = inner.submit(count=200, pause_s=0.01)
                entry.may_be_lost = True  # a script whose print fails may well give up
                ballast = small / "ballast"
                _fill(ballast)
                time.sleep(work.chance.uniform(1, 4))
                ballast.unlink()
                inner.settle()
            wrong = insist(lambda: inner.books.audit(world.ledger)) + find_leaks(world)
            assert not wrong, "; ".join(wrong)
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)


def cut_network(work: Workload, rounds: int) -> None:
    """In a network of its own, whose only cable is pulled and put back."""
    here = Path(__file__).resolve().parents[1]
    inside = [sys.executable, "-m", "chaos.cable", str(rounds), str(work.chance.getrandbits(32))]
    unshare = ["unshare", "--net", "--"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False).returncode
    ):
        raise Unavailable("no network namespace can be made here")
    done = subprocess.run([*unshare, *inside], cwd=here, capture_output=True, text=True)
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


def all_at_once(work: Workload, rounds: int) -> None:
    """Clients submit, follow and cancel while processes die."""
    over = threading.Event()
    clients = [
        threading.Thread(target=_client, args=(work, rounds, random.Random(f"{number}")))
        for number in range(min(20, 4 + rounds))
    ]
    killer = threading.Thread(target=_killer, args=(work, over))
    for thread in (*clients, killer):
        thread.start()
    for thread in clients:
        thread.join()
    over.set()
    killer.join()


def _client(work: Workload, rounds: int, chance: random.Random) -> None:
    mine = Workload(work.world, work.books, chance)
    for _ in range(rounds):
        run, entry = mine.submit(count=chance.randint(1, 15))
        entry.may_be_lost = True
        what = chance.random()
        if what < 0.3:
            entry.may_be_canceled = True
            insist(run.cancel)
        elif what < 0.6:
            seen: list[bytes] = []
            with suppress(Exception):
                run.stream_logs(seen.append)
        else:
            time.sleep(chance.uniform(0, 0.3))


def _killer(work: Workload, over: threading.Event) -> None:
    chance = random.Random("killer")
    while not over.wait(chance.uniform(0.3, 1.5)):
        runners = work.world.runner_pids()
        if runners and chance.random() < 0.3:
            _signal(chance.choice(runners), signal.SIGKILL)
        else:
            _signal(work.world.server_pid(), signal.SIGKILL)


def _signal(pid: int | None, number: signal.Signals) -> None:
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def _pause(pid: int | None, seconds: float) -> None:
    _signal(pid, signal.SIGSTOP)
    time.sleep(seconds)
    _signal(pid, signal.SIGCONT)


def _small_disk(place: Path) -> Path:
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=48m", "wherry-chaos", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, check=False).returncode:
        raise Unavailable("no small disk can be mounted here")
    return place


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(1 << 16))


_CLIENT = """
import sys
sys.path.insert(0, {here!r})
from chaos.books import TAG, WORKSPACE
from wherry import Experiment, ScriptRunConfig, Workspace
source, token = sys.argv[1:]
config = ScriptRunConfig(source, "script.py", [token, "3", "0.01"])
experiment = Experiment(Workspace.create(WORKSPACE, exist_ok=True), "drill")
experiment.submit(config, tags={{TAG: token}}, submission_key=token)
"""

DRILLS: dict[str, Drill] = {
    "server killed": kill_server,
    "runner killed": kill_runner,
    "everything killed": kill_everything,
    "server stopped": stop_server,
    "runner stopped": stop_runner,
    "database locked": lock_database,
    "two servers": two_servers,
    "client killed": kill_client,
    "disk full": fill_disk,
    "network cut": cut_network,
    "all at once": all_at_once,
}
"""By name, in the order in which the campaign holds them."""

__all__ = ["DRILLS", "Outcome", "Unavailable", "World", "all_runs", "hold"]
