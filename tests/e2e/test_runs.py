"""Scripts submitted to this machine through the SDK, the server and the runner."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.homes import Home, wait_until
from tests.interpreters import find_python
from wherry import (
    ActivityFailedException,
    Environment,
    Experiment,
    Run,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)

LOGS_A_BIT = """
import os, sys
from wherry import Run
run = Run.get_context()
print("to stdout", flush=True)
print("to stderr", file=sys.stderr, flush=True)
run.log("loss", 0.5); run.log("loss", 0.25)
run.log("once", 7)
run.log_list("list", [1, 2, 3])
run.log_row("row", x=1, y=2)
run.log_row("row", x=3, y=4)
run.log_table("table", {"a": [1, 2], "b": [3, 4]})
run.tag("color", "blue")
os.makedirs("outputs/deep", exist_ok=True)
open("outputs/deep/model.bin", "wb").write(b"\\0\\1\\2")
open("extra.txt", "w").write("extra")
run.upload_file("data/extra.txt", "extra.txt")
print(sys.argv[1:], os.environ["GREETING"])
"""


def test_a_script_is_run_watched_and_recorded(
    home: Home, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = Environment("mine")
    environment.environment_variables["GREETING"] = "good day"
    run = home.submit(LOGS_A_BIT, "--x", "a b", environment=environment)
    details = run.wait_for_completion(show_output=True)
    shown = capsys.readouterr().out
    assert "to stdout\nto stderr\n" in shown
    assert "['--x', 'a b'] good day" in shown
    assert shown.startswith(f"RunId: {run.id}")
    assert (details["status"], details["runId"]) == ("Completed", run.id)
    assert run.get_metrics() == {
        "loss": [0.5, 0.25],
        "once": 7,
        "list": [1, 2, 3],
        "row": {"x": [1, 3], "y": [2, 4]},
        "table": {"a": [1, 2], "b": [3, 4]},
    }
    assert run.get_tags() == {"color": "blue"}
    names = run.get_file_names()
    assert {"outputs/deep/model.bin", "data/extra.txt", "user_logs/std_log.txt"} <= set(names)
    run.download_file("outputs/deep/model.bin", str(home.folder / "model.bin"))
    assert (home.folder / "model.bin").read_bytes() == b"\0\1\2"
    assert [event["to"] for event in run.get_events()][-1] == "Completed"


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_the_sdk_is_there_in_an_interpreter_that_has_nothing(home: Home, version: str) -> None:
    environment = Environment("bare")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = find_python(version)
    text = (
        "import sys\nfrom wherry import Run\nRun.get_context().log('v', list(sys.version_info[:2]))"
    )
    run = home.submit(text, environment=environment)
    run.wait_for_completion()
    assert run.get_metrics()["v"] == [int(part) for part in version.split(".")]


def test_a_failure_explains_itself(home: Home) -> None:
    text = "import os\ndef train():\n    return {}['missing']\n\ntrain()\n"
    run = home.submit(text)
    with pytest.raises(ActivityFailedException) as caught:
        run.wait_for_completion()
    assert "KeyError: 'missing'" in caught.value.message
    assert "train.py, line 3" in caught.value.message
    error = run.get_details()["error"]
    assert "exited with code 1" in str(error)
    assert run.get_error()["file"] == "train.py"  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "reason", "words"),
    [
        ("import sys; sys.exit(7)", "ExitCode", "exited with code 7"),
        ("import os; os.kill(os.getpid(), 11)", "Signal", "killed by SIGSEGV"),
        ("import os; os.kill(os.getpid(), 9)", "Signal", "killed by SIGKILL"),
        ("raise MemoryError('no room')", "OutOfMemory", "ran out of memory"),
        ("def broken(:", "ExitCode", "SyntaxError"),
    ],
)
def test_ways_to_fail(home: Home, text: str, reason: str, words: str) -> None:
    run = home.submit(text)
    run.wait_for_completion(raise_on_error=False)
    record = run.record
    assert (record["status"], record["reason"]) == ("Failed", reason)
    assert words in record["message"]


def test_the_time_limit_ends_a_run(home: Home) -> None:
    run = home.submit("import time; time.sleep(600)", max_run_duration_seconds=1)
    run.wait_for_completion(raise_on_error=False)
    assert run.record["reason"] == "TimeLimit"


def test_cancel_ends_the_whole_tree(home: Home) -> None:
    text = """
