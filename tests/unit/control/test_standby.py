"""One more than fits is admitted while short runs come and go, and starts the moment one ends."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.control.test_reconciler import Clock, World, clock
from wherry.control import reconciler, runs
from wherry.control.reports import report
from wherry.drivers.memory import MemoryDriver

__all__ = ["clock"]


class Handing(MemoryDriver):
    """Is handed what the tests say."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.handed: list[dict[str, Any]] = []
        self._pipe = os.pipe()

    def inbox(self) -> int:
        return self._pipe[0]

    def reports(self) -> Sequence[Mapping[str, Any]]:
        handed, self.handed = self.handed, []
        return handed


class Knowing(Handing):
    """Can tell what was never started."""

    def is_unknown(self, attempt_id: str) -> bool:
        return attempt_id not in self.backend.starts


class Burst(World):
    def restart(self, driver: Any = None) -> None:
        self.driver = driver or Handing(self.backend)
        super().restart(self.driver)

    def hand_over(self, run_id: str) -> None:
        attempt = self.attempt(run_id)
        self.backend.end(attempt.id)
        self.driver.handed.append(
            {
                "run_id": run_id,
                "attempt_id": attempt.id,
                "exit": {"exit_code": 0},
                "log": b64encode(b"hello").decode(),
            }
        )

    def started(self, run_id: str) -> bool:
        return self.attempt(run_id).id in self.backend.starts

    def statuses(self, *run_ids: str) -> list[str]:
        return [self.status(each) for each in run_ids]


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> Iterator[Burst]:
    world = Burst(tmp_path / "home", clock)
    yield world
    world.plane.close()


def four(world: Burst, **third: Any) -> list[str]:
    """Runs that take the whole machine each; the first is handed over, the second has started."""
    whole = {"resources": {"cpu": 2}}
    made = [world.submit(**{**whole, **(third if n == 2 else {})}) for n in range(4)]
    world.tick()
    world.hand_over(made[0])
    world.reconciler.turn()
    return made


def test_the_next_one_starts_before_the_transaction(
    world: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third, fourth = four(world)
    assert world.statuses(first, second, third, fourth) == [
        "Completed",
        "Starting",
        "Starting",
        "Queued",
    ]
    assert world.started(second)
    assert not world.started(third)
    world.hand_over(second)
    seen = []
    write = world.plane.write

    def noting() -> Any:
        seen.append(world.started(third))
        return write()

    monkeypatch.setattr(world.plane, "write", noting)
    world.reconciler.turn()
    assert seen == [True]
    assert world.statuses(second, third, fourth) == ["Completed", "Starting", "Starting"]
    assert not world.started(fourth)
    world.hand_over(third)
    world.reconciler.turn()
    world.hand_over(fourth)
    world.reconciler.turn()
    assert world.statuses(third, fourth) == ["Completed", "Completed"]
    assert set(world.backend.starts.values()) == {1}
    log_key = f"{fourth}/{world.attempt(fourth).id}"
    assert world.plane.logs.read(log_key, 0, 10) == b"hello"


def test_who_waits_longer_than_a_short_run_takes_is_queued_again(world: Burst) -> None:
    _, second, third, fourth = four(world)
    world.tick(2)
    assert world.statuses(third, fourth) == ["Queued", "Queued"]
    assert runs.show(world.plane, third).attempt == 0
    report(world.plane, world.attempt(second).id, {"exit": {"exit_code": 0}})
    world.tick()
    assert world.statuses(third, fourth) == ["Starting", "Queued"]
    assert world.started(third)
    assert runs.show(world.plane, third).attempt == 1


def test_room_that_comes_another_way_is_used_as_well(world: Burst) -> None:
    _, second, third, _ = four(world)
    report(world.plane, world.attempt(second).id, {"exit": {"exit_code": 0}})
    world.reconciler.turn()
    assert world.started(third)


def test_one_that_is_canceled_never_starts(world: Burst) -> None:
    _, second, third, fourth = four(world)
    runs.cancel(world.plane, third)
    world.tick(0.1)
    assert world.statuses(third, fourth) == ["Canceled", "Queued"]
    world.hand_over(second)
    world.reconciler.turn()
    assert world.started(fourth)
    assert len(world.backend.starts) == 3


def test_one_of_another_size_waits_in_the_queue(world: Burst) -> None:
    *_, third, fourth = four(world, resources={"cpu": 1})
    assert world.statuses(third, fourth) == ["Queued", "Queued"]


def test_a_server_that_dies_has_it_started_once_by_the_next(world: Burst) -> None:
    _, second, third, _ = four(world)
    world.restart()
    world.tick()
    assert world.started(third)
    for run_id in (second, third):
        world.hand_over(run_id)
    world.reconciler.turn()
    assert world.statuses(second, third) == ["Completed", "Completed"]
    assert set(world.backend.starts.values()) == {1}


def test_a_server_that_stops_leaves_it_queued(world: Burst) -> None:
    *_, third, _ = four(world)
    world.reconciler.stop()
    assert world.status(third) == "Queued"


def test_what_cannot_be_settled_keeps_no_other_waiting(world: Burst) -> None:
    both = [world.submit(), world.submit()]
    world.tick()
    for run_id in both:
        world.hand_over(run_id)
    world.driver.handed.insert(1, {"run_id": "none", "attempt_id": 3, "exit": None, "log": "?"})
    world.driver.handed.append({"run_id": "gone", "attempt_id": "gone", "exit": {}, "log": ""})
    world.reconciler.turn()
    assert world.statuses(*both) == ["Completed", "Completed"]


@pytest.fixture
def deep(tmp_path: Path, clock: Clock) -> Iterator[Burst]:
    """Several may stand by."""

    class Deep(Burst):
        def restart(self, driver: Any = None) -> None:
            super().restart(driver or Knowing(self.backend))

    world = Deep(tmp_path / "home", clock)
    yield world
    world.plane.close()


def test_ends_are_recorded_together_while_others_stand_by(
    deep: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "GATHER_S", 3600.0)
    _, second, third, fourth = four(deep)
    assert deep.statuses(third, fourth) == ["Starting", "Starting"]
    assert not deep.started(third)
    deep.hand_over(second)
    deep.reconciler.turn()
    assert deep.started(third)
    assert not deep.started(fourth)
    assert deep.statuses(second, third) == ["Starting", "Starting"]
    deep.hand_over(third)
    deep.reconciler.turn()
    assert deep.started(fourth)
    assert deep.statuses(second, third, fourth) == ["Completed", "Completed", "Starting"]


def test_what_was_gathered_is_recorded_when_time_is_up_and_when_the_server_stops(
    deep: Burst, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconciler, "GATHER_S", 3600.0)
    _, second, third, _ = four(deep)
    deep.hand_over(second)
    deep.reconciler.turn()
    deep.tick(0.1)
    assert deep.status(second) == "Completed"
    fifth = deep.submit(resources={"cpu": 2})
    deep.hand_over(third)
    deep.reconciler.turn()
    deep.reconciler.stop()
    assert deep.statuses(third, fifth) == ["Completed", "Queued"]


def test_a_server_that_dies_leaves_no_more_than_fits_to_the_next(deep: Burst) -> None:
    _, second, third, fourth = four(deep)
    deep.restart()
    deep.tick()
    assert deep.statuses(second, third, fourth) == ["Starting", "Queued", "Queued"]
    assert len(deep.backend.starts) == 2
    for run_id in (second, third, fourth):
        deep.hand_over(run_id)
        deep.tick()
    assert deep.statuses(second, third, fourth) == ["Completed"] * 3
    assert set(deep.backend.starts.values()) == {1}
