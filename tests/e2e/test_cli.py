"""The command line as people and scripts use it: real processes, a real server, a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import Request, urlopen

import psutil
import pytest

from tests.homes import Home, wait_until
from wherry.cli import browser
from wherry.cli.table import display_width
from wherry.sdk.server import HomeServer

TRAIN = """
import os, sys
from wherry import Run
run = Run.get_context()
lr = float(sys.argv[2]) if len(sys.argv) > 2 else 0.1
for step in range(3):
    run.log("loss", lr / (step + 1))
    print("step", step, flush=True)
os.makedirs("outputs", exist_ok=True)
open("outputs/model.txt", "w").write(str(lr))
"""
FAIL = """
def load(path):
    raise ValueError("no rows in " + path)

print("starting", flush=True)
load("data.csv")
"""
ENDLESS = """
import time
print("begun", flush=True)
while True:
    time.sleep(0.05)
"""


class Shell:
    """Calls ``wherry`` in a project folder with a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder)
        self.project = folder / "project"
        self.project.mkdir()
        for name, text in (("train.py", TRAIN), ("fail.py", FAIL), ("endless.py", ENDLESS)):
            (self.project / name).write_text(text)
        self.env = {
            name: value for name, value in os.environ.items() if not name.startswith("WHERRY_")
        }
        for name in ("NO_COLOR", "VIRTUAL_ENV", "COLUMNS", "DISPLAY", "BROWSER"):
            self.env.pop(name, None)
        self.env["WHERRY_HOME"] = str(self.home.home)
        self.env["WHERRY_CACHE"] = str(folder / "cache")

    def start(
        self,
        *arguments: str,
        env: dict[str, str] | None = None,
        stdout: int = subprocess.PIPE,
        stderr: int = subprocess.PIPE,
        new_session: bool = False,
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "wherry.cli.main", *arguments],
            cwd=self.project,
            env={**self.env, **(env or {})},
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=new_session,
        )

    def __call__(
        self, *arguments: str, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(*arguments, env=env)
        out, err = process.communicate(timeout=120)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def record(self, run_id: str) -> dict[str, object]:
        return dict(json.loads(self("job", "show", run_id, "-o", "json").stdout))


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("cli"))
    assert shell("server", "start").returncode == 0
    yield shell
    shell("server", "stop")
    wait_until(lambda: not shell.home.nurseries())
    leftover = shell.home.processes()
    for process in leftover:
        process.kill()
    assert leftover == []


def test_a_script_is_run_and_its_output_is_the_output(shell: Shell) -> None:
    done = shell("run", "train.py", "--", "--lr", "0.5")
    assert (done.returncode, done.stdout) == (0, "step 0\nstep 1\nstep 2\n")
    first, last = done.stderr.splitlines()
    assert first.startswith("wherry: run project_")
    assert first.endswith("submitted to local")
    assert " completed in " in last
    run_id = first.split()[2]
    shown = shell("job", "show", run_id).stdout
    assert "command      train.py --lr 0.5\n" in shown
    assert "  loss  0.166667  (last of 3; min 0.166667, max 0.5)\n" in shown
    assert "  outputs/model.txt" in shown
    fetched = shell("job", "download", run_id, "outputs", "-p", str(shell.project / "got" / run_id))
    assert Path(fetched.stdout.strip()).read_text() == "0.5"
    assert shell("logs", run_id).stdout == done.stdout
    assert shell("logs", run_id, "-n", "2").stdout == "step 1\nstep 2\n"
    assert shell("logs", run_id, "-f", "-n", "1").stdout == "step 2\n"


def test_a_failure_says_why(shell: Shell) -> None:
    done = shell("run", "-q", "--name", "broken", "fail.py")
    why = "exited with code 1: ValueError: no rows in data.csv (fail.py, line 3)"
    assert done.returncode == 3
    assert done.stdout.startswith("starting\n")
    assert done.stderr.startswith("error: run project_")
    assert f" failed: {why}\n" in done.stderr
    assert '\n    fail.py:3: raise ValueError("no rows in " + path)\n' in done.stderr
    assert "last lines:" not in done.stderr
    assert "\n\nhint: all of its output: wherry logs project_" in done.stderr
    assert "Traceback" in done.stdout
    assert why in shell("ps", "--status", "Failed").stdout
    for again in (["logs", "-f", "broken"], ["job", "stream", "broken"]):
        assert shell(*again).returncode == 3
    aside = shell("run", "-q", "fail.py", "-o", "json")
    assert aside.stderr.count("starting\n") == 1