import subprocess, sys, time
sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
child = subprocess.Popen(sleep, start_new_session=True)
print("child", child.pid, flush=True)
time.sleep(600)
"""
    run = home.submit(text)
    wait_until(lambda: b"child" in _log(home, run))
    child = int(_log(home, run).split()[1])
    assert psutil.pid_exists(child)
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Canceled"
    wait_until(lambda: not psutil.pid_exists(child))


def test_a_stubborn_script_is_killed_after_the_grace(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_CANCEL_GRACE_S", "1")
    text = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(600)
"""
    run = home.submit(text)
    wait_until(lambda: b"up" in _log(home, run))
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Canceled"


def test_runs_that_do_not_fit_wait_and_say_why(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHERRY_LOCAL_CPUS", "1")
    first = home.submit("import time; time.sleep(600)")
    wait_until(lambda: first.get_status() == "Running")
    second = home.submit("print(1)")
    assert second.get_status() == "Queued"
    assert "waiting for 1 CPU on target 'local'" in second.record["message"]
    with pytest.raises(UserErrorException, match="asks for 64 CPUs"):
        home.submit("print(1)", resources={"cpu": 64})
    first.cancel()
    second.wait_for_completion()


def test_a_missing_script_or_interpreter_is_refused_at_once(home: Home) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    experiment = Experiment(workspace, "e")
    with pytest.raises(UserErrorException, match=r"nope\.py"):
        experiment.submit(ScriptRunConfig(str(home.source), "nope.py"))
    environment = Environment("gone")
    environment.python.user_managed_dependencies = True
    environment.python.interpreter_path = "/no/such/python"
    with pytest.raises(UserErrorException, match="/no/such/python"):
        home.submit("print(1)", environment=environment)
    assert list(experiment.get_runs()) == []


def test_a_command_instead_of_a_script(home: Home) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    home.script("hello", "data.txt")
    config = ScriptRunConfig(str(home.source), command="cat data.txt && echo $((1 + 1))")
    run = Experiment(workspace, "e").submit(config)
    run.wait_for_completion()
    assert _log(home, run) == b"hello2\n"


def test_logs_are_bytes_as_written(home: Home) -> None:
    text = r"""
import sys, time
out = sys.stdout.buffer
out.write(b"50%\r100%\r\n"); out.flush()
out.write(b"bad \xff\xfe utf-8\n"); out.flush()
out.write(b"no end of line"); out.flush()
"""
    run = home.submit(text)
    run.wait_for_completion()
    assert _log(home, run) == b"50%\r100%\r\nbad \xff\xfe utf-8\nno end of line"


def test_many_followers_see_every_line_across_a_server_restart(home: Home) -> None:
    text = (
        "import time\nfor i in range(60):\n    print('line', i, flush=True)\n    time.sleep(0.05)\n"
    )
    run = home.submit(text)
    seen: list[list[bytes]] = [[] for _ in range(4)]
    threads = [threading.Thread(target=run.stream_logs, args=(pieces.append,)) for pieces in seen]
    for thread in threads:
        thread.start()
    wait_until(lambda: all(b"line 10\n" in b"".join(pieces) for pieces in seen))
    home.kill_server()
    for thread in threads:
        thread.join(timeout=60)
    run.wait_for_completion()
    whole = b"".join(b"line %d\n" % index for index in range(60))
    assert [b"".join(pieces) for pieces in seen] == [whole] * 4


def test_a_server_killed_at_any_moment_loses_nothing(home: Home) -> None:
    text = """
import os, time
from wherry import Run
run = Run.get_context()
open(os.path.join(os.environ["MARKS"], run.id), "a").write("started\\n")
for i in range(20):
    print("step", i, flush=True)
    run.log("i", i)
    time.sleep(0.05)
os.makedirs("outputs", exist_ok=True)
open("outputs/done", "w").write("yes")
"""
    marks = home.folder / "marks"
    marks.mkdir()
    environment = Environment("marked")
    environment.environment_variables["MARKS"] = str(marks)
    runs: list[Run] = []
    for pause in (0.0, 0.02, 0.1, 0.4):
        runs.append(home.submit(text, environment=environment))
        time.sleep(pause)
        home.kill_server()
    for run in runs:
        run.wait_for_completion()
        assert run.get_metrics()["i"] == list(range(20))
        assert _log(home, run) == b"".join(b"step %d\n" % i for i in range(20))
        assert "outputs/done" in run.get_file_names()
        assert (marks / run.id).read_text() == "started\n"
    assert len(list(marks.iterdir())) == len(runs)


def test_what_a_killed_runner_left_is_brought_home(home: Home) -> None:
    go = home.folder / "go"
    text = f"""
import os, time
from wherry import Run
run = Run.get_context()
for number in range(60):
    print(number, flush=True)
    run.log("n", number)
    while number == 30 and not os.path.exists({str(go)!r}):
        time.sleep(0.01)
with open("outputs/late.txt", "w") as file:
    file.write("late")
"""
    run = home.submit(text)
    wait_until(lambda: b"5" in _log(home, run))
    _runner(home).kill()
    go.touch()
    run.wait_for_completion(raise_on_error=False)
    assert (run.record["status"], run.record["reason"]) == ("Failed", "RunnerLost")
    assert _log(home, run).split() == [b"%d" % number for number in range(60)]
    assert run.get_metrics()["n"] == list(range(60))
    assert "outputs/late.txt" in run.get_file_names()


def test_a_run_without_its_runner_is_still_canceled(home: Home) -> None:
    run = home.submit("import time\nprint('up', flush=True)\ntime.sleep(600)")
    wait_until(lambda: b"up" in _log(home, run))
    _runner(home).kill()
    run.cancel()
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Canceled"
    assert _log(home, run) == b"up\n"


def test_a_runner_killed_while_it_stores_the_files_changes_no_end(home: Home) -> None:
    text = """
for number in range(3000):
    with open(f"outputs/{number}", "w") as file:
        file.write(str(number))
"""
    run = home.submit(text)
    wait_until(lambda: list(home.home.glob("nodes/local/*/exit.json")) or _is_completed(run))
    with suppress(psutil.NoSuchProcess, ValueError):  # it may be faster than this test
        _runner(home).kill()
    run.wait_for_completion()
    assert len([name for name in run.get_file_names() if name.startswith("outputs/")]) == 3000


def test_many_at_once_from_two_folders(home: Home) -> None:
    home.script("import sys; print('first', sys.argv[1])")
    other = home.folder / "other"
    other.mkdir()
    (other / "train.py").write_text("import sys; print('second', sys.argv[1])")
    experiment = Experiment(Workspace.create("w", exist_ok=True), "many")
    configs = [
        ScriptRunConfig(str(folder), "train.py", [str(number)])
        for number in range(3)
        for folder in (home.source, other)
    ]
    runs = experiment.submit_many(configs, tags={"sweep": "1"})
    for run in runs:
        run.wait_for_completion()
    said = [_log(home, run).decode().strip() for run in runs]
    assert said == [f"{word} {number}" for number in range(3) for word in ("first", "second")]
    assert all(run.get_tags() == {"sweep": "1"} for run in runs)
    assert experiment.submit_many([]) == []


def test_ten_clients_that_start_at_once_share_one_server(home: Home) -> None:
    code = (
        "import json, os; from wherry import Workspace; Workspace.create('w', exist_ok=True)\n"
        "print(json.load(open(os.environ['WHERRY_HOME'] + '/server.json'))['pid'])"
    )
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(10)
    ]
    answers = [client.communicate(timeout=120) for client in clients]
    assert [client.returncode for client in clients] == [0] * 10, answers
    assert len({out for out, _ in answers}) == 1
    servers = home.running("wherry.api")
    assert len(servers) == 1


