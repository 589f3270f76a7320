from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wherry.control import bundle
from wherry.core.errors import LaunchRefusedError, TargetUnavailableError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.manifest import Manifest
from wherry.core.resources import Resources
from wherry.drivers import gpus, local, processes
from wherry.drivers.base import Handle, Launch, Preflight
from wherry.drivers.local import LocalDriver

PATIENCE_S = 60.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path.parent / "runner-cache"))
    return tmp_path / "nodes"


@pytest.fixture
def driver(root: Path) -> LocalDriver:
    return LocalDriver(root)


def launch(
    command: list[str],
    attempt_id: str = "a1",
    argv: list[str] | None = None,
    server: str = "",
) -> Launch:
    manifest = Manifest("r1", attempt_id, server, command, token="t0ken").to_dict()
    files = {"manifest.json": json.dumps(manifest).encode()}
    command_line = argv or bundle.command(sys.executable)
    return Launch(attempt_id, command_line, files=files, program=bundle.files())


def slow(command: list[str]) -> Launch:
    """A runner that takes its time to come up."""
    shell = 'sleep 1; exec "$0" -I -S "$1/runner.py" "$1"'
    return launch(command, argv=["/bin/sh", "-c", shell, sys.executable, "{dir}"])


def look(driver: LocalDriver, handle: Handle) -> Observation:
    return driver.observe([handle])[handle]


def until(holds: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.01)


def ended(driver: LocalDriver, handle: Handle) -> Observation:
    until(lambda: look(driver, handle).phase in (Phase.EXITED, Phase.GONE))
    return look(driver, handle)


def test_what_died_with_a_server_does_not_count_against_the_next_rescue(
    driver: LocalDriver, root: Path
) -> None:
    wanted = launch(["true"])
    handle = driver.submit(wanted)
    until(lambda: look(driver, handle).phase is Phase.EXITED)
    while driver.rescue(wanted):
        until(lambda: look(driver, handle).phase is Phase.EXITED)
    assert LocalDriver(root).rescue(wanted)
    driver.release(handle)


def test_an_attempt_is_unknown_until_it_is_asked_for(driver: LocalDriver) -> None:
    assert driver.is_unknown("a1")
    handle = driver.submit(launch(["sleep", "60"]))
    assert not driver.is_unknown("a1")
    driver.release(handle)


def test_the_phases_of_an_attempt(driver: LocalDriver, tmp_path: Path) -> None:
    handle = driver.submit(
        slow(["/bin/sh", "-c", f"until [ -e {tmp_path}/go ]; do sleep 0.01; done"])
    )
    assert look(driver, handle).phase is Phase.PENDING
    until(lambda: look(driver, handle).phase is Phase.RUNNING)
    (tmp_path / "go").touch()
    assert ended(driver, handle).phase is Phase.EXITED


@pytest.mark.parametrize("force", [False, True])
def test_cancel_before_the_runner_came_up(driver: LocalDriver, tmp_path: Path, force: bool) -> None:
    handle = driver.submit(slow(["/bin/sh", "-c", f"echo x > {tmp_path}/ran"]))
    driver.cancel(handle, force=force)
    seen = ended(driver, handle)
    assert seen.exit is not None
    assert seen.exit.canceled
    assert seen.exit.exit_code is None
    assert not (tmp_path / "ran").exists()


def test_a_runner_that_never_came_up_is_gone_and_says_why(driver: LocalDriver) -> None:
    broken = launch(["/bin/true"], argv=["/bin/sh", "-c", "echo no such library >&2; exit 3"])
    handle = driver.submit(broken)
    assert ended(driver, handle) == Observation(Phase.GONE, detail="no such library")


