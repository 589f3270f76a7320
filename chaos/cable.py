"""A drill on a network of its own, whose only cable is pulled and put back.

The drill itself runs inside that network: ``python -m chaos.cable ROUNDS SEED``.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

from chaos.books import Books
from chaos.verdict import judge
from chaos.workload import Workload
from chaos.world import Unavailable, new_world

_UNSHARE = ["unshare", "--net", "--"]


def cut_network(work: Workload, rounds: int) -> None:
    """Server and runners do not reach each other for a while: doubt ends nothing."""
    here = Path(__file__).resolve().parents[1]
    seed = str(work.chance.getrandbits(32))
    inside = [sys.executable, "-m", "chaos.cable", str(rounds), seed]
    tools = all(shutil.which(name) for name in ("unshare", "ip"))
    if not tools or subprocess.run([*_UNSHARE, "true"], check=False).returncode:
        raise Unavailable("no network namespace can be made here")
    done = subprocess.run(
        [*_UNSHARE, *inside], cwd=here, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]
    work.elsewhere += int(done.stdout.split()[-1])


def main(rounds: int, seed: int) -> int:
    _cable("up")
    with new_world() as world:
        work = Workload(world, Books(), random.Random(seed))
        wrong = judge(_pull, work, rounds, "inside the cut network")
    print(*wrong, len(work.books.entries), sep="\n")
    return 1 if wrong else 0


def _pull(work: Workload, rounds: int) -> None:
    def unplugged(seconds: float) -> None:
        time.sleep(work.chance.uniform(0, 0.6))
        _cable("down")
        time.sleep(seconds)
        _cable("up")

    work.outlast(unplugged, rounds)


def _cable(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