def test_who_watches_only_the_errors_sees_the_last_lines(shell: Shell) -> None:
    told = on_terminal(shell, 80, {}, "run", "fail.py", shown=("stderr",), code=3)
    assert "\nlast lines:\n    starting\n" in told
    seen = on_terminal(shell, 80, {}, "run", "fail.py", shown=("stdout", "stderr"), code=3)
    assert seen.count("starting\n") == 1
    assert "failed: exited with code 1" in seen


def test_a_run_made_in_python_is_found_by_the_hint_of_its_error(shell: Shell) -> None:
    code = (
        "from wherry import Experiment, ScriptRunConfig, Workspace\n"
        "ws = Workspace.create('churn', exist_ok=True)\n"
        "run = Experiment(ws, 'first').submit(ScriptRunConfig('.', 'fail.py'))\n"
        "run.wait_for_completion()\n"
    )
    failed = subprocess.run(
        [sys.executable, "-c", code],
        cwd=shell.project,
        env=shell.env,
        capture_output=True,
        text=True,
    )
    hint = failed.stderr.strip().splitlines()[-1]
    assert hint.startswith("hint: the whole output: wherry logs first_")
    found = shell(*hint.partition(": wherry ")[2].split())
    assert (found.returncode, found.stdout.splitlines()[0]) == (0, "starting")
    assert "ValueError" in shell("-w", "churn", "ps").stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--command", "kill -9 $$"], "killed by SIGKILL"),
        (["--command", "exit 7"], "exited with code 7"),
        (["--timeout", "0.5s", "endless.py"], "ran longer than its limit"),
    ],
)
def test_other_ends(shell: Shell, arguments: list[str], said: str) -> None:
    done = shell("run", "-q", *arguments)
    assert done.returncode == 3
    assert said in done.stderr


def test_a_record_as_data_and_the_output_aside(shell: Shell) -> None:
    done = shell("run", "-q", "train.py", "-o", "json")
    record = json.loads(done.stdout)
    assert (done.returncode, record["status"]) == (0, "Completed")
    assert done.stderr == "step 0\nstep 1\nstep 2\n"
    failed = shell("run", "-q", "fail.py", "--query", "status", "-o", "tsv")
    assert (failed.returncode, failed.stdout) == (3, "Failed\n")


def test_interrupting_ends_the_watching_and_not_the_run(shell: Shell) -> None:
    process = shell.start("run", "endless.py")
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 130
    run_id = err.split()[2]
    assert f"run {run_id} goes on" in err
    assert f"wherry logs -f {run_id}" in err
    assert f"wherry job cancel {run_id}" in err
    assert "Traceback" not in err
    assert shell.record(run_id)["status"] == "Running"
    assert (
        shell("job", "cancel", "--wait", run_id[-8:]).stderr == f"wherry: run {run_id}: canceled\n"
    )
    watched = shell("logs", "-f", run_id)
    assert (watched.returncode, watched.stdout) == (3, "begun\n")
    assert watched.stderr == f"error: run {run_id} was canceled\n"


def test_detached_then_followed(shell: Shell) -> None:
    run_id = shell("run", "-q", "--detach", "train.py").stdout.strip()
    followed = shell("logs", "-f", run_id)
    assert (followed.returncode, followed.stdout) == (0, "step 0\nstep 1\nstep 2\n")


def test_a_run_that_must_wait_says_for_what(shell: Shell) -> None:
    cpus = json.loads(shell("target", "list", "-o", "json").stdout)[0]["nodes"][0]["cpu"]
    first = shell("run", "-q", "--detach", "--cpu", str(cpus), "endless.py").stdout.strip()
    process = shell.start("run", "train.py")
    assert process.stderr is not None
    assert "submitted" in process.stderr.readline()
    assert process.stderr.readline().startswith(
        "wherry: Queued: waiting for 1 CPU on target 'local'"
    )
    assert "waiting for 1 CPU" in shell("ps", "--limit", "1").stdout
    shell("job", "cancel", first)
    out, _ = process.communicate(timeout=120)
    assert (process.returncode, out) == (0, "step 0\nstep 1\nstep 2\n")