def test_an_orphaned_command_still_runs(driver: LocalDriver, root: Path, tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/pid; until [ -e {tmp_path}/go ]; do sleep 0.01; done"
    handle = driver.submit(launch(["/bin/sh", "-c", script]))
    until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    os.kill(json.loads((root / "a1/started").read_text())["pid"], signal.SIGKILL)
    until(lambda: look(driver, handle).detail == "its runner is gone")
    assert look(driver, handle).phase is Phase.RUNNING
    (tmp_path / "go").touch()
    assert ended(driver, handle).phase is Phase.GONE


def test_an_orphaned_command_can_be_canceled(
    driver: LocalDriver, root: Path, tmp_path: Path
) -> None:
    handle = driver.submit(launch(["/bin/sh", "-c", f"echo > {tmp_path}/on; exec sleep 600"]))
    until((tmp_path / "on").exists)
    os.kill(json.loads((root / "a1/started").read_text())["pid"], signal.SIGKILL)
    until(lambda: look(driver, handle).detail == "its runner is gone")
    driver.cancel(handle)
    assert ended(driver, handle).phase is Phase.GONE


@pytest.mark.parametrize("name", ["started", "spawned"])
@pytest.mark.parametrize("change", ["boot", "tick", "none"])
def test_another_process_with_the_same_number_is_not_the_runner(
    driver: LocalDriver, root: Path, name: str, change: str
) -> None:
    mine = processes.identity(os.getpid())
    assert mine is not None
    claimed = {"boot": f"other{mine}", "tick": f"{mine}1", "none": None}[change]
    (root / "a1").mkdir(parents=True)
    (root / "a1" / name).write_text(json.dumps({"pid": os.getpid(), "identity": claimed}))
    handle = Handle(json.dumps({"attempt": "a1"}))
    assert look(driver, handle).phase is Phase.GONE
    driver.cancel(handle)
    driver.cancel(handle, force=True)
    driver.release(handle)


def test_what_ends_between_two_looks_has_not_vanished(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a1").mkdir(parents=True)

    def leaves_just_now(folder: Path) -> None:
        (folder / "exit.json").write_text(json.dumps({"exit_code": 0}))

    monkeypatch.setattr(local, "_runner", leaves_just_now)
    seen = look(driver, Handle(json.dumps({"attempt": "a1"})))
    assert seen == Observation(Phase.EXITED, ExitRecord(exit_code=0))


def test_a_zombie_does_not_live(driver: LocalDriver) -> None:
    child = subprocess.Popen(["/bin/true"])
    until(lambda: processes.identity(child.pid) is None)
    assert processes.identity(child.pid, ended=True) is not None
    child.wait()
    assert processes.identity(child.pid, ended=True) is None


def test_no_zombie_is_left(driver: LocalDriver, root: Path) -> None:
    handles = [driver.submit(launch(["/bin/true"], f"a{number}")) for number in range(5)]
    pids = [json.loads((root / f"a{number}/spawned").read_text())["pid"] for number in range(5)]
    for handle in handles:
        ended(driver, handle)

    def gone() -> bool:
        driver.observe([])
        return all(processes.identity(pid, ended=True) is None for pid in pids)

    until(gone)  # a process whose threads are still ending cannot be waited for yet


def test_a_caller_that_died_before_the_start(driver: LocalDriver, root: Path) -> None:
    (root / "a1").mkdir(parents=True)
    (root / "a1/manifest.json").write_text("{")
    handle = driver.submit(launch(["/bin/true"]))
    assert ended(driver, handle).exit is not None


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "after it started"])
def test_a_caller_that_died_right_after_the_start(
    driver: LocalDriver, root: Path, tmp_path: Path, wait: bool
) -> None:
    starts = tmp_path / "starts"
    wanted = launch(["/bin/sh", "-c", f"echo x >> {starts}; sleep 0.5"])
    handle = driver.submit(wanted)
    if wait:
        until(starts.exists)
    (root / "a1/spawned").unlink()
    assert LocalDriver(root).submit(wanted) == handle
    assert ended(driver, handle).phase is Phase.EXITED
    time.sleep(0.3)
    assert starts.read_text() == "x\n"


