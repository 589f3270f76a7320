"""Runs that name container instances: what becomes of them, and whose room they take."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.planes import add_snapshot, make_plane, run_fields
from tests.unit.control.test_launch import Keeping
from wherry.control import computes, sites
from wherry.control import runs as control_runs
from wherry.control.plane import Plane
from wherry.control.reconciler import Reconciler
from wherry.control.reports import report
from wherry.control.submit import plan, submit
from wherry.core.errors import NotFoundError, TargetUnavailableError, UserErrorException
from wherry.core.records import Run
from wherry.core.resources import Resources
from wherry.core.targets import BUILT_IN, CONTAINER_INSTANCE, LOCAL
from wherry.drivers.base import Health, Node
from wherry.drivers.memory import MemoryBackend
from wherry.store import attempts


class Machine(Keeping):
    """Two CPUs; ``down`` while there is no engine."""

    down = False

    def check(self) -> Health:
        if self.down:
            raise TargetUnavailableError("no container engine answers")
        return Health(nodes=(Node("here", Resources(2, 8 * 10**9)),))


class World:
    def __init__(self, folder: Path) -> None:
        self.drivers = {name: Machine(MemoryBackend()) for name in BUILT_IN}
        self.plane: Plane = make_plane(folder, self.drivers)
        self._reconcilers = {
            name: Reconciler(self.plane, name, driver) for name, driver in self.drivers.items()
        }
        self._snapshot = add_snapshot(self.plane, {"train.py": b"print(1)"})

    def fields(self, **fields: Any) -> dict[str, Any]:
        return run_fields(self._snapshot, **fields)

    def submit(self, target: str, **fields: Any) -> Run:
        return submit(self.plane, "w", self.fields(target=target, **fields), "me")[0]

    def tick(self, target: str) -> None:
        try:
            self._reconcilers[target].tick()
        except TargetUnavailableError:
            assert self.drivers[target].down

    def end(self, run: Run) -> None:
        with self.plane.database.read() as connection:
            attempt = attempts.of_run(connection, run.id)[-1]
        report(self.plane, attempt.id, {"exit": {"exit_code": 0}})

    def statuses(self, *many: Run) -> list[str]:
        return [control_runs.show(self.plane, each.id).status for each in many]

    def waits_for(self, run: Run) -> str:
        return control_runs.show(self.plane, run.id).message


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path / "home")
    yield world
    world.plane.close()


def sent(world: World) -> dict[str, Any]:
    world.tick(CONTAINER_INSTANCE)
    manifest: dict[str, Any] = json.loads(
        world.drivers[CONTAINER_INSTANCE].launched.files["manifest.json"]
    )
    return manifest


def test_a_run_that_says_nothing_gets_a_container_of_the_usual_size(world: World) -> None:
    client = {"interpreter_path": "/home/me/venv/bin/python", "implied": True}
    run = world.submit(CONTAINER_INSTANCE, environment={"python": client})
    manifest = sent(world)
    assert manifest["environment"]["docker"] == {"enabled": True, "image": "python:3.12-slim"}
    assert manifest["limits"] == {"cpu": 1.0, "memory_bytes": 4 * 10**9}
    assert manifest["argv"] == ["python3", "train.py"]
    assert run.target == CONTAINER_INSTANCE


@pytest.mark.parametrize("size", [{"cpu": 0.001}, {"memory": "4MB"}])
def test_what_no_engine_would_start_is_refused(world: World, size: dict[str, Any]) -> None:
    with pytest.raises(UserErrorException, match="a container instance cannot have") as refused:
        world.submit(CONTAINER_INSTANCE, resources=size)
    assert "at least 0.01 CPUs and 6 MiB" in str(refused.value.hint)


def test_what_its_environment_says_stays(world: World) -> None:
    image = {"enabled": False, "image": "base:1", "arguments": ["--memory=64g"]}
    python = {"conda": {"dependencies": ["python=3.11"]}}
    world.submit(
        CONTAINER_INSTANCE,
        environment={"specification": {"docker": image, "python": python}},
        resources={"cpu": 0.5, "memory_bytes": 10**9},
    )
    manifest = sent(world)
    assert manifest["environment"]["docker"] == {**image, "enabled": True}
    assert manifest["environment"]["python"]["conda"] == python["conda"]
    assert manifest["limits"] == {"cpu": 0.5, "memory_bytes": 10**9}


def test_an_interpreter_that_was_named_is_one_in_the_image(world: World) -> None:
    named = {"python": {"interpreter_path": "/opt/conda/bin/python"}}
    world.submit(CONTAINER_INSTANCE, environment=named)
    assert sent(world)["argv"] == ["/opt/conda/bin/python", "train.py"]


def test_others_are_not_touched(world: World) -> None:
    world.submit(LOCAL)
    world.tick(LOCAL)
    manifest = json.loads(world.drivers[LOCAL].launched.files["manifest.json"])
    assert (manifest["limits"], manifest["environment"]) == (None, None)


def test_a_dry_run_is_of_the_same_run(world: World) -> None:
    planned = plan(world.plane, "w", world.fields(target=CONTAINER_INSTANCE))
    assert planned["resources"] == "1 CPU, 4.0 GB of memory"


@pytest.mark.parametrize("region", ["", "eastus", "West Europe", "local"])
def test_every_region_of_azure_is_this_machine(world: World, region: str) -> None:
    assert world.submit(CONTAINER_INSTANCE, region=region).status == "Queued"


def test_another_region_is_refused(world: World) -> None:
    with pytest.raises(UserErrorException, match="there is no region 'atlantis'"):
        world.submit(CONTAINER_INSTANCE, region="atlantis")
    with pytest.raises(UserErrorException, match="but target 'local' is where it is"):
        world.submit(LOCAL, region="eastus")


def test_a_site_of_this_machine_s_engine_is_a_region(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///usual.sock")

    def site(name: str, **config: Any) -> None:
        sites.put(world.plane, name, {"kind": "container", "config": config})

    def refused(region: str, match: str) -> None:
        with pytest.raises(UserErrorException, match=match):
            world.submit(CONTAINER_INSTANCE, region=region)

    site("boxes", image="base:2", volumes=["/data:/data:ro"], engine="unix:///usual.sock")
    site("far", engine="ssh://me@node1.lab")
    sites.put(world.plane, "pool", {"kind": "ssh", "config": {"hosts": [{"address": "a"}]}})
    refused("far", "the engine of site 'far' is ssh://me@node1.lab, and container instances are")
    refused("pool", "'pool' is no engine of containers but a pool")
    refused("box", r"there is no region 'box'; did you mean 'boxes'\?")
    environment = {"specification": {"docker": {"arguments": ["--ipc=host"]}}}
    world.submit(CONTAINER_INSTANCE, region="boxes", environment=environment)
    docker = sent(world)["environment"]["docker"]
    assert docker["image"] == "base:2"
    assert docker["arguments"] == ["--volume", "/data:/data:ro", "--ipc=host"]


def test_there_is_nothing_to_look_at(world: World) -> None:
    with pytest.raises(NotFoundError, match="each run that names it gets a container"):
        computes.show(world.plane, "w", CONTAINER_INSTANCE)
    assert CONTAINER_INSTANCE not in [each["name"] for each in computes.every(world.plane, "w")]


def test_both_targets_share_the_machine_in_the_order_of_submission(world: World) -> None:
    whole: dict[str, Any] = {"resources": {"cpu": 2}}
    first, boxed, last = (
        world.submit(target, **whole) for target in (LOCAL, CONTAINER_INSTANCE, LOCAL)
    )
    for target in (LOCAL, CONTAINER_INSTANCE, LOCAL):
        world.tick(target)
    assert world.statuses(first, boxed, last) == ["Starting", "Queued", "Queued"]
    assert "(2 CPUs in use); next in line" in world.waits_for(boxed)
    assert "1 run before it" in world.waits_for(last)
    world.end(first)
    world.tick(LOCAL)
    assert world.statuses(boxed, last) == ["Queued", "Queued"]  # whose turn it is not
    world.tick(CONTAINER_INSTANCE)
    world.tick(LOCAL)
    assert world.statuses(boxed, last) == ["Starting", "Queued"]
    world.end(boxed)
    world.tick(LOCAL)
    assert world.statuses(last) == ["Starting"]


def test_nobody_waits_behind_those_who_wait_for_an_engine(world: World) -> None:
    boxed = world.submit(CONTAINER_INSTANCE, resources={"cpu": 2})
    world.drivers[CONTAINER_INSTANCE].down = True
    world.tick(CONTAINER_INSTANCE)
    assert "cannot be used: no container engine answers" in world.waits_for(boxed)
    plain = world.submit(LOCAL)
    world.tick(LOCAL)
    assert world.statuses(boxed, plain) == ["Queued", "Starting"]
    world.drivers[CONTAINER_INSTANCE].down = False
    world.end(plain)
    world.tick(CONTAINER_INSTANCE)
    assert world.statuses(boxed) == ["Starting"]


def test_a_target_at_rest_is_not_asked_about_until_it_has_work_again(world: World) -> None:
    whole: dict[str, Any] = {"resources": {"cpu": 2}}
    world.tick(CONTAINER_INSTANCE)
    assert world.plane.at_rest == {CONTAINER_INSTANCE}
    boxed = world.submit(CONTAINER_INSTANCE, **whole)
    world.tick(CONTAINER_INSTANCE)
    assert world.plane.at_rest == set()
    plain = world.submit(LOCAL, **whole)
    world.tick(LOCAL)
    assert world.statuses(boxed, plain) == ["Starting", "Queued"]
    world.end(boxed)
    world.tick(CONTAINER_INSTANCE)
    world.tick(LOCAL)
    assert world.statuses(plain) == ["Starting"]
