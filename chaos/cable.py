"""A drill on a network of its own, whose only cable is pulled and put back.

The drill itself runs inside that network: ``python -m chaos.cable ROUNDS SEED WHERE``.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from chaos import hosts
from chaos.books import Books
from chaos.verdict import judge
from chaos.workload import Workload
from chaos.world import Unavailable, new_world

_UNSHARE = ["unshare", "--net", "--"]


def cut_network(work: Workload, rounds: int) -> None:
    """Server and runners do not reach each other for a while: doubt ends nothing."""
    _inside(work, rounds, "local")


def cut_hosts(work: Workload, rounds: int) -> None:
    """The same, with runs on hosts of a pool that are reached by SSH."""
    _inside(work, rounds, "pool")


def _inside(work: Workload, rounds: int, where: str) -> None:
    here = Path(__file__).resolve().parents[1]
    seed = str(work.chance.getrandbits(32))
    inside = [sys.executable, "-m", "chaos.cable", str(rounds), seed, where]
    tools = all(shutil.which(name) for name in ("unshare", "ip"))
    if not tools or subprocess.run([*_UNSHARE, "true"], check=False).returncode:
        raise Unavailable("no network namespace can be made here")
    done = subprocess.run(
        [*_UNSHARE, *inside], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    work.elsewhere += int(done.stdout.split()[-1])


def main(rounds: int, seed: int, where: str) -> int:
    _cable("up")
    with new_world(hosts.pool if where == "pool" else None) as world:
        work = Workload(world, Books(), random.Random(seed))
        act = _pull_hosts if where == "pool" else _pull
        wrong = judge(act, work, rounds, f"inside the cut network, {where}")
    print(*wrong, len(work.books.entries), sep="\n")
    return 1 if wrong else 0


def _pull(work: Workload, rounds: int) -> None:
    def unplugged(seconds: float) -> None:
        time.sleep(work.chance.uniform(0, 0.6))
        _cable("down")
        time.sleep(seconds)
        _cable("up")

    work.outlast(unplugged, rounds)


def _pull_hosts(work: Workload, rounds: int) -> None:
    with hosts.lab(work):
        _pull(work, rounds)


def _cable(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
