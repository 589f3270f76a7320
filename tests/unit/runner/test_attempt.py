"""The whole runner as a process of its own, with a server that keeps what it is sent."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import wherry
from tests.interpreters import find_python
from wherry.control import bundle
from wherry.core.manifest import Manifest
from wherry.testing.fakes import FakeServer, tar

PATIENCE_S = 180.0
VERSIONS = ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as running:
        yield running


class Attempt:
    """One attempt's folder, and its runner once it was started."""

    def __init__(self, folder: Path, server: FakeServer) -> None:
        self.folder = folder
        self.server = server
        self.python = sys.executable
        self.env = {"WHERRY_CACHE": str(folder.parent.parent / "runner-cache")}
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self, argv: list[str], files: Mapping[str, str | bytes] | None = None, **manifest: Any
    ) -> Attempt:
        self.folder.mkdir(exist_ok=True)
        if files is not None:
            self.server.add_snapshot("s1", files)
            manifest.setdefault("snapshot_id", "s1")
        fields = {"server": self.server.url, "token": "secret", "grace_s": 5.0, **manifest}
        written = Manifest(run_id="r1", attempt_id="a1", argv=argv, **fields).to_dict()
        (self.folder / "manifest.json").write_text(json.dumps(written))
        for name, content in bundle.files().items():
            (self.folder / name).write_bytes(content)
        self._process = self.spawn()
        return self

    def spawn(self, entry: str = "runner.py") -> subprocess.Popen[bytes]:
        argv = [self.python, "-I", "-S", str(self.folder / entry), str(self.folder)]
        with (self.folder / "runner.log").open("ab") as log:
            return subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **self.env},
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def finish(self) -> dict[str, Any]:
        assert self.process.wait(PATIENCE_S) == 0, self.told
        return self.record

    def end(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def record(self) -> dict[str, Any]:
        found = json.loads((self.folder / "exit.json").read_text())
        assert isinstance(found, dict)
        return found

    @property
    def log(self) -> bytes:
        return (self.folder / "std_log.txt").read_bytes()

    @property
    def told(self) -> str:
        return (self.folder / "runner.log").read_text()


@pytest.fixture
def attempt(tmp_path: Path, server: FakeServer) -> Iterator[Attempt]:
    made = Attempt(tmp_path / "a1", server)
    yield made
    made.end()


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def until(holds: Callable[[], object]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < give_up_at, "waited in vain"
        time.sleep(0.01)


def test_a_run_from_its_snapshot_to_its_end(attempt: Attempt, server: FakeServer) -> None:
    before = time.time()
    script = "import os; print('hello from', os.path.basename(os.getcwd()), flush=True)"
    attempt.start([sys.executable, "train.py"], {"train.py": script, "data/x.csv": "1"})
    record = attempt.finish()
    assert record["exit_code"] == 0
    assert before <= record["started_at"] <= record["ended_at"] <= time.time()
    assert server.log == attempt.log == b"hello from work\n"
    assert server.exits == [record]
    assert (attempt.folder / "work/data/x.csv").read_text() == "1"
    assert attempt.told == ""


def test_a_short_run_costs_few_requests_on_one_connection(
    attempt: Attempt, server: FakeServer
) -> None:
    attempt.start(["/bin/echo", "hello"], {"x": "1"}).finish()
    assert server.connections == 1
    assert len(server.exchanges) <= 4
    assert server.exits[0]["started_at"]


def test_a_snapshot_in_the_manifest_is_not_asked_for(attempt: Attempt, server: FakeServer) -> None:
    archive = b64encode(tar({"train.py": "print('here')"})).decode()
    started = attempt.start([sys.executable, "train.py"], snapshot_id="s1", snapshot=archive)
    record = started.finish()
    assert record["exit_code"] == 0
    assert server.log == b"here\n"
    assert [each.path for each in server.exchanges] == ["/api/v1/attempts/a1/report"]


@pytest.mark.parametrize("version", VERSIONS)
def test_on_every_python(
    attempt: Attempt, server: FakeServer, version: str, tmp_path: Path
) -> None:
    attempt.python = find_python(version)
    attempt.env["WHERRY_CACHE"] = str(tmp_path / "cache")
    script = """\
import os, sys, json; os.mkdir(os.environ["WHERRY_SPOOL"] + "/spool")
os.makedirs("outputs", exist_ok=True)
open("outputs/model.bin", "wb").write(b"m" * 100000)
open("outputs/small.txt", "w").write("s")
with open(os.environ["WHERRY_SPOOL"] + "/spool/metrics.1.jsonl", "w") as spool:
    spool.write(json.dumps({"n": "x", "v": 1}) + "\\n")
print("\\u00e9", sys.argv[1:])
def check(value):
    raise ValueError("bad value: %r" % value)
check(3)
"""
    argv = [attempt.python, "train.py", "a b", "$HOME"]
    record = attempt.start(argv, {"train.py": script}, env={"PYTHONIOENCODING": "utf-8"}).finish()
    error = record["error"]
    assert record["exit_code"] == 1
    assert error["exception"] == "ValueError: bad value: 3"
    assert (error["file"], error["line"]) == ("train.py", 9)
    assert error["source"] == 'raise ValueError("bad value: %r" % value)'
    assert server.log.startswith("é ['a b', '$HOME']\n".encode())
    assert server.streams == {"metrics.1": bytearray(b'{"n": "x", "v": 1}\n')}
    assert server.files == {"outputs/model.bin": b"m" * 100000, "outputs/small.txt": b"s"}
    assert server.exits == [record]
    assert attempt.told == ""


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_syntax_errors_of_every_python(attempt: Attempt, version: str) -> None:
    attempt.python = find_python(version)
    argv = [attempt.python, "train.py"]
    error = attempt.start(argv, {"train.py": "x = 1\ndef f(:\n    pass\n"}).finish()["error"]
    assert error["exception"] == "SyntaxError: invalid syntax"
    assert (error["file"], error["line"]) == ("train.py", 2)


def test_the_sdk_is_on_the_scripts_path_with_nothing_installed(attempt: Attempt) -> None:
    code = "import sys, wherry, wherry.core.errors; print(wherry.__path__[0])"
    attempt.env["WHERRY_CACHE"] = str(attempt.folder.parent / "cache")
    attempt.start([sys.executable, "-S", "-c", code]).finish()
    assert attempt.log.decode().startswith(str(attempt.folder.parent / "cache"))


def test_the_archive_alone_is_a_program_too(attempt: Attempt, server: FakeServer) -> None:
    attempt.env["WHERRY_CACHE"] = str(attempt.folder.parent / "cache")
    attempt.start(["/bin/echo", "hello"])
    attempt.finish()
    again = Attempt(attempt.folder.parent / "a2", server)
    again.env = attempt.env
    again.folder.mkdir()
    for name in ("manifest.json", "runner.pyz"):
        (again.folder / name).write_bytes((attempt.folder / name).read_bytes())
    assert again.spawn("runner.pyz").wait(PATIENCE_S) == 0
    assert again.record["exit_code"] == 0


def test_a_home_that_cannot_be_written_is_no_hindrance(attempt: Attempt) -> None:
    attempt.env["WHERRY_CACHE"] = "/dev/null/nowhere"
    attempt.start([sys.executable, "-c", "import wherry; print(wherry.__path__[0])"]).finish()
    assert attempt.log.decode().startswith(str(attempt.folder))


@pytest.mark.parametrize("harm", ["missing", "empty"])
def test_a_cache_that_lost_files_is_no_hindrance(attempt: Attempt, harm: str) -> None:
    cache = attempt.folder.parent / "cache"
    attempt.env["WHERRY_CACHE"] = str(cache)
    library = cache / f"runner-{bundle.content_hash()}"
    shutil.copytree(Path(wherry.__file__).parent, library / "wherry")
    (library / "wherry/runner/outputs.py").unlink()
    shutil.rmtree(library / "wherry/runner/__pycache__", ignore_errors=True)
    if harm == "empty":
        (library / "wherry/runner/outputs.py").touch()
    attempt.start(python("from wherry import Run; print(Run.get_context().id)")).finish()
    assert attempt.log == b"r1\n"


def test_many_runners_fill_one_cache_together(tmp_path: Path, server: FakeServer) -> None:
    cache = tmp_path / "cache"
    attempts = [Attempt(tmp_path / f"a{number}", server) for number in range(6)]
    for each in attempts:
        each.env["WHERRY_CACHE"] = str(cache)
        each.start(["/bin/echo", "hello"])
    for each in attempts:
        assert each.finish()["exit_code"] == 0
    assert [path.name for path in cache.iterdir()] == [f"runner-{bundle.content_hash()}"]


def test_a_second_runner_leaves_at_once(attempt: Attempt, server: FakeServer) -> None:
    marks = attempt.folder.parent / "marks"
    attempt.start(["/bin/sh", "-c", f"echo x >> {marks}; sleep 0.5"])
    until(marks.exists)
    assert attempt.spawn().wait(PATIENCE_S) == 0
    attempt.finish()
    assert attempt.spawn().wait(PATIENCE_S) == 0
    assert marks.read_text() == "x\n"
    assert len(server.exits) == 1


def test_nothing_is_reported_without_a_server(attempt: Attempt, server: FakeServer) -> None:
    attempt.start(["/bin/sh", "-c", "echo 1 > outputs/x; exit 4"], server="")
    assert attempt.finish()["exit_code"] == 4
    assert server.exchanges == []


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([sys.executable, "missing.py"], "the script missing.py is not in the snapshot"),
        (["/no/such/python", "train.py"], "there is no program /no/such/python on "),
        (["no-such-program"], "there is no program 'no-such-program' on the path of "),
        (["./plain.txt"], "./plain.txt may not be executed on "),
        (["./bad.sh"], "./bad.sh cannot be started: the interpreter in its first line is not here"),
    ],
)
def test_what_cannot_be_started_is_told(
    attempt: Attempt, server: FakeServer, argv: list[str], sentence: str
) -> None:
    record = attempt.start(argv, {"plain.txt": "x", "bad.sh": "#!/no/such/shell\n"}).finish()
    assert record["setup_error"].startswith(sentence)
    assert record["exit_code"] is None
    assert server.exits == [record]


