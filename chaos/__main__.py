"""``python -m chaos [--seed N] [--share S] [--jobs N] [drill ...]``: the campaign's table."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

from chaos.drills import DRILLS, Outcome, hold
from chaos.verdict import KEEP
from chaos.world import Unavailable

_PART = 100
"""Rounds that are held in one world, so that worlds do not grow old and jobs have work."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a campaign")
    parser.add_argument("--rounds", type=int, help="instead of each drill's own number")
    parser.add_argument("--share", type=float, default=1.0, help="of each drill's own rounds")
    parser.add_argument("--jobs", type=int, default=1, help="drills that are held at once")
    parser.add_argument("drill", nargs="*", help=f"one of: {', '.join(DRILLS)}; all by default")
    asked = parser.parse_args()
    unknown = [name for name in asked.drill if name not in DRILLS]
    if unknown:
        parser.error(f"there is no drill {unknown[0]!r}; there are: {', '.join(DRILLS)}")
    print(f"seed {asked.seed}")
    print(f"{'drill':18}  {'rounds':>6}  {'runs':>5}  {'time':>7}  result", flush=True)
    failed = False
    with ProcessPoolExecutor(
        asked.jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        parts = {
            name: [
                pool.submit(hold, name, rounds, asked.seed + number)
                for number, rounds in enumerate(_parts(asked.rounds or _share(name, asked.share)))
            ]
            for name in asked.drill or DRILLS
        }
        for name, futures in parts.items():
            failed = not _show(name, futures) or failed
    return 1 if failed else 0


def _share(name: str, share: float) -> int:
    return max(DRILLS[name].short, round(DRILLS[name].rounds * share))


def _parts(rounds: int) -> Iterator[int]:
    while rounds > 0:
        yield min(rounds, _PART)
        rounds -= _PART


def _show(name: str, futures: list[Future[Outcome]]) -> bool:
    """Whether all went well."""
    try:
        outcomes = [future.result() for future in futures]
    except Unavailable as reason:
        print(f"{name:18}  {'':6}  {'':5}  {'':7}  skipped: {reason}", flush=True)
        return True
    except Exception as error:  # the others are held even so
        print(f"{name:18}  {'':6}  {'':5}  {'':7}  BROKE OFF: {error!r}", flush=True)
        return False
    wrong = [fault for outcome in outcomes for fault in outcome.wrong]
    rounds, runs = sum(each.rounds for each in outcomes), sum(each.runs for each in outcomes)
    seconds = sum(each.seconds for each in outcomes)
    result = f"{len(wrong)} FAULTS, see {KEEP}" if wrong else "ok"
    print(f"{name:18}  {rounds:6}  {runs:5}  {seconds:6.0f}s  {result}", flush=True)
    for fault in wrong[:20]:
        print(f"    {fault}", flush=True)
    return not wrong


if __name__ == "__main__":
    sys.exit(main())
