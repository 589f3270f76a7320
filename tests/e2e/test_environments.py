"""Scripts in environments that are made for them, out of packages from PyPI."""

from __future__ import annotations

import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.builds.index import Index, serve
from tests.homes import Home, wait_until
from wherry import CondaDependencies, Environment, Run, Workspace

BUILD_LOG = "azureml-logs/20_image_build_log.txt"
SAYS_SIX = "import six, sys; print(six.__version__, sys.prefix)"


@pytest.fixture(autouse=True)
def no_downloads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")


def environment(*pip: str, **python: Any) -> Environment:
    made = Environment("train")
    made.python.conda_dependencies = CondaDependencies.create(pip_packages=[*pip])
    made.python.user_managed_dependencies = False
    for name, value in python.items():
        setattr(made.python, name, value)
    return made


def output(run: Run) -> str:
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, follow=False)
    return b"".join(pieces).decode()


def lock_of(run: Run, folder: Path) -> dict[str, Any]:
    run.download_file("environment/lock.json", str(folder / "lock.json"))
    found: dict[str, Any] = json.loads((folder / "lock.json").read_text())
    return found


def test_it_is_made_once_shown_and_locked(home: Home, capsys: pytest.CaptureFixture[str]) -> None:
    first = home.submit(SAYS_SIX, environment=environment("six==1.16.0"))
    first.wait_for_completion(show_output=True)
    shown = capsys.readouterr().out
    assert f"Streaming {BUILD_LOG}" in shown
    assert shown.index("six==1.16.0") < shown.index("Streaming user_logs/std_log.txt")
    assert "Preparing" in [event["to"] for event in first.get_events()]
    second = home.submit(SAYS_SIX, environment=environment("six==1.16.0"))
    second.wait_for_completion()
    assert output(second) == output(first)
    assert BUILD_LOG in first.get_file_names()
    assert BUILD_LOG not in second.get_file_names()
    assert lock_of(first, home.folder) == lock_of(second, home.folder)
    assert "six" in json.dumps(lock_of(first, home.folder))


def test_runs_that_need_it_at_once_share_one_build(home: Home) -> None:
    home.script(SAYS_SIX)
    with ThreadPoolExecutor(4) as pool:
        made = list(
            pool.map(
                lambda _: home.submit(SAYS_SIX, environment=environment("six==1.15.0")), range(4)
            )
        )
    for run in made:
        assert run.wait_for_completion()["status"] == "Completed"
    assert len({output(run) for run in made}) == 1
    builds = [run for run in made if "+ six==1.15.0" in build_log(run)]
    assert len(builds) == 1


def build_log(run: Run) -> str:
    if BUILD_LOG not in run.get_file_names():
        return ""
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, name=BUILD_LOG, follow=False)
    return b"".join(pieces).decode()


def test_it_is_built_ahead_and_made_again_from_its_lock(home: Home) -> None:
    workspace = Workspace.create("w", exist_ok=True)
    build = environment("six==1.16.0").build(workspace).wait_for_completion()
    assert build.status == "Succeeded"
    run = home.submit(SAYS_SIX, environment=environment("six==1.16.0"))
    run.wait_for_completion()
    assert BUILD_LOG not in run.get_file_names()
    again = home.submit(SAYS_SIX, environment=Environment.from_lock("again", build.get_lock()))
    again.wait_for_completion()
    assert output(again).split()[0] == "1.16.0"


def test_what_cannot_be_resolved_fails_with_the_resolvers_words(home: Home) -> None:
    run = home.submit("print(1)", environment=environment("six==1.4.0", "python-dateutil==2.9.0"))
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    message = str((run.get_error() or {}).get("message"))
    assert "six==1.4.0" in message
    assert "python-dateutil==2.9.0" in message
    assert "unsatisfiable" in message
    after = home.submit(SAYS_SIX, environment=environment("six==1.16.0"))
    assert after.wait_for_completion()["status"] == "Completed"


def test_one_that_is_being_made_can_be_canceled(home: Home) -> None:
    with socket.create_server(("127.0.0.1", 0)) as index:  # which never answers
        address = f"http://127.0.0.1:{index.getsockname()[1]}/simple"
        run = home.submit("print(1)", environment=environment(f"--index-url {address}", "six"))
        wait_until(lambda: run.get_status() == "Preparing")
        run.cancel()
        wait_until(lambda: run.get_status() == "Canceled")


def test_a_runner_killed_while_it_prepares_costs_an_attempt_not_the_run(home: Home) -> None:
    with serve(Index()) as index:
        index.add("only_here", "1.0", source="WORD = 'at last'")
        index.let_go.clear()
        wanted = environment(f"--index-url {index.url}/simple", "only_here")
        run = home.submit("import only_here; print(only_here.WORD)", environment=wanted)
        wait_until(index.asked.is_set)
        (folder,) = (home.home / "nodes" / "local").glob("*-*-*")
        os.kill(json.loads((folder / "started").read_text())["pid"], signal.SIGKILL)
        index.let_go.set()
        assert run.wait_for_completion()["status"] == "Completed"
    assert output(run) == "at last\n"
    told = [(event["to"], event["reason"]) for event in run.get_events()]
    assert ("Queued", "RunnerLost") in told
    assert [to for to, _ in told].count("Running") <= 1