@pytest.mark.parametrize(
    ("snapshot", "sentence"),
    [
        (None, "the snapshot cannot be fetched: there is no snapshots/s1/archive (404)"),
        (tar({"../evil": "x"}), "the snapshot has a path '../evil' that leaves it"),
        (b"x" * 1024, "the snapshot's archive is damaged"),
    ],
)
def test_a_snapshot_that_cannot_be_used_is_told(
    attempt: Attempt, server: FakeServer, snapshot: bytes | None, sentence: str
) -> None:
    if snapshot is not None:
        server.snapshots["s1"] = snapshot
    record = attempt.start(["/bin/true"], snapshot_id="s1").finish()
    assert record["setup_error"] == sentence
    assert server.exits == [record]


def test_a_manifest_of_another_time_is_told(attempt: Attempt) -> None:
    assert attempt.start(["/bin/true"], version=7).finish()["setup_error"] == (
        "the manifest has version 7, this runner reads 1"
    )


def test_output_is_seen_while_the_command_runs(attempt: Attempt, server: FakeServer) -> None:
    attempt.start(["/bin/sh", "-c", "echo one; sleep 600; echo two"])
    until(lambda: server.log == b"one\n")
    until(lambda: server.stages == ["running"])
    attempt.process.terminate()
    assert attempt.finish()["canceled"]


