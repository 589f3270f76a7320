"""Submissions whose every line is known beforehand."""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from chaos.books import BRIEF, SCRIPT, TAG, WORKSPACE, Books, Entry, all_runs
from chaos.patience import awake_s
from chaos.world import World, wait_until
from wherry import Experiment, Run, ScriptRunConfig, WherryError, Workspace

T = TypeVar("T")

_ENDED = ("Completed", "Failed", "Canceled")
_LIMIT_S = 3600.0
_OUTAGES_S = ((1, 3), (1, 3), (120, 240), (10, 60))


@dataclass
class Workload:
    """Submits to a world, writing down what it sends.

    ``elsewhere`` counts submissions to another world, audited there. ``target`` is the name of the
    compute target that runs go to.
    """

    world: World
    books: Books
    chance: random.Random
    elsewhere: int = 0
    target: str | None = None

    def __post_init__(self) -> None:
        script = self.world.source / "script.py"
        if not script.exists():  # never while another client captures it
            script.write_text(SCRIPT)

    def experiment(self) -> Experiment:
        return Experiment(Workspace.create(WORKSPACE, exist_ok=True), "drill")

    def open_entry(self, count: int) -> Entry:
        return self.books.open(uuid.UUID(int=self.chance.getrandbits(128)).hex, count)

    def config(self, entry: Entry, pause_s: float, **options: Any) -> ScriptRunConfig:
        """With a limit on its time, far away: nothing here may reach it."""
        resume = ["resume"] if entry.evictions else []
        given = {
            "arguments": [entry.token, str(entry.count), str(pause_s), *resume],
            "compute_target": self.target,
            "max_run_duration_seconds": _LIMIT_S,
            **options,
        }
        return ScriptRunConfig(str(self.world.source), "script.py", **given)

    def submit(
        self, count: int = 20, pause_s: float = 0.02, *, evictions: int = 0, **options: Any
    ) -> tuple[Run, Entry]:
        entry = self.open_entry(count)
        entry.evictions = evictions
        return self._sent(entry, self.config(entry, pause_s, **options))

    def outlast(self, outage: Callable[[float], None], rounds: int) -> None:
        """Two runs around each outage: one would end during it, the other after it.

        It lasts seconds in the first two rounds, then also minutes.
        """
        for number in range(rounds):
            seconds = self.chance.uniform(*_OUTAGES_S[number % len(_OUTAGES_S)])
            self.submit(count=30, pause_s=0.05)
            self.submit(count=20, pause_s=seconds / 15)
            outage(seconds)
            self.settle(240 + 2 * seconds)

    def submit_brief(self) -> tuple[Run, Entry]:
        entry = self._brief_entry()
        return self._sent(entry, self._brief(entry))

    def submit_briefs(self, count: int) -> list[Entry]:
        """All at once, to a server that is there."""
        entries = [self._brief_entry() for _ in range(count)]
        self.experiment().submit_many([self._brief(entry) for entry in entries])
        for entry in entries:
            entry.acknowledged = True
        return entries

    def _brief_entry(self) -> Entry:
        entry = self.open_entry(1)
        entry.brief = True
        return entry

    def _brief(self, entry: Entry) -> ScriptRunConfig:
        command = ["/bin/sh", "-c", BRIEF, entry.token]
        return ScriptRunConfig(str(self.world.source), command=command, compute_target=self.target)

    def _sent(self, entry: Entry, config: ScriptRunConfig) -> tuple[Run, Entry]:
        """Tried until the server takes it, as a person would."""
        token = entry.token
        run = insist(
            lambda: self.experiment().submit(config, tags={TAG: token}, submission_key=token)
        )
        entry.acknowledged = True
        return run, entry

    def settle(self, timeout_s: float = 240) -> None:
        """Until every run has ended."""

        def ended() -> bool:
            return all(run.record["status"] in _ENDED for run in insist(all_runs))

        try:
            wait_until(ended, "the end of all runs", timeout_s)
        except TimeoutError:
            open_runs = [run.record for run in all_runs() if run.record["status"] not in _ENDED]
            told = [f"{each['id']} {each['status']}: {each['message']}" for each in open_runs]
            raise TimeoutError("some runs do not end: " + "; ".join(told)) from None


def insist(act: Callable[[], T], patience_s: float = 300) -> T:
    """Again and again while the server is away."""
    deadline = awake_s() + patience_s
    while True:
        try:
            return act()
        except (WherryError, OSError):
            if awake_s() > deadline:
                raise
            time.sleep(0.1)