def test_an_attempt_outlives_the_server(root: Path, tmp_path: Path) -> None:
    code = f"""\
import json, os, sys
from wherry.drivers.base import Launch
from wherry.drivers.local import LocalDriver
from tests.unit.drivers.test_local import launch
print(LocalDriver({str(root)!r}).submit(launch(["/bin/sh", "-c", "sleep 1; echo end"])), flush=True)
os.killpg(0, 9)
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        start_new_session=True,
        cwd=Path(__file__).resolve().parents[3],
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    handle = Handle(done.stdout.strip())
    after = LocalDriver(root)
    assert look(after, handle).phase in (Phase.PENDING, Phase.RUNNING)
    seen = ended(after, handle)
    assert seen.exit is not None
    assert seen.exit.exit_code == 0
    assert after.read_log(handle, 0) == b"end\n"


def test_force_does_not_touch_a_record(driver: LocalDriver, root: Path) -> None:
    handle = driver.submit(launch(["/bin/sh", "-c", "exit 5"]))
    record = ended(driver, handle).exit
    driver.cancel(handle, force=True)
    assert look(driver, handle).exit == record


def test_force_leaves_a_record_of_what_it_did(driver: LocalDriver, tmp_path: Path) -> None:
    handle = driver.submit(launch(["/bin/sh", "-c", f"echo > {tmp_path}/on; sleep 600"]))
    until((tmp_path / "on").exists)
    driver.cancel(handle, force=True)
    seen = look(driver, handle)
    assert seen.phase is Phase.EXITED
    assert seen.exit is not None
    assert seen.exit.canceled
    assert seen.exit.signal == signal.SIGKILL


def test_what_no_machine_can_start_is_refused(driver: LocalDriver, root: Path) -> None:
    for argv in (["/no/such/python", "{dir}/runner.py"], ["/etc/passwd"]):
        with pytest.raises(LaunchRefusedError, match=argv[0]):
            driver.submit(launch(["/bin/true"], argv=argv))
    assert [path.name for path in root.iterdir()] == [".lock"]
    assert ended(driver, driver.submit(launch(["/bin/true"]))).exit is not None


@pytest.mark.parametrize("attempt_id", ["", ".", "..", "../x", "a/b", ".hidden", "nul\0"])
def test_an_id_that_is_no_folder_name_is_refused(driver: LocalDriver, attempt_id: str) -> None:
    with pytest.raises(LaunchRefusedError):
        driver.submit(launch(["/bin/true"], attempt_id))


def test_a_root_that_cannot_be_written_is_an_outage(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TargetUnavailableError, match="cannot be started in"):
        LocalDriver(tmp_path / "file" / "nodes").submit(launch(["/bin/true"]))


def test_others_cannot_read_the_token(driver: LocalDriver, root: Path) -> None:
    handle = driver.submit(launch(["/bin/true"]))
    assert (root / "a1").stat().st_mode & 0o777 == 0o700
    assert (root / "a1/manifest.json").stat().st_mode & 0o777 == 0o600
    ended(driver, handle)


def test_the_servers_own_settings_stay_with_it(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_DATABASE_URL", "postgresql://user:password@host/db")
    monkeypatch.setenv("WHERRY_HOME", "/somewhere")
    monkeypatch.setenv("THEIRS", "kept")
    handle = driver.submit(launch(["/usr/bin/env"]))
    ended(driver, handle)
    lines = driver.read_log(handle, 0).decode().splitlines()
    assert not [line for line in lines if "password" in line]
    assert {"THEIRS=kept", "WHERRY_HOME=/somewhere", "WHERRY_ATTEMPT_ID=a1"} <= set(lines)


def test_release_removes_what_was_made_read_only(driver: LocalDriver, root: Path) -> None:
    script = "mkdir -p deep/er; echo x > deep/er/file; chmod -R a-w deep"
    handle = driver.submit(launch(["/bin/sh", "-c", script]))
    ended(driver, handle)
    driver.release(handle)
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_release_removes_what_is_nested_deeper_than_python_calls(
    driver: LocalDriver, root: Path
) -> None:
    nest = "import os\nfor _ in range(1500): os.mkdir('d'); os.chdir('d')"
    handle = driver.submit(launch([sys.executable, "-c", nest]))
    ended(driver, handle)
    driver.release(handle)
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_a_release_that_was_interrupted_is_finished(driver: LocalDriver, root: Path) -> None:
    handle = driver.submit(launch(["/bin/true"]))
    ended(driver, handle)
    (root / "a1").rename(root / ".released-a1")
    driver.release(handle)
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_a_disk_that_fills_right_after_the_start_does_not_undo_it(
    driver: LocalDriver, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = local._write

    def full(path: Path, content: bytes) -> None:
        write(path, b"" if path.name == "spawned" else content)
        if path.name == "spawned":
            raise OSError(errno.ENOSPC, "no space left")

    monkeypatch.setattr(local, "_write", full)
    wanted = launch(["/bin/sh", "-c", f"echo started >> {tmp_path}/starts"])
    handle = driver.submit(wanted)
    monkeypatch.setattr(local, "_write", write)
    assert driver.submit(wanted) == handle
    until(lambda: look(driver, handle).phase is Phase.EXITED)
    assert (tmp_path / "starts").read_text() == "started\n"


@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.EACCES])
def test_what_cannot_be_read_is_not_gone(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    handle = driver.submit(launch(["/bin/true"]))
    ended(driver, handle)
    unreadable = OSError(number, os.strerror(number))
    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", lambda _path: (_ for _ in ()).throw(unreadable))
        assert look(driver, handle).phase is Phase.UNKNOWN
    assert look(driver, handle).phase is Phase.EXITED


def test_a_script_that_closes_its_folder_does_not_close_it_to_us(
    driver: LocalDriver, root: Path
) -> None:
    handle = driver.submit(launch(["/bin/sh", "-c", "echo x; chmod 0 . .."]))
    assert ended(driver, handle).phase is Phase.EXITED
    (root / "a1").chmod(0)
    assert driver.read_log(handle, 0) == b"x\n"
    assert (root / "a1").stat().st_mode & 0o777 == 0o700
    (root / "a1").chmod(0)
    driver.cancel(handle, force=True)
    driver.release(handle)
    assert [path.name for path in root.iterdir()] == [".lock"]


@pytest.mark.parametrize("make", ["mkfifo", "mkdir"])
def test_what_a_script_puts_in_the_way_stops_nobody(
    driver: LocalDriver, root: Path, make: str
) -> None:
    handle = driver.submit(launch(["/bin/true"]))
    ended(driver, handle)
    for name in ("exit.json", "runner.log", "started", "std_log.txt"):
        (root / "a1" / name).unlink()
        subprocess.run([make, root / "a1" / name], check=True)
    assert look(driver, handle).phase is Phase.GONE
    assert driver.read_log(handle, 3) == b""
    driver.cancel(handle, force=True)
    driver.release(handle)
    assert [path.name for path in root.iterdir()] == [".lock"]


def test_a_root_that_cannot_be_read_is_an_outage(
    driver: LocalDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = driver.submit(launch(["/bin/true"]))
    ended(driver, handle)

    def fail(*_arguments: object) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(local, "_present", fail)
    calls: list[Callable[[], object]] = [
        lambda: driver.observe([handle]),
        lambda: driver.cancel(handle),
        lambda: driver.read_log(handle, 0),
        lambda: driver.release(handle),
    ]
    for call in calls:
        with pytest.raises(TargetUnavailableError):
            call()


def test_the_rendered_request(driver: LocalDriver, root: Path) -> None:
    wanted = Launch(
        "a1",
        ["/usr/bin/python3", "{dir}/runner.py", "it's"],
        env={"B": "2 3", "A": "1"},
        resources=Resources(2.0, 4 * 10**9, 1),
        files={"runner.py": b"", "manifest.json": b"{}"},
    )
    assert driver.render(wanted) == (
        "# attempt a1 on this machine: 2 CPUs, 4.0 GB of memory, 1 GPU\n"
        f"# files manifest.json, runner.py in {root}/a1\n"
        f"A=1 B='2 3' /usr/bin/python3 {root}/a1/runner.py 'it'\"'\"'s'\n"
    )


def test_a_run_that_could_never_start_is_refused(root: Path, tmp_path: Path) -> None:
    driver = LocalDriver(root, cpus=4, memory_bytes=8 * 10**9, gpus=0)
    assert isinstance(driver, Preflight)
    plain = tmp_path / "plain"
    plain.touch()
    one = Resources()
    assert driver.refuse(one, sys.executable) is None
    assert driver.refuse(one, "sh") is None
    assert driver.refuse(one, None) is None
    missing = "there is no interpreter /no/python on this machine"
    assert driver.refuse(one, "/no/python") == missing
    assert driver.refuse(one, str(plain)) == f"{plain} on this machine is not an executable file"
    assert driver.refuse(Resources(5.0), None) == (
        "it asks for 5 CPUs, this machine has 4 CPUs, 8.0 GB of memory"
    )
    assert driver.refuse(Resources(1.0, 9 * 10**9), None)
    assert driver.refuse(Resources(1.0, 0, 1), None)


def test_what_the_machine_has(
    driver: LocalDriver, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(gpus, "find", lambda: [gpus.Gpu(n, f"GPU-{n}", "x", 1) for n in range(3)])
    node = driver.check().nodes[0]
    assert node.gpus == ("0", "1", "2")
    assert node.resources.gpu == 3
    limited = LocalDriver(root, cpus=1.5, memory_bytes=7, gpus=2).check().nodes[0]
    assert limited.resources == Resources(1.5, 7, 2)
    assert limited.gpus == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    assert driver.check().nodes[0].gpus == ("2",)


def test_exit_records_with_unknown_fields_are_read(driver: LocalDriver, root: Path) -> None:
    (root / "a1").mkdir(parents=True)
    (root / "a1/exit.json").write_text(json.dumps({"exit_code": 4, "news": True}))
    seen = look(driver, Handle(json.dumps({"attempt": "a1"})))
    assert seen == Observation(Phase.EXITED, ExitRecord(exit_code=4))
