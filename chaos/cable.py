"""The part of the drill "network cut" that runs inside the network of its own."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from chaos.books import Books
from chaos.leaks import find_leaks
from chaos.workload import Workload, insist
from chaos.world import new_world


def main(rounds: int, seed: int) -> int:
    _cable("up")
    with new_world() as world:
        work = Workload(world, Books(), random.Random(seed))
        for _ in range(rounds):
            work.submit(count=30, pause_s=0.05)
            time.sleep(work.chance.uniform(0, 0.6))
            _cable("down")
            time.sleep(work.chance.uniform(1, 6))
            _cable("up")
        work.settle()
        wrong = insist(lambda: work.books.audit(world.ledger)) + find_leaks(world)
    for fault in wrong:
        print(fault)
    return 1 if wrong else 0


def _cable(state: str) -> None:
    subprocess.run(["ip", "link", "set", "lo", state], check=True)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
