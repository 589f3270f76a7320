"""A run's build log is a log like any other, and what is being prepared is told."""

from __future__ import annotations

from tests.unit.control.test_reconciler import World, clock, world
from wherry.control import files, run_logs, runs
from wherry.control.reports import append_log, report
from wherry.control.run_logs import BUILD_LOG, STD_LOG

__all__ = ["clock", "world"]


def test_a_build_log_is_a_file_of_the_run_once_there_is_one(world: World) -> None:
    run_id = world.submit()
    world.tick()
    attempt = world.attempt(run_id)
    assert [each.path for each in files.every(world.plane, run_id)] == [STD_LOG]
    append_log(world.plane, run_id, attempt.id, 0, b"resolving\n", name=BUILD_LOG)
    append_log(world.plane, run_id, attempt.id, 0, b"hello\n")
    sizes = {each.path: each.size for each in files.every(world.plane, run_id)}
    assert sizes == {BUILD_LOG: 10, STD_LOG: 6}
    with world.plane.database.read() as connection:
        key = files.log_of(world.plane, connection, run_id, BUILD_LOG)
        assert files.log_names(world.plane, connection, run_id) == [BUILD_LOG, STD_LOG]
    assert world.plane.logs.read(key, 0, 100) == b"resolving\n"


def test_both_logs_go_with_the_run(world: World) -> None:
    run_id = world.submit()
    world.tick()
    attempt = world.attempt(run_id)
    for name in (BUILD_LOG, STD_LOG):
        append_log(world.plane, run_id, attempt.id, 0, b"x", name=name)
    world.backend.end(attempt.id)
    report(world.plane, attempt.id, {"exit": {"exit_code": 0}})
    runs.remove(world.plane, run_id)
    sizes = [
        world.plane.logs.size(run_logs.key(run_id, attempt.id, name))
        for name in (BUILD_LOG, STD_LOG)
    ]
    assert sizes == [0, 0]


def test_it_says_how_far_its_environment_is(world: World) -> None:
    run_id = world.submit()
    world.tick()
    attempt = world.attempt(run_id)
    report(world.plane, attempt.id, {"stage": "preparing", "message": "downloading 7 of 23"})
    assert world.status(run_id) == "Preparing"
    assert runs.show(world.plane, run_id).message == "downloading 7 of 23"
    report(world.plane, attempt.id, {"stage": "running"})
    assert runs.show(world.plane, run_id).message == "the script is running"