def test_output_is_kept_byte_by_byte(attempt: Attempt, server: FakeServer) -> None:
    odd = bytes(range(256)) * 3 + b"\r10%\r20%\r\nno end"
    code = f"import os; os.write(1, {odd!r}); os.write(2, b'err'); os.write(1, b'out')"
    attempt.start(python(code)).finish()
    assert server.log == odd + b"errout"


def test_a_flood_takes_little_memory(attempt: Attempt, server: FakeServer) -> None:
    size = 60_000_000
    code = f"import os\nfor _ in range({size // 100_000}): os.write(1, b'x' * 99_999 + b'\\n')"
    attempt.start(python(code))
    peak = 0
    status = Path(f"/proc/{attempt.process.pid}/status")
    while attempt.process.poll() is None:
        try:
            lines = status.read_text().splitlines()
        except OSError:
            break
        found = [int(line.split()[1]) for line in lines if line.startswith("VmHWM")]
        peak = max(peak, *found) if found else peak
        time.sleep(0.01)
    attempt.finish()
    assert len(server.log) == size
    assert peak < 50_000 or sys.platform != "linux"


def test_files_go_up_while_the_command_runs(attempt: Attempt, server: FakeServer) -> None:
    code = """\
import os, time
os.makedirs("outputs/sub")
open("outputs/early", "w").write("1"); open("logs/train.log", "w").write("log")
folder = os.environ["WHERRY_SPOOL"] + "/files/plots"
os.makedirs(folder); open(folder + "/roc.png", "w").write("png")
while not os.path.exists("go"): time.sleep(0.01)
open("outputs/sub/late", "w").write("2"); open("outputs/early", "w").write("changed")
"""
    attempt.start(python(code))
    until(lambda: len(server.files) == 3)
    (attempt.folder / "work/go").touch()
    attempt.finish()
    server.files.pop("system_logs/runner.log", None)  # a busy machine may answer late: it is told
    assert server.files == {
        "outputs/early": b"changed",
        "outputs/sub/late": b"2",
        "logs/train.log": b"log",
        "plots/roc.png": b"png",
    }


