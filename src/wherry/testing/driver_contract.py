"""The promises of every driver, as tests that look at the world and not at the driver's word."""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from wherry.control import bundle
from wherry.core.errors import LaunchRefusedError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.manifest import Manifest
from wherry.drivers.base import Driver, Handle, Launch, Rescuer

from . import programs
from .evidence import (
    ODD,
    ODD_TEXTS,
    STILL_S,
    assert_still,
    beats,
    fork,
    ids_in,
    look,
    read_whole_log,
    starts,
)

MakeDriver = Callable[[], Driver]

_SOURCE = Path(programs.__file__).read_text(encoding="utf-8")


class DriverContract:
    """Derive from this, give it a ``make_driver`` fixture, and run pytest.

        class TestMine(DriverContract):
            @pytest.fixture
            def make_driver(self, tmp_path):
                return lambda: MineDriver(tmp_path / "mine")

    Every driver that ``make_driver`` makes must reach the same backend: the next one stands for
    the server after a restart. ``world`` is a folder that the tests and the attempts both reach;
    ``python`` is an interpreter where the attempts run. The attempts are launched with the real
    runner and no server, so nothing else is needed.

    A driver without real processes says so in ``simulated``. It then gets commands that are bare
    names of ``wherry.testing.programs``, and the cases that need a machine are skipped by name.
    With ``nursery`` off, launches come without that shortcut.
    """

    simulated: str | None = None
    nursery: bool = True
    python: str = sys.executable
    patience_s: float = 60.0

    @pytest.fixture
    def make_driver(self) -> MakeDriver:
        raise NotImplementedError("a driver's test class provides the fixture make_driver")

    @pytest.fixture
    def world(self, tmp_path: Path) -> Path:
        folder = tmp_path / "world"
        folder.mkdir()
        return folder

    @pytest.fixture
    def machine(self) -> None:
        """Asked for by the cases that need real processes."""
        if self.simulated:
            pytest.skip(f"needs a real machine: {self.simulated}")

    def launch(
        self,
        program: str,
        *arguments: str,
        attempt_id: str | None = None,
        env: Mapping[str, str] | None = None,
        grace_s: float = 5.0,
        time_limit_s: float | None = None,
        server: str = "",
        launch_env: Mapping[str, str] | None = None,
    ) -> Launch:
        """One attempt of a program of ``wherry.testing.programs``, by default told to no server."""
        attempt_id = attempt_id or str(uuid4())
        real = [self.python, "-I", "-S", "-c", _SOURCE]
        manifest = Manifest(
            run_id=f"run_of_{attempt_id}",
            attempt_id=attempt_id,
            server=server,
            argv=[*([] if self.simulated else real), program, *arguments],
            env={"WHERRY_TEST_PROGRAMS": _SOURCE, **(env or {})},
            grace_s=grace_s,
            time_limit_s=time_limit_s,
        )
        return Launch(
            attempt_id=attempt_id,
            argv=bundle.command(self.python),
            env=launch_env or {},
            files={"manifest.json": json.dumps(manifest.to_dict()).encode()},
            program=bundle.files(),
            nursery=bundle.nursery(self.python) if self.nursery else (),
        )

    def rescuer(self, make_driver: MakeDriver) -> Any:
        driver = make_driver()
        if not isinstance(driver, Rescuer):
            pytest.skip("the driver is no Rescuer")
        return driver

    def finish(self, driver: Driver, handle: Handle) -> ExitRecord:
        """The exit record of an attempt that ends by itself."""
        self.until(lambda: look(driver, handle).phase in (Phase.EXITED, Phase.GONE))
        seen = look(driver, handle)
        assert seen.phase is Phase.EXITED, seen
        assert seen.exit is not None
        return seen.exit

    def until(self, holds: Callable[[], bool]) -> None:
        give_up_at = time.monotonic() + self.patience_s
        while not holds():
            assert time.monotonic() < give_up_at, "waited in vain"
            time.sleep(0.02)

    def ended(self, driver: Driver, handle: Handle) -> None:
        self.until(lambda: look(driver, handle).phase in (Phase.EXITED, Phase.GONE))

    def test_check_finds_a_node(self, make_driver: MakeDriver) -> None:
        nodes = make_driver().check().nodes
        assert nodes
        assert all(node.name and node.resources.cpu > 0 for node in nodes)
        assert all(len(node.gpus) == node.resources.gpu for node in nodes)

    def test_success(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        record = self.finish(driver, driver.submit(self.launch("leave", "0")))
        assert (record.exit_code, record.signal) == (0, None)
        assert not record.canceled

    @pytest.mark.parametrize("code", [1, 7, 255])
    def test_exit_code_is_kept(self, make_driver: MakeDriver, code: int) -> None:
        driver = make_driver()
        record = self.finish(driver, driver.submit(self.launch("leave", str(code))))
        assert record.exit_code == code

    def test_handle_is_json_text(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("leave", "0"))
        assert isinstance(handle, str)
        json.loads(handle)
        self.finish(driver, handle)

    def test_render_is_text_that_names_the_attempt(
        self, make_driver: MakeDriver, world: Path
    ) -> None:
        launch = self.launch("mark", str(world / "starts"))
        text = make_driver().render(launch)
        assert launch.attempt_id in text
        assert make_driver().render(launch) == text
        time.sleep(STILL_S)
        assert not (world / "starts").exists(), "render started the attempt"

    def test_render_shows_the_command(self, make_driver: MakeDriver, machine: None) -> None:
        text = make_driver().render(self.launch("leave", "0", launch_env={"LAUNCH_NAME": "x"}))
        assert self.python in text
        assert "LAUNCH_NAME" in text

    def test_a_refusal_leaves_nothing(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        launch = self.launch("mark", str(world / "starts"))
        with pytest.raises(LaunchRefusedError):
            make_driver().submit(replace(launch, argv=["/no/such/program"], nursery=()))
        handle = make_driver().submit(launch)
        self.finish(make_driver(), handle)
        assert starts(world) == 1

    def test_files_and_variables_of_the_launch(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        files = {f"file {number}": bytes(range(256)) * number for number in range(9)}
        tell = (
            "import os, sys; here, there = sys.argv[1:]; "
            "open(there, 'w').write(os.environ['LAUNCH_NAME']); "
            "[open(there + n, 'wb').write(open(os.path.join(here, n), 'rb').read()) "
            "for n in os.listdir(here) if n.startswith('file ')]"
        )
        launch = Launch(
            attempt_id=str(uuid4()),
            argv=[self.python, "-I", "-S", "-c", tell, "{dir}", str(world / "told ")],
            env={"LAUNCH_NAME": ODD},
            files=files,
        )
        driver = make_driver()
        self.ended(driver, driver.submit(launch))
        found = {path.name: path.read_bytes() for path in world.iterdir()}
        assert found == {
            "told ": ODD.encode(),
            **{f"told {name}": content for name, content in files.items()},
        }

    def test_an_attempt_outlives_its_caller(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        launch = self.launch("beat", str(world / "beat"))
        caller = fork(lambda: make_driver().submit(launch))
        os.waitpid(caller, 0)
        before = beats(world / "beat")
        self.until(lambda: beats(world / "beat") > before + 5)
        driver = make_driver()
        handle = driver.submit(launch)
        driver.cancel(handle, force=True)
        self.ended(driver, handle)
        assert_still(world / "beat")

    def test_submit_twice_runs_once(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        launch = self.launch("mark", str(world / "starts"), "0.3")
        handle = driver.submit(launch)
        assert driver.submit(launch) == handle
        assert make_driver().submit(launch) == handle
        self.finish(driver, handle)
        assert starts(world) == 1

    def test_concurrent_submits_run_once(self, make_driver: MakeDriver, world: Path) -> None:
        launch = self.launch("mark", str(world / "starts"), "0.3")
        handles: list[Handle] = []
        together = threading.Barrier(6)

        def submit() -> None:
            driver = make_driver()
            together.wait()
            handles.append(driver.submit(launch))

        threads = [threading.Thread(target=submit) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(handles) == 6
        assert len(set(handles)) == 1
        self.finish(make_driver(), handles[0])
        time.sleep(STILL_S)
        assert starts(world) == 1

    def test_restart_adopts(self, make_driver: MakeDriver, world: Path) -> None:
        launch = self.launch("beat", str(world / "beat"))
        handle = make_driver().submit(launch)
        self.until(lambda: beats(world / "beat") > 2)
        after = make_driver()
        assert look(after, handle).phase is Phase.RUNNING
        assert after.submit(launch) == handle
        after.cancel(handle)
        self.ended(after, handle)
        assert_still(world / "beat")

    def test_submit_after_the_end_adopts(self, make_driver: MakeDriver, world: Path) -> None:
        launch = self.launch("mark", str(world / "starts"))
        handle = make_driver().submit(launch)
        record = self.finish(make_driver(), handle)
        after = make_driver()
        assert after.submit(launch) == handle
        assert look(after, handle) == Observation(Phase.EXITED, record)
        time.sleep(STILL_S)
        assert starts(world) == 1

    def test_unknown_is_gone(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        real = driver.submit(self.launch("leave", "0"))
        stranger = Handle(real.replace(ids_in(real)[0], str(uuid4()))) if ids_in(real) else real
        odd = [Handle("{}"), Handle("not json"), Handle("[1]"), Handle('{"attempt": "../x"}')]
        handles = [*odd, *([stranger] if stranger != real else [])]
        seen = driver.observe(handles)
        assert {handle: seen[handle].phase for handle in handles} == dict.fromkeys(
            handles, Phase.GONE
        )
        for handle in handles:
            driver.cancel(handle)
            driver.cancel(handle, force=True)
            assert driver.read_log(handle, 0) == b""
            driver.release(handle)
        assert self.finish(driver, real).exit_code == 0

    def test_exited_comes_after_the_runner_has_left(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        """A runner that cannot reach its server still has things to hand over."""
        driver = make_driver()
        launch = self.launch("mark", str(world / "starts"), "0.5", server="http://127.0.0.1:9")
        handle = driver.submit(launch)
        self.until(lambda: starts(world) == 1)
        until = time.monotonic() + 2
        while time.monotonic() < until:
            assert look(driver, handle).phase is Phase.RUNNING
            time.sleep(0.05)
        driver.cancel(handle)
        record = self.finish(driver, handle)
        assert (record.exit_code, record.canceled) == (0, False)

    def test_observing_nothing_is_nothing(self, make_driver: MakeDriver) -> None:
        assert make_driver().observe([]) == {}

    def test_an_end_stays_an_end(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("leave", "3"))
        record = self.finish(driver, handle)
        driver.cancel(handle)
        driver.cancel(handle, force=True)
        for _ in range(3):
            assert look(make_driver(), handle) == Observation(Phase.EXITED, record)

    def test_cancel_ends_it_and_repeats_quietly(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat", str(world / "beat")))
        self.until(lambda: beats(world / "beat") > 2)
        for _ in range(3):
            driver.cancel(handle)
        self.ended(driver, handle)
        assert_still(world / "beat")
        seen = look(driver, handle)
        assert seen.phase is Phase.GONE or (seen.exit is not None and seen.exit.canceled)
        driver.cancel(handle)
        assert look(driver, handle) == seen

    def test_only_the_named_one_is_ended(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        paths = [world / name for name in ("stays", "asked", "forced", "released")]
        handles = [driver.submit(self.launch("beat", str(path))) for path in paths]
        self.until(lambda: all(beats(path) > 2 for path in paths))
        driver.cancel(handles[1])
        driver.cancel(handles[2], force=True)
        driver.release(handles[3])
        for handle in handles[1:]:
            self.ended(driver, handle)
        before = beats(paths[0])
        self.until(lambda: beats(paths[0]) > before + 5)
        assert look(driver, handles[0]).phase is Phase.RUNNING
        driver.cancel(handles[0], force=True)
        self.ended(driver, handles[0])

    def test_cancel_at_once_ends_it(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat", str(world / "beat")))
        driver.cancel(handle)
        self.ended(driver, handle)
        assert_still(world / "beat")

    def test_cancel_reaches_the_whole_tree(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        paths = [world / "beat", world / "beat.child", world / "beat.runaway"]
        handle = driver.submit(self.launch("family", str(world / "beat")))
        self.until(lambda: all(beats(path) > 2 for path in paths))
        driver.cancel(handle)
        self.ended(driver, handle)
        assert_still(*paths)

    def test_force_reaches_the_whole_tree(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        paths = [world / "beat", world / "beat.child", world / "beat.runaway"]
        handle = driver.submit(self.launch("family", str(world / "beat")))
        self.until(lambda: all(beats(path) > 2 for path in paths))
        driver.cancel(handle, force=True)
        self.ended(driver, handle)
        assert_still(*paths)

    def test_force_ends_a_stubborn_one(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat_stubbornly", str(world / "beat"), grace_s=3600.0))
        self.until(lambda: beats(world / "beat") > 2)
        began = time.monotonic()
        driver.cancel(handle)
        assert time.monotonic() - began < self.patience_s, "cancel waited for the end"
        before = beats(world / "beat")
        self.until(lambda: beats(world / "beat") > before + 5)
        driver.cancel(handle, force=True)
        self.ended(driver, handle)
        assert_still(world / "beat")
        seen = look(driver, handle)
        assert seen.phase is Phase.GONE or (seen.exit is not None and seen.exit.canceled)
        driver.cancel(handle, force=True)

    def test_the_grace_ends_a_stubborn_one(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat_stubbornly", str(world / "beat"), grace_s=0.5))
        self.until(lambda: beats(world / "beat") > 2)
        driver.cancel(handle)
        self.ended(driver, handle)
        assert_still(world / "beat")

    def test_nothing_outlives_the_command(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("deserter", str(world / "beat"), grace_s=0.5))
        assert self.finish(driver, handle).exit_code == 0
        assert beats(world / "beat") > 0
        assert_still(world / "beat")

    def test_a_lost_runner_is_no_success(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("parricide", str(world / "beat")))
        phases: set[Phase] = set()

        def gone() -> bool:
            phases.add(look(driver, handle).phase)
            return Phase.GONE in phases

        self.until(gone)
        assert Phase.EXITED not in phases
        assert_still(world / "beat")

    def test_force_ends_what_a_lost_runner_left(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("orphan", str(world / "beat")))
        self.until(lambda: beats(world / "beat") > 10)
        assert look(driver, handle).phase is Phase.RUNNING
        driver.cancel(handle, force=True)
        self.ended(driver, handle)
        assert_still(world / "beat")

    def test_a_rescue_watches_what_a_lost_runner_left(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = self.rescuer(make_driver)
        launch = self.launch("orphan", str(world / "beat"))
        handle = driver.submit(launch)
        self.until(lambda: beats(world / "beat") > 10)
        assert driver.rescue(launch)
        assert driver.rescue(launch)  # one is at it
        assert look(driver, handle).phase is Phase.RUNNING
        driver.cancel(handle)
        record = self.finish(driver, handle)
        assert (record.canceled, record.lost) == (True, True)
        assert_still(world / "beat")

    def test_a_rescue_executes_nothing_and_has_an_end(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = self.rescuer(make_driver)
        launch = self.launch("mark", str(world / "starts"))
        handle = driver.submit(launch)
        first = self.finish(driver, handle)
        rescues = 0
        while driver.rescue(launch):
            rescues += 1
            assert rescues < 100, "it is rescued for ever"
            assert self.finish(driver, handle) == first
        assert rescues > 0
        assert starts(world) == 1
        driver.release(handle)
        assert not driver.rescue(launch)

    def test_the_time_limit_ends_it(
        self, make_driver: MakeDriver, world: Path, machine: None
    ) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat", str(world / "beat"), time_limit_s=1.0))
        record = self.finish(driver, handle)
        assert record.timed_out
        assert not record.canceled
        assert_still(world / "beat")

    def test_arguments_arrive_as_they_are(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        told = world / "told"
        self.finish(driver, driver.submit(self.launch("describe", str(told), *ODD_TEXTS)))
        assert json.loads(told.read_text())["argv"] == ODD_TEXTS

    def test_environment_arrives_as_it_is(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        told = world / "told"
        env = {f"ODD_{number}": text for number, text in enumerate(ODD_TEXTS)}
        self.finish(driver, driver.submit(self.launch("describe", str(told), env=env)))
        found = json.loads(told.read_text())["env"]
        assert {name: found.get(name) for name in env} == env

    def test_odd_characters_in_paths(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        folder = world / ODD
        folder.mkdir()
        self.finish(driver, driver.submit(self.launch("mark", str(folder / "starts"))))
        assert starts(folder) == 1

    def test_log_from_any_offset(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        text = "first line\nsecond line, é\nno end"
        handle = driver.submit(self.launch("say", text))
        self.finish(driver, handle)
        data = text.encode()
        assert driver.read_log(handle, 0) == data
        assert driver.read_log(handle, 6) == data[6:]
        assert driver.read_log(handle, 6, 4) == data[6:10]
        assert driver.read_log(handle, len(data)) == b""
        assert driver.read_log(handle, len(data) + 100) == b""

    def test_log_grows_while_it_runs(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("linger", "no end"))
        self.until(lambda: make_driver().read_log(handle, 0) == b"no end")
        assert look(driver, handle).phase is Phase.RUNNING
        driver.cancel(handle)
        self.ended(driver, handle)

    def test_log_has_both_outputs_in_order(self, make_driver: MakeDriver, machine: None) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("alternate", "500"))
        self.finish(driver, handle)
        assert driver.read_log(handle, 0) == "".join(f"{n}\n" for n in range(500)).encode()

    def test_log_is_bytes(self, make_driver: MakeDriver, machine: None) -> None:
        driver = make_driver()
        data = bytes(range(256)) + b"\r\n\r\xff\n\xc3"
        handle = driver.submit(self.launch("emit", data.hex()))
        self.finish(driver, handle)
        assert driver.read_log(handle, 0) == data

    def test_big_log(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        size = 10_000_000
        handle = driver.submit(self.launch("flood", str(size)))
        self.finish(driver, handle)
        found = read_whole_log(driver, handle)
        assert len(found) == size
        lines = found.splitlines()
        assert all(line == b"line %d of a long story" % at for at, line in enumerate(lines[:-1]))

    def test_release_forgets(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("say", "something"))
        self.finish(driver, handle)
        driver.release(handle)
        for again in (driver, make_driver()):
            assert look(again, handle).phase is Phase.GONE
            assert again.read_log(handle, 0) == b""
            again.release(handle)
            again.cancel(handle, force=True)

    def test_release_ends_what_still_runs(self, make_driver: MakeDriver, world: Path) -> None:
        driver = make_driver()
        handle = driver.submit(self.launch("beat", str(world / "beat")))
        self.until(lambda: beats(world / "beat") > 2)
        driver.release(handle)
        assert look(driver, handle).phase is Phase.GONE
        assert_still(world / "beat", settle_s=0.2)

    def test_fifty_in_one_look(self, make_driver: MakeDriver) -> None:
        driver = make_driver()
        codes = {driver.submit(self.launch("leave", str(n % 7))): n % 7 for n in range(50)}
        assert len(codes) == 50

        def all_ended() -> bool:
            seen = driver.observe(list(codes))
            return all(each.phase is Phase.EXITED for each in seen.values())

        self.until(all_ended)
        seen = make_driver().observe(list(codes))
        found = {handle: each.exit.exit_code for handle, each in seen.items() if each.exit}
        assert found == codes
