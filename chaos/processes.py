"""Drills in which processes are killed, stopped, or too many."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial

import psutil

from chaos.books import all_runs
from chaos.workload import Workload, insist
from chaos.world import pause, send, wait_until

_LOOK_S = 3.0
_MUCH = 200_000
_BURST = 15
_IDLE_S = 0.4


def kill_server(work: Workload, rounds: int) -> None:
    """SIGKILL at a random moment of submission, start, run or end."""
    for number in range(rounds):
        if number % 3:
            work.submit(count=work.chance.randint(1, 12), pause_s=0.02)
        else:
            work.submit_brief()
        time.sleep(work.chance.uniform(0, 0.4 if number % 3 else 0.1))
        send(work.world.server_pid(), signal.SIGKILL)


def kill_runner(work: Workload, rounds: int) -> None:
    """The script goes on without its runner; what it logs is still brought home."""
    for _ in range(rounds):
        _kill(work, lambda runner: [runner], after_s=0)


def kill_group(work: Workload, rounds: int) -> None:
    """The runner and all that it started, at once: what was written before is brought home."""
    for _ in range(rounds):
        _kill(work, work.world.group, after_s=0.1)


def _kill(work: Workload, victims: Callable[[int], list[int]], after_s: float) -> None:
    """Of every runner that there is, at a random moment of a run."""
    _, entry = work.submit(count=20, pause_s=0.03)
    entry.may_be_lost = True
    wait_until(work.world.runner_pids, "the start of a runner")
    time.sleep(work.chance.uniform(after_s, 0.8))
    for runner in work.world.runner_pids():
        for pid in victims(runner):
            send(pid, signal.SIGKILL)
    work.settle()


def kill_everything(work: Workload, rounds: int) -> None:
    """Server, runners and scripts at once, as a power cut would."""
    for _ in range(rounds):
        _, brief = work.submit_brief()
        _, entry = work.submit(count=20, pause_s=0.03)
        brief.may_be_lost = entry.may_be_lost = True
        time.sleep(work.chance.uniform(0, 1.0))
        for process in work.world.processes():
            send(process.pid, signal.SIGKILL)


def kill_in_burst(work: Workload, rounds: int) -> None:
    """Runners take one short run after the other. One that dies takes one run along at most; a
    nursery or a server that dies, none.
    """
    killed = 0
    for number in range(rounds):
        entries = work.submit_briefs(_BURST)
        time.sleep(work.chance.uniform(0, 0.4))
        runners = sorted(set(work.world.runner_pids()))
        if number % 3 == 0 and runners:
            for entry in entries:
                entry.may_be_lost = True
            killed += 1
            send(work.chance.choice(runners), signal.SIGKILL)
        elif number % 3 == 1:
            for pid in work.world.nursery_pids():
                send(pid, signal.SIGKILL)
        else:
            send(work.world.server_pid(), signal.SIGKILL)
        work.settle()
    failed = sum(run.record["status"] == "Failed" for run in insist(all_runs))
    assert failed <= killed, f"{failed} runs failed for {killed} runners that were killed"


def kill_nursery(work: Workload, rounds: int) -> None:
    """The process that starts runners dies: runs go on, others start, and the server rests."""
    for _ in range(rounds):
        work.submit(count=10, pause_s=0.03)
        time.sleep(work.chance.uniform(0, 0.5))
        for pid in work.world.nursery_pids():
            send(pid, signal.SIGKILL)
        work.submit(count=2)
        work.submit_brief()
    for pid in work.world.nursery_pids():
        send(pid, signal.SIGKILL)
    work.settle()
    _check_rest(work)


def stop_nursery(work: Workload, rounds: int) -> None:
    """It hangs: runners are started without it, each run once, also one that brings much along."""
    (work.world.source / "data.bin").write_bytes(bytes(_MUCH))
    for _ in range(rounds):
        work.submit(count=5)
        wait_until(work.world.nursery_pids, "the start of a nursery")
        stopped = work.world.nursery_pids()
        for pid in stopped:
            send(pid, signal.SIGSTOP)
        work.submit(count=2)
        work.submit(count=2)
        work.settle()
        for pid in stopped:
            send(pid, signal.SIGCONT)


def stop_server(work: Workload, rounds: int) -> None:
    """Stopped, not dead: nothing may be ended, repeated or canceled by doubt."""

    def stopped(seconds: float) -> None:
        time.sleep(work.chance.uniform(0, 0.5))
        pause([work.world.server_pid()], seconds)

    work.outlast(stopped, rounds)


def stop_runner(work: Workload, rounds: int) -> None:
    def stopped(seconds: float) -> None:
        wait_until(work.world.runner_pids, "the start of a runner")
        pause(work.world.runner_pids(), seconds)

    work.outlast(stopped, rounds)


def two_servers(work: Workload, rounds: int) -> None:
    """More servers are started on the home; one stays, and one alone drives the runs."""
    for _ in range(rounds):
        rivals = [work.world.python("-m", "wherry.api") for _ in range(3)]
        work.submit(count=5)
        if work.chance.random() < 0.5:
            send(work.world.server_pid(), signal.SIGKILL)
        work.submit(count=5)
        work.settle()
        work.world.start_server()
        for rival in rivals:
            if rival.pid != work.world.server_pid():
                wait_until(partial(_ended, rival), "the end of a server that has no home")
    alive = [each for each in work.world.processes() if "wherry.api" in each.cmdline()]
    assert len(alive) == 1, f"{len(alive)} servers for one home"


def _ended(rival: subprocess.Popen[bytes]) -> bool:
    return rival.poll() is not None


def _check_rest(work: Workload) -> None:
    """A server without runs and runners has nothing to do, and does it without effort."""
    server = psutil.Process(work.world.server_pid())
    time.sleep(_LOOK_S)  # until everything is cleared away
    before = server.cpu_times()
    time.sleep(_LOOK_S)
    after = server.cpu_times()
    spent = after.user + after.system - before.user - before.system
    assert spent < _IDLE_S, f"an idle server spent {spent:.1f} s of {_LOOK_S:.0f} s computing"