def test_what_could_not_be_kept_is_told_to_the_user(attempt: Attempt, server: FakeServer) -> None:
    attempt.start(["/bin/sh", "-c", "mkfifo outputs/fifo; echo 1 > outputs/x"])
    assert attempt.finish()["exit_code"] == 0
    told = server.files.pop("system_logs/runner.log").decode()
    assert told.endswith("'outputs/fifo' is not kept: it is not a regular file\n")
    assert server.files == {"outputs/x": b"1\n"}


def test_terminate_is_forwarded_and_means_canceled(attempt: Attempt, server: FakeServer) -> None:
    code = """\
import signal, sys, time
def leave(*_):
    print("saving", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True: time.sleep(0.1)
"""
    attempt.start(python(code))
    until(lambda: server.log == b"ready\n")
    attempt.process.terminate()
    record = attempt.finish()
    assert record["canceled"]
    assert record["exit_code"] == 0
    assert server.log == b"ready\nsaving\n"


def test_a_reply_to_a_report_may_cancel(attempt: Attempt, server: FakeServer) -> None:
    server.cancel = True
    record = attempt.start(["/bin/sleep", "600"]).finish()
    assert record["canceled"]
    assert record["signal"] == signal.SIGTERM


def test_a_command_that_ends_by_itself_was_not_canceled(
    attempt: Attempt, server: FakeServer
) -> None:
    attempt.start(["/bin/true"])
    until(lambda: server.exits or attempt.process.poll() is not None)
    attempt.process.terminate()
    attempt.process.wait(PATIENCE_S)
    assert not attempt.record["canceled"]
    assert attempt.record["exit_code"] == 0


def test_cancel_while_preparing(attempt: Attempt, server: FakeServer) -> None:
    server.fail = lambda method, _path: 503 if method == "GET" else None
    attempt.start(["/bin/true"], {"x": "1"})
    until(lambda: server.exchanges)
    attempt.process.terminate()
    record = attempt.finish()
    assert record["canceled"]
    assert record["exit_code"] is None
    assert server.exits == [record]


def test_a_stubborn_tree_is_killed_after_the_grace(attempt: Attempt, server: FakeServer) -> None:
    beat = attempt.folder.parent / "beat"
    loop = f"while true; do echo x >> {beat}; sleep 0.02; done"
    stubborn = f"trap '' TERM INT; setsid sh -c \"trap '' TERM; {loop}\" & {loop}"
    attempt.start(["/bin/sh", "-c", stubborn], grace_s=0.5)
    until(beat.exists)
    attempt.process.terminate()
    record = attempt.finish()
    assert record["canceled"]
    assert record["signal"] == signal.SIGKILL
    assert not record["out_of_memory"]
    size = beat.stat().st_size
    time.sleep(0.5)
    assert beat.stat().st_size == size


def test_what_forks_and_leaves_all_the_time_is_ended(attempt: Attempt) -> None:
    beat = attempt.folder.parent / "beat"
    code = f"""
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    until = time.time() + 30
    while time.time() < until:
        if os.fork():
            os._exit(0)
        open({str(beat)!r}, "a").write("x")
        time.sleep(0.002)
time.sleep(0.3)
"""
    assert attempt.start(python(code), grace_s=0.5).finish()["exit_code"] == 0
    size = beat.stat().st_size
    time.sleep(0.5)
    assert beat.stat().st_size == size


def test_what_left_the_group_is_asked_before_it_is_killed(attempt: Attempt) -> None:
    asked = attempt.folder.parent / "asked"
    child = f"trap 'echo asked > {asked}; exit 0' TERM; touch {asked}; sleep 600 & wait"
    parent = (
        "import signal, subprocess; signal.signal(signal.SIGTERM, lambda *_: None); "
        f"subprocess.Popen(['/bin/sh', '-c', {child!r}], start_new_session=True).wait()"
    )
    attempt.start(python(parent), grace_s=20.0)
    until(asked.exists)
    attempt.process.terminate()
    assert attempt.finish()["exit_code"] == 0
    assert asked.read_text() == "asked\n"