def test_secrets_are_private(home: Home) -> None:
    run = home.submit("import time; time.sleep(2)")
    wait_until(lambda: run.get_status() == "Running")
    for name in ("token", "secret.key", "server.json"):
        assert (home.home / name).stat().st_mode & 0o077 == 0
    assert home.home.stat().st_mode & 0o077 == 0
    token = (home.home / "token").read_text().strip()
    secret = (home.home / "secret.key").read_text().strip()
    run.wait_for_completion()
    for path in home.home.rglob("*"):
        if path.is_file() and path.name not in ("token", "secret.key"):
            data = path.read_bytes()
            assert token.encode() not in data, path
            assert secret.encode() not in data, path


def test_children_of_a_script(home: Home) -> None:
    text = """
from wherry import Run
run = Run.get_context()
for i in range(3):
    with run.child_run(name=f"fold-{i}") as child:
        child.log("score", i / 10)
run.log("best", max(c.get_metrics()["score"] for c in run.get_children()))
"""
    run = home.submit(text)
    run.wait_for_completion()
    children = list(run.get_children())
    assert sorted(child.get_metrics()["score"] for child in children) == [0.0, 0.1, 0.2]
    assert {child.get_status() for child in children} == {"Completed"}
    assert run.get_metrics()["best"] == 0.2
    assert len(run.get_metrics(recursive=True)) == 4


