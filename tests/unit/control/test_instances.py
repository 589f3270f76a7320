"""Compute instances, on a site and a clock of our own: wanted, used, forgotten, gone."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.planes import TOKEN
from tests.unit.control.cluster_world import ClusterWorld, MemorySite, dies_everywhere
from tests.unit.control.crashing import Fuse
from tests.unit.control.test_reconciler import Clock, clock
from wherry.api.app import create_app
from wherry.control import computes, costs, doors, environments, instance_tokens, runs, sessions
from wherry.control.instances import Instance
from wherry.control.reconciler import Reconciler
from wherry.control.reports import report
from wherry.control.sealing import HIDDEN
from wherry.control.workers import AtOnce
from wherry.core.errors import ConflictError, NotFoundError
from wherry.core.ids import check_run_id
from wherry.core.lifecycle import ExitRecord, Phase
from wherry.core.sessions import SESSION, joined
from wherry.store import computes as rows
from wherry.store.listing import Filter

__all__ = ["clock"]

TARGET = "w/nb"


class InstanceWorld(ClusterWorld):
    """The loop is that of a compute instance; a session is played by hand."""

    def __init__(self, folder: Path, clock: Clock, **config: Any) -> None:
        self.used_at: datetime | None = None
        self._asked = config
        super().__init__(folder, clock)

    def create(self) -> None:
        self._created = True
        body = {"type": "ComputeInstance", "config": self._asked}
        computes.put(self.plane, "w", "nb", body)

    def restart(self, driver: Any = None, fuse: Fuse | None = None) -> None:
        super().restart(driver, fuse)
        instance = Instance(self.plane, TARGET, MemorySite(self, self.fuse), AtOnce())
        vars(instance)["_used_at"] = lambda _row: self.used_at or self.clock.now()
        self.plane.drivers = {**self.plane.drivers, TARGET: instance.driver}
        self.reconciler = Reconciler(self.plane, TARGET, instance.driver, instance)

    def submit(self, **fields: Any) -> str:
        return super().submit(**{"target": "nb", **fields})

    def show(self) -> dict[str, Any]:
        return computes.show(self.plane, "w", "nb")

    @property
    def state(self) -> str:
        return str(self.show()["state"])

    @property
    def session(self) -> str:
        return str(self.show()["instance"]["session_run_id"])

    def come_up(self) -> None:
        """Until JupyterLab is there."""
        for _ in range(10):
            self.tick()
            if self.session != "None" and self.status(self.session) == "Starting":
                break
        self.begin(self.session)
        told = {"session.phase": "Ready", "session.socket": "/run/j.sock"}
        runs.change(self.plane, self.session, {"tags": told})
        self.tick()

    def tick(self, seconds: float = 3.0) -> None:
        """Runners are heard of."""
        self.clock.pass_s(seconds)
        for attempt_id, attempt in list(self.backend.attempts.items()):
            if attempt.phase is Phase.RUNNING:
                report(self.plane, attempt_id, {})
        self.reconciler.tick()

    def act(self, action: str) -> None:
        computes.act(self.plane, "w", "nb", action)

    def rest(self) -> None:
        """Until what was asked for is done."""
        for _ in range(12):
            self.tick()


@pytest.fixture
def world(tmp_path: Path, clock: Clock) -> InstanceWorld:
    return InstanceWorld(tmp_path, clock)


def test_an_instance_is_created_used_stopped_and_started_again(world: InstanceWorld) -> None:
    assert world.state == "Creating"
    world.tick()
    world.tick()
    assert world.state == "SettingUp"
    world.come_up()
    assert world.state == "Running"
    assert world.show()["instance"]["url"] == "/instances/w/nb/"
    first = world.session
    world.act("stop")
    assert world.state == "Stopping"
    world.rest()
    assert (world.state, world.there, world.status(first)) == ("Stopped", {}, "Canceled")
    assert len(world.homes) == 1
    world.act("start")
    assert world.state == "Starting"
    world.come_up()
    assert (world.state, len(world.there)) == ("Running", 1)
    assert world.session != first


def test_no_list_shows_a_session(world: InstanceWorld) -> None:
    world.come_up()
    assert runs.page(world.plane, "w", Filter(), 10, None).items == []
    assert computes.active_runs(world.plane, "w", "nb", 10, None).items == []
    [shown] = runs.page(world.plane, "w", Filter(type=SESSION), 10, None).items
    assert shown.id == check_run_id(world.session)


def test_nobody_is_shown_what_a_session_was_told(world: InstanceWorld) -> None:
    """Tokens that live on when the one who has read them is gone."""
    world.come_up()
    with world.plane.database.read() as connection:
        row = rows.find(connection, TARGET)
    assert row is not None
    mine = instance_tokens.make(world.plane, row)
    with TestClient(create_app(world.plane, reconcile=False)) as client:
        for token in (TOKEN, mine):
            headers = {"Authorization": f"Bearer {token}"}
            reply = client.get(f"/api/v1/runs/{world.session}", headers=headers)
            assert reply.json()["spec"]["environment_variables"] == {"WHERRY_SESSION": HIDDEN}
            assert mine not in reply.text


def test_a_session_counts_neither_as_a_run_nor_as_work_of_the_node(world: InstanceWorld) -> None:
    world.come_up()
    record = world.show()
    (node,) = record["nodes"]
    assert (node["state"], node["run_id"], record["active"]) == ("idle", None, 0)
    assert record["free"]["cpu"] == node["cpu"] == 2
    run_id = world.submit(resources={"cpu": 1})
    world.tick()
    record = world.show()
    (node,) = record["nodes"]
    assert (node["state"], node["run_id"], record["active"]) == ("running", run_id, 1)
    assert record["free"]["cpu"] == 1


def test_what_a_session_costs_is_on_its_instance_alone(world: InstanceWorld) -> None:
    world.come_up()
    run_id = world.submit(resources={"cpu": 1})
    world.tick()
    world.tick()
    assert [each["run_id"] for each in costs.every(world.plane, "w", "run")] == [run_id]
    world.act("stop")
    world.backend.end(world.attempt(run_id).id, ExitRecord(exit_code=0))
    world.rest()
    assert [each["run_id"] for each in costs.every(world.plane, "w", "run")] == [run_id]
    [whole] = costs.every(world.plane, "w", "target")
    assert whole["target"] == "nb"


def test_runs_share_the_node_with_the_session(world: InstanceWorld) -> None:
    world.come_up()
    made = [world.submit(resources={"cpu": 1}) for _ in range(3)]
    world.tick()
    assert [world.status(each) for each in made] == ["Starting", "Starting", "Queued"]
    world.begin(made[0])
    assert world.state == "JobRunning"
    assert world.status(world.session) == "Running"
    assert len(world.there) == 1


def test_a_run_waits_for_an_instance_that_is_stopped_and_says_so(world: InstanceWorld) -> None:
    world.come_up()
    world.act("stop")
    world.rest()
    run_id = world.submit()
    world.tick()
    told = runs.show(world.plane, run_id).message
    assert told == "compute instance 'nb' is Stopped: wherry compute start nb"
    world.act("start")
    world.come_up()
    world.tick()
    assert world.status(run_id) == "Starting"


def test_a_restart_gives_another_node_and_keeps_the_home(world: InstanceWorld) -> None:
    world.come_up()
    [before] = world.there
    world.act("restart")
    assert world.state == "Restarting"
    world.rest()
    world.come_up()
    [after] = world.there
    assert after != before
    assert (world.state, len(world.homes)) == ("Running", 1)


def test_a_session_that_does_not_come_up_is_tried_three_times(world: InstanceWorld) -> None:
    tried = set()
    for _ in range(60):
        world.tick(20)
        session = world.session
        tried.add(session)
        if session != "None" and world.status(session) == "Starting":
            world.begin(session)
            world.backend.end(world.attempt(session).id, ExitRecord(exit_code=3))
    assert len(tried - {"None"}) == 3
    assert world.state == "SetupFailed"
    [error] = world.show()["instance"]["errors"]
    assert error["code"] == "SetupFailed"
    assert "exit" in error["message"]
    world.act("start")
    world.come_up()
    assert world.state == "Running"


def test_what_a_script_has_printed_does_nothing_to_a_terminal(world: InstanceWorld) -> None:
    world.come_up()
    printed = "\x1b]0;title\x07\x1b[2J\x1b[31mno such\x1b[0m\r\n\tfilé\x08\x9b2J"
    runs.change(world.plane, world.session, {"tags": {"session.error": printed}})
    [error] = world.show()["instance"]["errors"]
    assert error["message"] == "no such\n\tfilé2J"


def die(world: InstanceWorld) -> str:
    """JupyterLab was there, and is not kept alive."""
    session = world.session
    words = "JupyterLab ended with exit code 4\nno such option"
    told = {"session.phase": "SettingUp", "session.socket": "", "session.error": words}
    runs.change(world.plane, session, {"tags": told})
    world.backend.end(world.attempt(session).id, ExitRecord(exit_code=1))
    while world.status(session) != "Failed":
        world.tick(1)
    world.tick(0.1)
    return session


def test_one_that_comes_up_and_dies_is_begun_again_after_pauses_that_grow(
    world: InstanceWorld,
) -> None:
    pauses = []
    for number in (2, 3):
        world.come_up()
        died = die(world)
        assert world.state == "Starting"
        told = world.show()["doing"]
        assert told.startswith("JupyterLab has failed and is started again in ")
        assert told.endswith(f" s (try {number} of 3)")
        while world.session == died:
            world.tick(1)
        ended_at = runs.show(world.plane, died).ended_at
        assert ended_at is not None
        begun_at = runs.show(world.plane, world.session).submitted_at
        pauses.append((begun_at - ended_at).total_seconds())
    first, second = pauses
    assert 10 <= first < 15
    assert 20 <= second < 25
    world.come_up()
    died = die(world)
    world.watch(4000)
    assert (world.state, world.session) == ("SetupFailed", died)
    words = "JupyterLab ended with exit code 4\nno such option"
    assert world.show()["instance"]["errors"] == [{"code": "SetupFailed", "message": words}]
    assert world.show()["doing"] is None


def test_a_creation_script_that_has_run_is_not_run_by_the_next_session(
    world: InstanceWorld,
) -> None:
    """JupyterLab was never there."""
    asked = []
    for created in ({}, {"session.created": "true"}, {"session.created": "true"}):
        while world.session == "None" or world.status(world.session) != "Starting":
            world.tick()
        world.begin(world.session)
        launch = world.backend.attempts[world.attempt(world.session).id].launch
        manifest = json.loads(launch.files["manifest.json"])
        asked.append(json.loads(joined(manifest["env"]))["create"])
        runs.change(world.plane, world.session, {"tags": created})
        die(world)
    assert asked == [True, True, False]


def test_one_that_lived_for_long_has_all_its_tries_again(world: InstanceWorld) -> None:
    for _ in range(4):
        world.come_up()
        world.watch(700)
        die(world)
        assert "(try 2 of 3)" in world.show()["doing"]


def test_a_machine_that_is_lost_is_no_failure_of_jupyter(world: InstanceWorld) -> None:
    for _ in range(5):
        world.come_up()
        world.backend.lose(world.attempt(world.session).id)
        world.tick(0.1)
    world.come_up()
    assert world.state == "Running"


def test_idleness_stops_it_and_use_does_not(tmp_path: Path, clock: Clock) -> None:
    world = InstanceWorld(tmp_path, clock, idle_seconds=600)
    world.come_up()
    for _ in range(100):
        world.tick(20)
    assert world.state == "Running", "it was in use all the time"
    world.used_at = clock.now()
    world.watch(580)
    assert world.state == "Running"
    world.watch(60)
    assert world.state == "Stopping"
    assert world.show()["instance"]["last_operation"]["operation_trigger"] == "IdleShutdown"
    world.rest()
    assert world.state == "Stopped"


def test_runs_on_it_keep_it(tmp_path: Path, clock: Clock) -> None:
    world = InstanceWorld(tmp_path, clock, idle_seconds=60)
    world.come_up()
    world.used_at = clock.now()
    run_id = world.submit()
    world.tick(1)
    world.begin(run_id)
    for _ in range(20):
        world.tick(20)
        runs_on = world.attempt(run_id)
        assert runs_on.ended_at is None
    assert world.state == "JobRunning"


def test_a_program_in_a_terminal_keeps_it(tmp_path: Path, clock: Clock) -> None:
    world = InstanceWorld(tmp_path, clock, idle_seconds=60)
    world.come_up()
    world.used_at = clock.now()
    runs.change(world.plane, world.session, {"tags": {"session.terminals": "busy"}})
    world.watch(400)
    assert world.state == "Running"
    runs.change(world.plane, world.session, {"tags": {"session.terminals": ""}})
    world.watch(100)
    assert world.state in ("Stopping", "Stopped")


def test_what_cannot_be_asked_is_not_stopped(tmp_path: Path, clock: Clock) -> None:
    world = InstanceWorld(tmp_path, clock, idle_seconds=60)
    world.come_up()
    world.plane.drivers = {"local": world.driver}  # the door does not open
    instance = Instance(world.plane, TARGET, MemorySite(world, world.fuse), AtOnce())
    world.reconciler = Reconciler(world.plane, TARGET, instance.driver, instance)
    world.watch(400)
    assert world.state == "Running"


def test_schedules_stop_it_in_the_evening_and_start_it_in_the_morning(
    tmp_path: Path, clock: Clock
) -> None:
    daily = {"type": "cron", "start_time": "2025-01-01T00:00:00"}
    schedules = [
        {"action": "stop", "trigger": {**daily, "expression": "0 18 * * *"}},
        {"action": "start", "trigger": {**daily, "expression": "0 8 * * *"}},
    ]
    world = InstanceWorld(tmp_path, clock, schedules=schedules)
    world.come_up()
    assert world.show()["instance"]["next_schedule"]["action"] == "start"
    clock.pass_s(10 * 3600)
    world.tick()
    assert world.state == "Running", "what is started already stays"
    clock.pass_s(8.5 * 3600)
    world.rest()
    assert world.state == "Stopped"
    assert world.show()["instance"]["last_operation"]["operation_trigger"] == "Schedule"
    clock.pass_s(timedelta(days=3).total_seconds())  # the server was away; the last one counts
    world.rest()
    assert world.state == "Stopped"
    clock.pass_s(14 * 3600)
    world.tick()
    assert world.state in ("Starting", "Creating")


def test_new_schedules_are_not_due_for_what_is_past(world: InstanceWorld, clock: Clock) -> None:
    world.come_up()
    clock.pass_s(20 * 3600)
    trigger = {"type": "cron", "expression": "0 18 * * *", "start_time": "2025-01-01T00:00:00"}
    config = {"schedules": [{"action": "stop", "trigger": trigger}]}
    computes.change(world.plane, "w", "nb", {"config": config})
    world.tick()
    assert world.state == "Running"


def test_who_asks_for_the_door_of_one_that_is_stopped_is_told(world: InstanceWorld) -> None:
    world.come_up()
    world.act("stop")
    world.rest()
    with pytest.raises(ConflictError, match="compute instance 'nb' is Stopped") as refused:
        doors.door(world.plane, "w", "nb")
    assert refused.value.hint == "wherry compute start nb"


def delete(world: InstanceWorld) -> None:
    with suppress(NotFoundError):
        computes.remove(world.plane, "w", "nb", cancel=True)
    world.rest()
    with suppress(NotFoundError):
        computes.remove(world.plane, "w", "nb", cancel=True)


def made_again(world: InstanceWorld) -> None:
    world.create()
    world.restart()


def test_whenever_the_server_dies_a_deleted_instance_leaves_nothing(
    tmp_path: Path, clock: Clock
) -> None:
    world = InstanceWorld(tmp_path, clock)

    def gone() -> None:
        assert (world.there, world.homes, world.backend.attempts) == ({}, set(), {})
        assert computes.finish_removal(world.plane, TARGET)
        with world.plane.database.read() as connection:
            assert rows.sessions(connection, TARGET) == []

    dies_everywhere(
        world,
        lambda: delete(world),
        gone,
        begin=world.come_up,
        again=lambda: made_again(world),
        least=20,
    )


def test_whenever_the_server_dies_an_instance_comes_up_with_one_session(
    tmp_path: Path, clock: Clock
) -> None:
    world = InstanceWorld(tmp_path, clock)

    def up() -> None:
        assert world.state == "Running"
        assert (len(world.there), len(world.homes)) == (1, 1)
        assert set(world.backend.starts.values()) == {1}
        working = [each for each in world.backend.attempts.values() if each.exit is None]
        assert len(working) == 1
        delete(world)

    dies_everywhere(world, world.come_up, up, again=lambda: made_again(world), least=10)


def test_an_environment_that_there_is_not_is_refused(world: InstanceWorld) -> None:
    body = {"type": "ComputeInstance", "config": {"environments": ["Wherry-sklearn", "nosuch"]}}
    with pytest.raises(NotFoundError, match="workspace 'w' has no environment 'nosuch'"):
        computes.put(world.plane, "w", "other", body)
    assert [each["name"] for each in computes.every(world.plane, "w")] == ["local", "nb"]
    changed = {"config": {"environments": ["Wherry-sklearn:99"]}}
    with pytest.raises(NotFoundError, match="environment 'Wherry-sklearn' has no version '99'"):
        computes.change(world.plane, "w", "nb", changed)


def test_one_that_is_gone_later_is_told_and_keeps_nobody_from_jupyter(
    world: InstanceWorld,
) -> None:
    spec = {"python": {"user_managed": True, "interpreter": "/usr/bin/python3"}}
    environments.register(world.plane, "w", {"name": "mine", "specification": spec}, "me")
    environments.label(world.plane, "w", "mine", "stable", "1")
    config = {"environments": ["mine@stable"]}
    assert computes.change(world.plane, "w", "nb", {"config": config})["instance"]["errors"] == []
    environments.unlabel(world.plane, "w", "mine", "stable")
    computes.change(world.plane, "w", "nb", {"tags": {"another": "thing"}})
    world.come_up()
    assert world.state == "Running"
    message = "environment 'mine' has no label 'stable'"
    assert world.show()["instance"]["errors"] == [
        {"code": "EnvironmentNotFound", "message": message}
    ]


def test_kernels_whose_description_is_too_long_are_left_out() -> None:
    small = {"name": "small", "version": "1", "specification": {}}
    large = {"name": "large", "version": "2", "specification": {"x": "y" * 1_000_000}}
    told: dict[str, Any] = {"kernels": [small, large], "notices": []}
    sessions._shorten(told)
    assert told == {
        "kernels": [small],
        "notices": [
            "there is no kernel for environment 'large' version 2: its description is too long"
        ],
    }