@pytest.mark.parametrize("where", ["/dev/stderr", "/dev/stdout"])
def test_output_sent_to_its_own_name_does_not_cost_the_rest(
    attempt: Attempt, server: FakeServer, where: str
) -> None:
    script = f"seq 1 99; sleep 0.5; echo warning > {where}; echo on; sleep 0.5; echo off"
    attempt.start(["/bin/sh", "-c", script]).finish()
    (log,) = server.logs.values()
    assert log.decode().split() == [*map(str, range(1, 100)), "warning", "on", "off"]


def test_the_time_limit(attempt: Attempt, server: FakeServer) -> None:
    record = attempt.start(["/bin/sleep", "600"], time_limit_s=0.3).finish()
    assert record["timed_out"]
    assert not record["canceled"]
    assert record["error"]["message"] == "ran longer than its time limit and was ended"


def test_killed_from_outside(attempt: Attempt, server: FakeServer) -> None:
    attempt.start(python("import os; os.kill(os.getpid(), 9)"))
    record = attempt.finish()
    assert (record["exit_code"], record["signal"]) == (None, signal.SIGKILL)
    assert not record["canceled"]


def test_out_of_memory_in_python(attempt: Attempt) -> None:
    code = (
        "import resource as r; r.setrlimit(r.RLIMIT_AS, (1 << 29, 1 << 29))\nx = bytearray(1 << 33)"
    )
    record = attempt.start([sys.executable, "train.py"], {"train.py": code}).finish()
    assert record["out_of_memory"]
    assert record["error"]["line"] == 2


def test_a_server_that_comes_late(attempt: Attempt, server: FakeServer) -> None:
    server.stop()
    attempt.start(["/bin/echo", "hello"], {"x": "1"})
    until(lambda: "does not answer" in attempt.told)
    server.start()
    record = attempt.finish()
    assert server.exits == [record]
    assert server.log == b"hello\n"


def test_a_server_that_is_away_in_the_middle_misses_nothing(
    attempt: Attempt, server: FakeServer
) -> None:
    code = """\
import os, time
print("before", flush=True)
while not os.path.exists("away"): time.sleep(0.01)
os.mkdir(os.environ["WHERRY_SPOOL"] + "/spool")
spool = open(os.environ["WHERRY_SPOOL"] + "/spool/metrics.9.jsonl", "w")
for number in range(1000): print(number); spool.write("%d\\n" % number)
open("outputs/x", "w").write("x")
"""
    attempt.start(python(code))
    until(lambda: server.log == b"before\n")
    server.stop()
    (attempt.folder / "work/away").touch()
    until((attempt.folder / "exit.json").exists)
    until(lambda: "does not answer" in attempt.told)
    assert attempt.process.poll() is None
    server.start()
    record = attempt.finish()
    numbers = "".join(f"{number}\n" for number in range(1000)).encode()
    assert server.log == b"before\n" + numbers
    assert server.streams == {"metrics.9": bytearray(numbers)}
    assert server.files["outputs/x"] == b"x"
    assert b"does not answer" in server.files["system_logs/runner.log"]
    assert "the server answers again" in attempt.told
    assert server.exits == [record]


def test_a_server_that_moves_is_followed(attempt: Attempt, tmp_path: Path) -> None:
    address = tmp_path / "server.json"
    first, second = FakeServer(), FakeServer()
    with first:
        attempt.server = first
        code = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
        attempt.start(python(code), server_file=str(address))
        until(lambda: first.stages)
    with second:
        address.write_text(json.dumps({"url": second.url}))
        (attempt.folder / "work/go").touch()
        attempt.finish()
        assert second.exits


def test_a_server_that_knows_it_no_more_is_left_alone(attempt: Attempt, server: FakeServer) -> None:
    server.fail = lambda _method, _path: 410
    record = attempt.start(["/bin/sh", "-c", "echo 1 > outputs/x"]).finish()
    assert record["exit_code"] == 0
    assert "the server is told no more" in attempt.told


def test_terminate_ends_waiting_for_a_server_that_is_away(
    attempt: Attempt, server: FakeServer
) -> None:
    server.stop()
    attempt.start(["/bin/echo", "hello"])
    until((attempt.folder / "exit.json").exists)
    attempt.process.terminate()
    assert attempt.finish()["exit_code"] == 0
    assert not attempt.record["canceled"]


