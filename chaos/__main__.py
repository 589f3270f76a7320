"""``python -m chaos [--seed N] [--rounds N] [drill ...]``: the campaign, and its table."""

from __future__ import annotations

import argparse
import sys
import time

from chaos.drills import DRILLS, Outcome, Unavailable, hold

ROUNDS = {
    "server killed": 1000,
    "runner killed": 60,
    "everything killed": 60,
    "server stopped": 10,
    "runner stopped": 10,
    "database locked": 10,
    "two servers": 20,
    "client killed": 100,
    "disk full": 10,
    "network cut": 10,
    "all at once": 25,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a campaign")
    parser.add_argument("--rounds", type=int, help="instead of each drill's own number")
    parser.add_argument("drill", nargs="*", help=f"one of: {', '.join(DRILLS)}; all by default")
    asked = parser.parse_args()
    unknown = [name for name in asked.drill if name not in DRILLS]
    if unknown:
        parser.error(f"there is no drill {unknown[0]!r}; there are: {', '.join(DRILLS)}")
    print(f"seed {asked.seed}")
    print(f"{'drill':18}  {'rounds':>6}  {'runs':>5}  {'time':>7}  result")
    failed = False
    for name in asked.drill or DRILLS:
        try:
            outcome = hold(name, asked.rounds or ROUNDS[name], asked.seed)
        except Unavailable as reason:
            print(f"{name:18}  {'':6}  {'':5}  {'':7}  skipped: {reason}")
            continue
        _show(outcome)
        failed = failed or bool(outcome.wrong)
    return 1 if failed else 0


def _show(outcome: Outcome) -> None:
    result = "ok" if not outcome.wrong else f"{len(outcome.wrong)} FAULTS"
    counted = f"{outcome.rounds:6}  {outcome.runs:5}  {outcome.seconds:6.0f}s"
    print(f"{outcome.name:18}  {counted}  {result}", flush=True)
    for fault in outcome.wrong[:20]:
        print(f"    {fault}")


if __name__ == "__main__":
    sys.exit(main())
