"""The loop, on a memory driver and a clock of our own: order, crashes, outages, cancels."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.planes import add_snapshot, make_plane, run_fields
from wherry.control import reconciler, runs, target_lease, watching
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.control.reports import heartbeat, report
from wherry.control.submit import start_interactive, submit
from wherry.core.errors import TargetUnavailableError, WherryError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.resources import Resources
from wherry.drivers.base import Driver, Handle, Launch
from wherry.drivers.memory import MemoryBackend, MemoryDriver
from wherry.store import attempts, leases
from wherry.store import runs as run_rows
from wherry.store.listing import Filter


class Clock:
    """Wall time and monotonic time, moved by hand."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.set_by = timedelta(0)

    def now(self) -> datetime:
        return self.time + self.set_by

    def monotonic(self) -> float:
        return self.time.timestamp()

    def pass_s(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


OPEN: list[World] = []
"""Those of the present test, which ``conftest`` closes."""


class World:
    """One home with its backend; ``restart`` is a new server on both."""

    def __init__(self, folder: Path, clock: Clock) -> None:
        self.backend = MemoryBackend(resources=Resources(2, 8 << 30, 2), gpus=("0", "1"))
        self.clock = clock
        self._folder = folder
        self.restart()
        self.snapshot = add_snapshot(self.plane, {"train.py": b""})
        OPEN.append(self)

    def close(self) -> None:
        self.plane.close()

    def restart(self, driver: Driver | None = None) -> None:
        driver = driver or MemoryDriver(self.backend)
        self.plane: Plane = make_plane(self._folder, {"local": driver})
        self.plane.now = self.clock.now
        self.plane.started_at = self.clock.now()
        self.reconciler = Reconciler(self.plane, "local", driver)

    def submit(self, **fields: Any) -> str:
        run, _ = submit(self.plane, "w", run_fields(self.snapshot, **fields), "me")
        return run.id

    def tick(self, seconds: float = 3.0) -> None:
        self.clock.pass_s(seconds)
        self.reconciler.tick()

    def watch(self, seconds: float) -> None:
        """Time passes while the server is awake."""
        for _ in range(int(seconds // 20)):
            self.tick(20)

    def status(self, run_id: str) -> str:
        return runs.show(self.plane, run_id).status

    def attempt(self, run_id: str) -> Any:
        with self.plane.database.read() as connection:
            return attempts.of_run(connection, run_id)[-1]

    def begin(self, run_id: str) -> None:
        attempt = self.attempt(run_id)
        self.backend.begin(attempt.id)
        report(self.plane, attempt.id, {"stage": "running"})

    def settle(self, run_id: str) -> str:
        for _ in range(20):
            if self.status(run_id) in ("Completed", "Failed", "Canceled"):
                break
            self.tick()
        return self.status(run_id)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(f"{reconciler.__name__}.time.monotonic", clock.monotonic)
    return clock


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> Iterator[World]:
    world = World(tmp_path / "home", clock)
    yield world
    world.plane.close()


def test_from_queued_to_completed_and_cleared_away(world: World) -> None:
    run_id = world.submit()
    world.tick()
    assert world.status(run_id) == "Starting"
    world.begin(run_id)
    assert world.status(run_id) == "Running"
    attempt = world.attempt(run_id)
    world.backend.attempts[attempt.id].job.write("hello")
    world.backend.end(attempt.id)
    world.clock.pass_s(10)
    assert world.settle(run_id) == "Completed"
    world.tick()
    world.tick()
    assert world.backend.attempts == {}
    assert world.attempt(run_id).released_at is not None
    assert world.plane.logs.read(f"{run_id}/{attempt.id}", 0, 10) == b"hello"


def test_what_does_not_fit_waits_in_order_and_says_so(world: World) -> None:
    big, small, last = world.submit(resources={"cpu": 2}), world.submit(), world.submit()
    world.tick()
    assert [world.status(each) for each in (big, small, last)] == ["Starting", "Queued", "Queued"]
    told = runs.show(world.plane, last).message
    assert told == "waiting for 1 CPU on target 'local' (2 CPUs in use); 1 run before it"
    world.begin(big)
    report(world.plane, world.attempt(big).id, {"exit": {"exit_code": 0}})
    world.tick()
    assert [world.status(each) for each in (small, last)] == ["Starting", "Starting"]


def test_gpus_are_handed_out_by_name(world: World) -> None:
    both = [world.submit(resources={"cpu": 0.5, "gpu": 1}) for _ in range(3)]
    world.tick()
    launched = [world.backend.attempts[world.attempt(each).id].job for each in both[:2]]
    assert [job.env["CUDA_VISIBLE_DEVICES"] for job in launched] == ["0", "1"]
    assert world.status(both[2]) == "Queued"
    none = world.submit(resources={"cpu": 0.5})
    report(world.plane, world.attempt(both[0]).id, {"exit": {"exit_code": 0}})
    world.tick()
    assert world.backend.attempts[world.attempt(both[2]).id].job.env["CUDA_VISIBLE_DEVICES"] == "0"
    assert world.backend.attempts[world.attempt(none).id].job.env["CUDA_VISIBLE_DEVICES"] == ""


def test_a_refusal_fails_the_run_with_its_sentence(world: World) -> None:
    world.backend.refusal = "no room at the inn"
    run_id = world.submit()
    world.tick()
    run = runs.show(world.plane, run_id)
    assert (run.status, run.reason) == ("Failed", "LaunchRefused")
    assert "no room at the inn" in run.message


def test_an_outage_changes_no_run(world: World) -> None:
    running, waiting = world.submit(), world.submit(resources={"cpu": 2})
    world.tick()
    world.begin(running)
    world.backend.down = True
    for _ in range(5):
        with pytest.raises(TargetUnavailableError):
            world.tick(30)
    assert [world.status(each) for each in (running, waiting)] == ["Running", "Queued"]
    world.backend.down = False
    world.backend.end(world.attempt(running).id)
    assert world.settle(running) == "Completed"


def test_an_outage_at_launch_is_told_and_tried_again(world: World) -> None:
    run_id = world.submit()
    world.reconciler._capacity()
    world.backend.down = True
    with pytest.raises(TargetUnavailableError):
        world.tick()
    assert "the memory backend is down" in runs.show(world.plane, run_id).message
    world.backend.down = False
    world.tick()
    assert world.backend.starts == {world.attempt(run_id).id: 1}


class NoRoom(MemoryDriver):
    """Its disk is too full to start anything."""

    def submit(self, launch: Launch) -> Handle:
        raise TargetUnavailableError("no space left on device")


def test_a_target_that_cannot_start_anything_still_ends_and_clears(world: World) -> None:
    ended, canceled = world.submit(), world.submit()
    world.tick()
    world.begin(ended)
    world.begin(canceled)
    report(world.plane, world.attempt(ended).id, {"exit": {"exit_code": 0}})
    runs.cancel(world.plane, canceled)
    waiting = world.submit()
    world.reconciler._write(None)  # as the next pass would, if there were one
    world.restart(NoRoom(world.backend))
    for _ in range(5):
        with pytest.raises(TargetUnavailableError):
            world.tick(5)
    assert world.attempt(ended).released_at is not None
    assert world.attempt(canceled).cancel_sent_at is not None
    assert world.status(waiting) == "Starting"


def test_a_run_ended_when_its_command_did(world: World) -> None:
    run_id = world.submit()
    world.tick()
    began = world.clock.now() + timedelta(seconds=1)
    ended = began + timedelta(seconds=3)
    world.clock.pass_s(3600)
    exit = {"exit_code": 0, "started_at": began.timestamp(), "ended_at": ended.timestamp()}
    report(world.plane, world.attempt(run_id).id, {"exit": exit})
    run = runs.show(world.plane, run_id)
    assert (run.started_at, run.ended_at) == (began, ended)


def test_a_clock_that_is_wrong_makes_no_end_in_the_future(world: World) -> None:
    run_id = world.submit()
    world.tick()
    exit = {"exit_code": 0, "started_at": 1.0, "ended_at": 4e9}
    report(world.plane, world.attempt(run_id).id, {"exit": exit})
    run = runs.show(world.plane, run_id)
    assert (run.started_at, run.ended_at) == (run.submitted_at, world.clock.now())


def test_an_attempt_that_ended_before_its_handle_was_noted_is_cleared_away(world: World) -> None:
    run_id = world.submit()
    world.tick()
    attempt = world.attempt(run_id)
    with world.plane.write() as connection:  # as if the server had been killed at that moment
        attempts.change(connection, attempt.id, {"handle": None})
    world.backend.end(attempt.id)
    report(world.plane, attempt.id, {"exit": {"exit_code": 0}})
    world.restart()
    for _ in range(3):
        world.tick()
    assert world.backend.attempts == {}
    assert world.backend.starts == {attempt.id: 1}
    assert world.attempt(run_id).released_at is not None


def test_a_submission_wakes_the_loop_unless_others_wait_before_it(world: World) -> None:
    world.plane.hint_queued = lambda _target: world.reconciler.hint_queued()

    def woken() -> bool:
        was = world.reconciler._wake.rung
        world.reconciler._wake.hush()
        return was

    running = world.submit(resources={"cpu": 2})
    assert woken()
    world.tick()
    world.submit()
    assert woken()
    world.tick()  # which finds no room for it
    world.submit()
    assert not woken()
    report(world.plane, world.attempt(running).id, {"exit": {"exit_code": 0}})
    world.tick()
    world.submit()
    assert woken()


def test_silence_is_not_an_end(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    for _ in range(5):
        world.tick(30)
    assert world.status(run_id) == "NotResponding"
    report(world.plane, world.attempt(run_id).id, {"stage": "running"})
    assert world.status(run_id) == "Running"


def test_a_server_that_was_away_does_not_count_its_own_absence(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    world.clock.pass_s(3600)
    world.restart()
    world.reconciler.tick()
    assert world.status(run_id) == "Running"


def test_what_vanished_fails_only_after_the_grace(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    world.backend.lose(world.attempt(run_id).id)
    world.tick(10)
    assert world.status(run_id) == "Running"
    world.tick(10)
    world.tick(10)
    run = runs.show(world.plane, run_id)
    assert (run.status, run.reason) == ("Failed", "RunnerLost")


def test_cancel_asks_then_insists(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    attempt = world.attempt(run_id)
    world.backend.stubborn.add(attempt.id)
    runs.cancel(world.plane, run_id)
    world.tick()
    assert world.status(run_id) == "CancelRequested"
    assert world.attempt(run_id).cancel_sent_at is not None
    world.tick(20)
    assert world.attempt(run_id).force_sent_at is not None
    assert world.settle(run_id) == "Canceled"


def test_a_late_cancel_does_not_undo_a_success(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    world.backend.end(world.attempt(run_id).id, ExitRecord(exit_code=0))
    runs.cancel(world.plane, run_id)
    assert world.settle(run_id) == "Completed"


def test_only_the_holder_of_the_lease_acts(world: World) -> None:
    with world.plane.write() as connection:
        leases.claim(connection, "target:local", "another", world.clock.now(), 60)
    run_id = world.submit()
    world.tick()
    assert world.status(run_id) == "Queued"
    world.tick(61)
    assert world.status(run_id) == "Starting"


def test_a_client_that_falls_silent_is_waited_for_a_week(world: World) -> None:
    run = start_interactive(world.plane, "w", {"experiment": "nb"}, "me")
    world.watch(300)
    assert world.status(run.id) == "Running"
    world.watch(600)
    assert world.status(run.id) == "NotResponding"
    heartbeat(world.plane, run.id)
    assert world.status(run.id) == "Running"
    world.tick(8 * 86400)  # the server was away, and could hear nobody
    assert world.status(run.id) == "Running"
    world.watch(700)
    shown = runs.show(world.plane, run.id)
    assert (shown.status, shown.reason) == ("Failed", "ClientLost")


def test_a_suspended_server_does_not_count_its_own_absence(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    world.tick(90)
    world.tick(2)
    assert world.status(run_id) == "Running"
    world.watch(80)
    assert world.status(run_id) == "NotResponding"


JUMPS = [timedelta(hours=1), timedelta(hours=-1), timedelta(days=400), timedelta(days=-400)]


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_ends_nothing(world: World, jump: timedelta) -> None:
    lost, asked, beaten = (world.submit(resources={"cpu": 0.5}) for _ in range(3))
    world.tick()
    world.tick()
    for run_id in (lost, asked, beaten):
        world.begin(run_id)
    world.backend.lose(world.attempt(lost).id)
    world.backend.stubborn.add(world.attempt(asked).id)
    runs.cancel(world.plane, asked)
    world.tick(9)  # from here on the one is gone, the other asked to end
    world.clock.set_by = jump
    for _ in range(4):
        world.tick(2)
        report(world.plane, world.attempt(beaten).id, {"stage": "running"})
    assert world.status(beaten) == "Running"
    assert world.status(asked) == "CancelRequested"
    assert world.attempt(asked).force_sent_at is None
    assert world.status(lost) == "Running", "its grace is not over"


@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_set_delays_nothing(world: World, jump: timedelta) -> None:
    lost, silent = world.submit(), world.submit()
    world.tick()
    for run_id in (lost, silent):
        world.begin(run_id)
    world.tick(9)
    world.clock.set_by = jump
    world.backend.lose(world.attempt(lost).id)
    for _ in range(3):
        world.tick(9)
    assert world.status(lost) == "Failed"
    for _ in range(5):
        world.tick(9)
    assert world.attempt(lost).released_at is not None
    world.watch(80)
    assert world.status(silent) == "NotResponding"


def test_what_ended_before_the_clock_was_put_back_is_cleared_away(world: World) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    report(world.plane, world.attempt(run_id).id, {"exit": {"exit_code": 0}})
    world.backend.end(world.attempt(run_id).id)
    world.clock.set_by = timedelta(hours=-1)
    world.tick()
    world.tick()
    assert world.attempt(run_id).released_at is not None


def test_what_reported_while_it_was_looked_at_is_not_rescued(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    attempt = world.attempt(run_id)
    world.backend.end(attempt.id)
    stale = world.attempt(run_id)
    record = {"exit_code": 0, "warnings": ["'outputs/a' is not kept: too large"]}
    report(world.plane, attempt.id, {"exit": record})
    monkeypatch.setattr(
        world.reconciler._watching, "_rescue", lambda _attempt: pytest.fail("rescued")
    )
    world.reconciler._watching._settle(stale, Observation(Phase.EXITED, ExitRecord(exit_code=0)))
    assert world.attempt(run_id).exit["warnings"] == record["warnings"]
    assert runs.show(world.plane, run_id).message == "'outputs/a' is not kept: too large"


@pytest.mark.parametrize(
    "fields",
    [
        {"started_at": 1e300},
        {"started_at": "soon", "signal": "x", "exit_code": 1e400},
        {"error": {"exception": "\ud800\0", "file": "a"}},
        {"error": "text"},
        {"exit_code": 10**30, "setup_error": ["\ud800"]},
    ],
)
def test_an_odd_exit_record_ends_its_run_and_harms_no_other(
    world: World, fields: dict[str, Any]
) -> None:
    odd, good = world.submit(), world.submit()
    world.tick()
    for each in (odd, good):
        world.begin(each)
    world.backend.end(world.attempt(odd).id, ExitRecord(**fields))
    world.backend.end(world.attempt(good).id)
    assert world.settle(good) == "Completed"
    assert world.settle(odd) == "Failed"
    assert {run.id for run in runs.page(world.plane, "w", Filter(), 10, None).items} == {odd, good}


def test_what_one_attempt_meets_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad, good = world.submit(), world.submit()
    world.tick()
    for each in (bad, good):
        world.begin(each)
        world.backend.end(world.attempt(each).id)
    read_log = MemoryDriver.read_log

    def broken(driver: MemoryDriver, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        if world.attempt(bad).id in handle:
            raise ValueError("a torn log")
        return read_log(driver, handle, offset, limit)

    monkeypatch.setattr(MemoryDriver, "read_log", broken)
    assert world.settle(good) == "Completed"


def test_a_log_without_an_end_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as a machine sends that has gone mad, or been taken."""
    endless, good = world.submit(), world.submit()
    world.tick()
    for each in (endless, good):
        world.begin(each)
        world.backend.end(world.attempt(each).id)
    read_log, asked = MemoryDriver.read_log, []

    def flood(driver: MemoryDriver, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        if world.attempt(endless).id not in handle:
            return read_log(driver, handle, offset, limit)
        asked.append(offset)
        assert len(asked) < 10_000, "it is read for ever"
        return b"x"

    monkeypatch.setattr(MemoryDriver, "read_log", flood)
    assert world.settle(good) == "Completed"
    assert world.status(endless) == "Running"


def test_a_long_log_is_fetched_in_several_looks(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_PIECE", 1000)
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    attempt = world.attempt(run_id)
    world.backend.attempts[attempt.id].job.write("x" * 150_000)
    world.backend.end(attempt.id)
    world.clock.pass_s(10)
    assert world.settle(run_id) == "Completed"
    assert world.plane.logs.size(f"{run_id}/{attempt.id}") == 150_000


def test_a_queued_run_is_canceled_though_its_target_is_down(world: World) -> None:
    run_id = world.submit()
    world.backend.down = True
    assert runs.cancel(world.plane, run_id).status == "Canceled"


def test_cancel_takes_open_children_along(world: World) -> None:
    parent = start_interactive(world.plane, "w", {"experiment": "nb"}, "me").id
    fields = {"experiment": "nb", "parent_id": parent}
    child = start_interactive(world.plane, "w", fields, "me").id
    grandchild = start_interactive(world.plane, "w", {**fields, "parent_id": child}, "me").id
    queued = world.submit(parent_id=parent)
    assert runs.cancel(world.plane, parent).status == "Canceled"
    assert {world.status(each) for each in (child, grandchild, queued)} == {"Canceled"}


def test_a_log_that_a_kill_left_behind_goes_with_its_attempt(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = world.submit()
    world.tick()
    world.begin(run_id)
    attempt = world.attempt(run_id)
    world.backend.attempts[attempt.id].job.write("hello")
    world.backend.end(attempt.id)
    world.settle(run_id)
    with monkeypatch.context() as killed:
        killed.setattr(world.plane.logs, "remove", lambda _key: None)
        runs.remove(world.plane, run_id)
    world.tick()
    world.tick()
    assert world.plane.logs.size(f"{run_id}/{attempt.id}") == 0


def test_two_homes_do_not_share_a_database(world: World) -> None:
    with world.plane.write() as connection:
        leases.claim(connection, "target:local", "host:/other/home", world.clock.now(), 60)
    with pytest.raises(WherryError, match="in use by the server of host:/other/home"):
        target_lease.claim_targets(world.plane)
    world.clock.pass_s(61)
    target_lease.claim_targets(world.plane)


def test_a_home_with_a_long_name_can_hold_a_lease(world: World) -> None:
    world.plane.settings.database_url = "postgresql://x/y"
    world.plane.settings.home = "/" + "h" * 200
    assert len(world.plane.owner) == 64
    first = world.plane.owner
    world.plane.settings.home += "x"
    assert world.plane.owner != first


def test_an_attempt_that_is_over_does_not_move_its_run(world: World) -> None:
    run_id = world.submit()
    world.tick()
    first = world.attempt(run_id)
    report(world.plane, first.id, {"stage": "preparing"})
    over = {"exit": {"lost": True, "unstarted": True}}
    report(world.plane, first.id, over)
    assert world.status(run_id) == "Queued"
    world.tick()
    second = world.attempt(run_id)
    assert second.number == 2
    world.begin(run_id)
    for late in (over, {"stage": "preparing"}, {"exit": {"exit_code": 1}}):
        report(world.plane, first.id, late)
    assert world.status(run_id) == "Running"
    report(world.plane, second.id, {"exit": {"exit_code": 0}})
    assert world.status(run_id) == "Completed"
    with world.plane.database.read() as connection:
        story = run_rows.history(connection, run_id)
    (again,) = [each for each in story if each.to_status == "Queued" and each.from_status]
    assert again.reason == "RunnerLost"
    assert "killed before the command was started" in again.message