def asking_for_a_wheel(attempt: Attempt) -> Attempt:
    attempt.env["WHERRY_UV"] = "/bin/true"  # it does not come so far
    address = f"wherry://wheels/{'0' * 64}/mine-1.0-py3-none-any.whl"
    conda = {"dependencies": [{"pip": [address]}]}
    environment = {"name": "train", "python": {"conda": conda, "user_managed": False}}
    return attempt.start(python("print(1)"), {}, environment=environment)


def test_a_run_that_waits_for_a_wheel_can_be_canceled(attempt: Attempt, server: FakeServer) -> None:
    asked = threading.Event()

    def away(method: str, path: str) -> int | None:
        if "/wheels/" not in path:
            return None
        asked.set()
        return 503

    server.fail = away
    asking_for_a_wheel(attempt)
    assert asked.wait(PATIENCE_S)
    attempt.process.terminate()
    assert attempt.finish()["canceled"]
    assert os.listdir(f"{attempt.env['WHERRY_CACHE']}/environments/work") == []


def test_a_wheel_that_the_server_has_not_is_a_sentence(attempt: Attempt) -> None:
    record = asking_for_a_wheel(attempt).finish()
    assert "a wheel of the workspace cannot be fetched: there is no runs/" in record["setup_error"]
    assert "wherry environment add-wheel FILE" in record["setup_error"]
    assert "secret" not in attempt.told  # its token


def test_a_canceled_run_waits_for_its_server_too(attempt: Attempt, server: FakeServer) -> None:
    script = "echo 1 > outputs/checkpoint; echo ready; exec sleep 600"
    attempt.start(["/bin/sh", "-c", script])
    until(lambda: server.log == b"ready\n")
    server.stop()
    attempt.process.terminate()
    until((attempt.folder / "exit.json").exists)
    server.start()
    record = attempt.finish()
    assert record["canceled"]
    assert server.exits == [record]
    assert server.files["outputs/checkpoint"] == b"1\n"


def test_orphans_are_reaped_while_it_runs(attempt: Attempt) -> None:
    code = """\
import os, time
for _ in range(20):
    if os.fork() == 0:
        if os.fork() == 0: os._exit(0)
        os._exit(0)
for _ in range(20): os.wait()
open("born", "w")
while not os.path.exists("go"): time.sleep(0.01)
"""
    attempt.start(python(code))
    until((attempt.folder / "work/born").exists)
    until(lambda: zombies_below(attempt.process.pid) == 0)
    (attempt.folder / "work/go").touch()
    assert attempt.finish()["exit_code"] == 0


def test_a_pipe_that_breaks_ends_a_command_as_it_would_in_a_shell(attempt: Attempt) -> None:
    attempt.start(["/bin/sh", "-c", "yes | head -n 1; echo ${PIPESTATUS:-ok}"])
    assert attempt.finish()["exit_code"] == 0
    assert attempt.log == b"y\nok\n"


def test_a_connection_that_hangs_is_not_the_commands_concern(
    attempt: Attempt, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = tmp_path / "done"
        attempt.start(["/bin/sh", "-c", f"echo x > {done}"], server=url)
        until((attempt.folder / "exit.json").exists)
        assert done.exists()
        assert attempt.process.poll() is None


def test_a_long_fetch_is_told(attempt: Attempt, server: FakeServer) -> None:
    server.pace_s = 0.05
    attempt.start(["/bin/true"], {"big": b"x" * 600_000})
    assert attempt.finish()["exit_code"] == 0
    assert server.stages[0] == "preparing"
    assert (attempt.folder / "work/big").stat().st_size == 600_000


def test_a_long_fetch_can_be_canceled_by_a_reply(attempt: Attempt, server: FakeServer) -> None:
    server.pace_s = 0.05
    server.cancel = True
    record = attempt.start(["/bin/true"], {"big": b"x" * 600_000}).finish()
    assert record["canceled"]
    assert record["exit_code"] is None
    assert server.exits == [record]


def zombies_below(pid: int) -> int:
    listing = subprocess.run(
        ["ps", "-A", "-o", "ppid=,stat="], capture_output=True, text=True, check=True
    ).stdout
    rows = [line.split() for line in listing.splitlines()]
    return sum(row[0] == str(pid) and row[1].startswith("Z") for row in rows)
