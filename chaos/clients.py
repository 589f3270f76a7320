"""Drills on clients that are killed, and on many of them while processes die."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from chaos.books import Entry, all_runs, token_of
from chaos.workload import Workload, insist
from chaos.world import send
from wherry import Run, WherryError

_CLIENTS = 20
_BULK = 20


def kill_client(work: Workload, rounds: int) -> None:
    """A client dies in the middle of a submission: the run is there once, or not at all."""
    program = _program(work, _CLIENT)
    blob = os.urandom(3_000_000)
    for number in range(rounds):
        (work.world.source / "data.bin").write_bytes(blob + bytes([number % 256]))
        entry = work.open_entry(3)
        client = work.world.python(program, str(work.world.source), entry.token)
        time.sleep(work.chance.uniform(0.02, 0.9))
        client.kill()
        client.wait()


def kill_bulk(work: Workload, rounds: int) -> None:
    """A client dies in the middle of a submission of many: all runs are there, or none."""
    program = _program(work, _BULK_CLIENT)
    groups = []
    for _ in range(rounds):
        tokens = [work.open_entry(1).token for _ in range(_BULK)]
        groups.append(tokens)
        client = work.world.python(program, str(work.world.source), *tokens)
        time.sleep(work.chance.uniform(0.3, 1.2))
        client.kill()
        client.wait()
    there = {token_of(run) for run in insist(all_runs)}
    counts = [sum(token in there for token in tokens) for tokens in groups]
    assert set(counts) <= {0, _BULK}, f"of {_BULK} runs that were submitted at once: {counts}"


def all_at_once(work: Workload, rounds: int) -> None:
    """Clients submit, follow and cancel while processes die."""
    over = threading.Event()
    killer = threading.Thread(target=_killer, args=(work, over, _own_chance(work)))
    killer.start()
    with ThreadPoolExecutor(_CLIENTS) as threads:
        clients = [
            threads.submit(_client, work, rounds, _own_chance(work)) for _ in range(_CLIENTS)
        ]
    over.set()
    killer.join()
    given_up = [str(client.exception()) for client in clients if client.exception()]
    assert not given_up, f"{len(given_up)} clients gave up: {given_up[0]}"


def _client(work: Workload, rounds: int, chance: random.Random) -> None:
    mine = Workload(work.world, work.books, chance)
    for _ in range(rounds):
        brief = chance.random() < 0.3
        run, entry = mine.submit_brief() if brief else mine.submit(count=chance.randint(1, 15))
        entry.may_be_lost = True
        what = chance.random()
        if what < 0.3:
            entry.may_be_canceled = True
            insist(run.cancel)
        elif what < 0.6:
            _follow(run, entry)
        else:
            time.sleep(chance.uniform(0, 0.3))


def _follow(run: Run, entry: Entry) -> None:
    seen: list[bytes] = []
    with suppress(WherryError):  # an outage that was longer than its patience
        run.stream_logs(seen.append)
        entry.followed = b"".join(seen)


def _own_chance(work: Workload) -> random.Random:
    """For a thread; it follows from the campaign's seed."""
    return random.Random(work.chance.getrandbits(64))


def _killer(work: Workload, over: threading.Event, chance: random.Random) -> None:
    """Spares a server until it has served for a moment, or nobody would ever get anywhere."""
    while not over.wait(chance.uniform(0.5, 3.0)):
        if not work.world.server_pid():
            continue
        runners = work.world.runner_pids()
        if runners and chance.random() < 0.3:
            send(chance.choice(runners), signal.SIGKILL)
        else:
            send(work.world.server_pid(), signal.SIGKILL)


def _program(work: Workload, text: str) -> str:
    path = work.world.folder / "client.py"
    path.write_text(text.format(here=str(Path(__file__).resolve().parents[1])))
    return str(path)


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

_BULK_CLIENT = """
import sys
sys.path.insert(0, {here!r})
from chaos.books import WORKSPACE
from wherry import Experiment, ScriptRunConfig, Workspace
source, *tokens = sys.argv[1:]
configs = [ScriptRunConfig(source, "script.py", [token, "1", "0"]) for token in tokens]
Experiment(Workspace.create(WORKSPACE, exist_ok=True), "drill").submit_many(configs)
"""