def test_a_job_file_with_a_python_of_its_own(shell: Shell) -> None:
    other = shell.project / "venv"
    if not other.exists():
        (other / "bin").mkdir(parents=True)
        wrapper = other / "bin" / "python"
        wrapper.write_text(f'#!/bin/sh\necho wrapped\nexec {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
    (shell.project / "job.yml").write_text(
        "command: python train.py --lr ${{inputs.lr}}\n"
        "code: .\ninputs: {lr: 0.25}\nenvironment: {python: venv}\nexperiment_name: filed\n"
    )
    done = shell("job", "create", "-f", "job.yml", "--stream", "--set", "inputs.lr=0.75")
    assert (done.returncode, done.stdout) == (0, "wrapped\nstep 0\nstep 1\nstep 2\n"), done.stderr
    run_id = shell("job", "create", "-f", "job.yml", "--query", "id", "-o", "tsv").stdout.strip()
    assert shell("job", "stream", run_id).returncode == 0
    by_option = shell("run", "-q", "--env", "venv", "train.py")
    assert by_option.stdout == "wrapped\nstep 0\nstep 1\nstep 2\n"


def test_two_runs_compared(shell: Shell) -> None:
    shell("run", "-q", "--name", "one", "train.py", "--", "--lr", "0.3")
    with (shell.project / "train.py").open("a") as file:
        file.write("# changed\n")
    shell("run", "-q", "--name", "two", "train.py", "--", "--lr", "0.6")
    lines = [" ".join(line.split()) for line in shell("compare", "one", "two").stdout.splitlines()]
    assert "loss 0.1 0.2 +0.1" in lines
    assert "--lr 0.3 0.6" in lines
    assert "changed train.py" in lines
    assert "+# changed\n" in shell("job", "diff", "one", "two").stdout
    assert shell("job", "diff", "two", "--files").stdout.count("train.py") == 0


def test_a_reader_that_goes_away_is_no_error(shell: Shell) -> None:
    lots = "for i in range(60000): print('a line of text, number', i)"
    (shell.project / "lots.py").write_text(lots)
    run_id = shell("run", "-q", "--detach", "lots.py").stdout.strip()
    shell("logs", "-f", run_id)
    for arguments in (["logs", run_id], ["run", "-q", "lots.py"]):
        process = shell.start(*arguments)
        assert process.stdout is not None
        assert process.stdout.readline() == "a line of text, number 0\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == ""
        assert process.wait(timeout=120) == 141
        process.stderr.close()


def test_ids_that_could_mean_several_runs(shell: Shell) -> None:
    for _ in range(2):
        shell("run", "-q", "--experiment", "twice", "train.py")
    done = shell("job", "show", "twice")
    assert done.returncode == 1
    assert len([line for line in done.stderr.splitlines() if line.startswith("    twice_")]) == 2


def test_a_dry_run_leaves_nothing_behind(shell: Shell) -> None:
    before = shell("ps", "--limit", "0", "--query", "[].id").stdout
    done = shell("run", "--dry-run", "train.py")
    assert done.returncode == 0
    assert f"{sys.executable} train.py" in done.stdout
    assert "what target local would start:" in done.stdout
    assert shell("ps", "--limit", "0", "--query", "[].id").stdout == before


@pytest.mark.parametrize("width", [40, 72, 110])
def test_on_a_terminal_lines_fit_and_colour_can_be_switched_off(shell: Shell, width: int) -> None:
    shell("run", "-q", "fail.py")
    plain = on_terminal(shell, width, {"NO_COLOR": "1"}, "ps", "--limit", "3")
    assert "\x1b" not in plain
    assert max(display_width(line) for line in plain.splitlines()) <= width
    assert "ValueError" in plain
    coloured = on_terminal(shell, width, {"TERM": "xterm"}, "ps", "--limit", "3")
    assert "\x1b[31mFailed" in coloured
    dumb = on_terminal(shell, width, {"TERM": "dumb"}, "ps", "--limit", "3")
    assert "\x1b" not in dumb


def on_terminal(
    shell: Shell,
    width: int,
    env: dict[str, str],
    *arguments: str,
    shown: tuple[str, ...] = ("stdout",),
    code: int = 0,
) -> str:
    """What a command shows on a terminal of this width; the other stream goes elsewhere."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    out, err = (follower if name in shown else subprocess.DEVNULL for name in ("stdout", "stderr"))
    process = shell.start(*arguments, env=env, stdout=out, stderr=err)
    os.close(follower)
    printed = b""
    try:
        while chunk := os.read(leader, 65536):
            printed += chunk
    except OSError:  # how Linux says that the other side has been closed
        pass
    finally:
        os.close(leader)
    assert process.wait(timeout=120) == code
    return printed.decode().replace("\r\n", "\n")


def test_the_shell_completes_run_ids(shell: Shell) -> None:
    run_id = shell("run", "-q", "--experiment", "completed", "--detach", "train.py").stdout.strip()
    env = {
        "_WHERRY_COMPLETE": "bash_complete",
        "COMP_WORDS": "wherry logs compl",
        "COMP_CWORD": "2",
    }
    assert shell(env=env).stdout == f"plain,{run_id}\n"
    nowhere = {**env, "WHERRY_SERVER": "http://127.0.0.1:1"}
    silent = shell(env=nowhere)
    assert (silent.returncode, silent.stdout.strip(), silent.stderr) == (0, "", "")


def test_the_server_starts_stops_and_tells(shell: Shell) -> None:
    started = shell("server", "start")
    assert started.returncode == 0
    assert "running at http://127.0.0.1:" in started.stderr
    status = shell("server", "status", "-o", "json")
    assert (status.returncode, json.loads(status.stdout)["running"]) == (0, True)
    assert "serving" in shell("server", "logs", "-n", "200").stdout
    again = shell("server", "run")
    assert (again.returncode, "already" in again.stderr) == (1, True)
    assert "has stopped" in shell("server", "stop").stderr
    assert "was not running" in shell("server", "stop").stderr
    stopped = shell("server", "status")
    assert stopped.returncode == 4
    assert "no server is running" in stopped.stdout
    assert shell("ps").returncode == 0
    assert shell("server", "status").returncode == 0


def test_the_server_in_the_foreground(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    process = shell.start("server", "run")
    server = HomeServer(str(shell.home.home))
    try:
        wait_until(lambda: server.status().running)
        assert server.status().pid == process.pid
        assert shell("workspace", "list", "--query", "[].name").stdout == "default\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) in (0, -signal.SIGINT, 130)
    finally:
        process.kill()
        process.communicate()
    assert shell.home.processes() == []


def test_no_server_or_one_that_speaks_otherwise(shell: Shell) -> None:
    gone = shell("ps", env={"WHERRY_SERVER": "http://127.0.0.1:1"})
    assert gone.returncode == 4
    assert gone.stderr.startswith("error: the server at http://127.0.0.1:1 cannot be reached")
    with other_version() as url:
        newer = shell("ps", env={"WHERRY_SERVER": url})
    assert newer.returncode == 4
    assert "is Wherry 9.0.0 (API 99)" in newer.stderr
    assert "hint: " in newer.stderr


class _OfTheFuture(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Wherry-Api", "99")
        self.send_header("Wherry-Version", "9.0.0")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, format: str, *args: object) -> None:
        pass


class other_version:
    """A server that this client cannot talk to."""

    def __enter__(self) -> str:
        self._server = HTTPServer(("127.0.0.1", 0), _OfTheFuture)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def test_a_browser_is_sent_on_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[str] = []

    class Browser:
        def open(self, address: str) -> bool:
            self.thread = threading.Thread(target=self._visit, args=(address,))
            self.thread.start()
            return True

        def _visit(self, address: str) -> None:
            opener = urlopen(Request(address))
            visited.append(opener.geturl())
            opener.close()

    fake = Browser()
    monkeypatch.setattr(webbrowser, "get", lambda: fake)
    with other_version() as url:
        assert browser.show(f"{url}/view/#/runs/x?token=secret")
        fake.thread.join()
    assert visited == [f"{url}/view/#/runs/x?token=secret"]


def test_a_terminal_browser_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "get", lambda: webbrowser.GenericBrowser("lynx"))
    assert not browser.show("http://127.0.0.1:1/")


def test_closing_the_terminal_does_not_end_the_run(shell: Shell) -> None:
    process = shell.start("run", "endless.py", new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    os.killpg(process.pid, signal.SIGHUP)
    _, err = process.communicate(timeout=120)
    run_id = err.split()[2]
    assert shell.record(run_id)["status"] == "Running"
    assert any(process.status() != psutil.STATUS_ZOMBIE for process in shell.home.processes())
    shell("job", "cancel", "--wait", run_id)
    assert shell.record(run_id)["status"] == "Canceled"
