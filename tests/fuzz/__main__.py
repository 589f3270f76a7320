"""``python -m tests.fuzz [--requests N] [--seed N]``: the campaign, and its table."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.databases import new_database
from tests.fuzz.target import serve
from tests.postgres import find_programs, start


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="repeats a campaign")
    parser.add_argument("--requests", type=int, default=5000, help="to each of the databases")
    asked = parser.parse_args()
    print(f"seed {asked.seed}")
    print(f"{'database':10}  {'requests':>8}  {'time':>7}  answers")
    faults: list[str] = []
    for name, url in _databases():
        with tempfile.TemporaryDirectory(prefix="wherry-fuzz-") as folder:
            faults += _campaign(name, Path(folder), url, asked.seed, asked.requests)
    for fault in faults[:20]:
        print(f"\n{fault}")
    print(f"{len(faults)} faults" if faults else "no faults")
    return 1 if faults else 0


def _campaign(name: str, folder: Path, url: str, seed: int, requests: int) -> list[str]:
    began = time.monotonic()
    with serve(folder, url) as target:
        campaign = Campaign(target, seed)
        while campaign.requests < requests and not campaign.faults:
            campaign.run(examples=40)
            campaign.seed += 1
    answers = ", ".join(f"{count} x {status}" for status, count in sorted(campaign.answers.items()))
    print(
        f"{name:10}  {campaign.requests:8}  {time.monotonic() - began:6.0f}s  {answers}", flush=True
    )
    return campaign.faults


def _databases() -> Iterator[tuple[str, str]]:
    yield "SQLite", ""
    programs = find_programs()
    if programs is None:
        print("PostgreSQL  is not installed: skipped")
        return
    with start(programs) as url:
        yield "PostgreSQL", new_database(url)


if __name__ == "__main__":
    sys.exit(main())