def test_logging_from_a_notebook(home: Home) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    run = Experiment(workspace, "e").start_logging(snapshot_directory=None)
    for index in range(1000):
        run.log("value", index)
    (home.folder / "picture.txt").write_text("p")
    run.upload_file("pictures/p.txt", str(home.folder / "picture.txt"))
    run.complete()
    assert run.get_status() == "Completed"
    assert run.get_metrics()["value"] == list(range(1000))
    assert "pictures/p.txt" in run.get_file_names()


def test_a_notebook_that_crashes_still_delivers(home: Home) -> None:
    code = """
import sys
from wherry import Experiment, Workspace
run = Experiment(Workspace.create("w", exist_ok=True), "e").start_logging(snapshot_directory=None)
print(run.id, flush=True)
for i in range(100):
    run.log("i", i)
raise RuntimeError("boom")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    run = Workspace.get("w").get_run(done.stdout.split()[0])
    assert run.get_metrics()["i"] == list(range(100))


def test_snapshots_of_two_runs_can_be_compared(home: Home) -> None:
    first = home.submit("print(1)")
    home.script("x", "new.txt")
    second = home.submit("print(2)")
    workspace = Workspace.get("w")
    difference = workspace.diff_snapshots(first.get_snapshot_id(), second.get_snapshot_id())  # type: ignore[arg-type]
    assert difference == {"added": ["new.txt"], "removed": [], "changed": ["train.py"]}
    first.restore_snapshot(path=str(home.folder / "restored"))
    restored = [path for path in (home.folder / "restored").rglob("*") if path.is_file()]
    assert [path.read_text() for path in restored if path.name == "train.py"] == ["print(1)"]
    for run in (first, second):
        run.wait_for_completion()


def test_a_gigabyte_would_fit_in_little_memory(home: Home) -> None:
    """A tenth of one here; memory of the server and the runner stays where it was."""
    line = "x" * 999
    run = home.submit(f"line = {line!r}\nfor _ in range(100_000): print(line)")
    peak = 0
    while run.get_status() not in ("Completed", "Failed"):
        for process in home.processes():
            try:
                if "train.py" not in process.cmdline():
                    peak = max(peak, process.memory_info().rss)
            except psutil.Error:
                continue
        time.sleep(0.05)
    assert run.get_status() == "Completed"
    target = home.folder / "log"
    run.download_file("user_logs/std_log.txt", str(target))
    assert target.stat().st_size == 100_000_000
    assert peak < 250 * 2**20


def test_the_server_can_be_stopped_and_the_run_goes_on(home: Home) -> None:
    go = home.home.parent / "go"
    run = home.submit(
        "import os, time\nfor i in range(30):\n    print(i, flush=True)\n    time.sleep(0.01)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.01)"
    )
    wait_until(lambda: run.get_status() == "Running")
    os.kill(home.server_pid(), signal.SIGTERM)
    wait_until(lambda: not home.running("wherry.api"))
    assert home.running("train.py")
    go.touch()
    run.wait_for_completion()
    assert _log(home, run).split() == [str(i).encode() for i in range(30)]


def test_the_page_has_an_address(home: Home) -> None:
    run = home.submit("print(1)")
    run.wait_for_completion()
    assert run.get_portal_url().startswith("http://127.0.0.1:")
    assert Path(home.home).exists()


def _runner(home: Home) -> psutil.Process:
    (facts,) = home.home.glob("nodes/local/*/started")
    return psutil.Process(json.loads(facts.read_text())["pid"])


def _is_completed(run: Run) -> bool:
    return run.get_status() == "Completed"


def _log(home: Home, run: Run) -> bytes:
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, follow=False)
    return b"".join(pieces)
