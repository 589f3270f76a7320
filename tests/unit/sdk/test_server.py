from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from wherry import Workspace
from wherry.core.errors import (
    AuthenticationException,
    ServerUnavailableError,
    VersionMismatchError,
)
from wherry.sdk import connection
from wherry.sdk import server as server_module
from wherry.sdk.client import Address
from wherry.sdk.connection import connect
from wherry.sdk.server import HomeServer

from .fake_home import publish
from .fake_server import TOKEN, FakeServer

ROOT = Path(__file__).resolve().parents[3]

CLIENT = """
import subprocess, sys
from wherry.sdk import server

def spawn(home, log):
    return subprocess.Popen(
        [sys.executable, "-m", "tests.unit.sdk.fake_home", home], stdout=log, stderr=log,
        start_new_session=True,
    ).pid

server._spawn = spawn
server.require_server_packages = lambda home: None
print(server.HomeServer(sys.argv[1]).ensure().url)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def running(home: Path) -> Iterator[FakeServer]:
    server = FakeServer()
    publish(home, server, os.getpid())
    yield server
    server.close()


def start_client(home: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(home)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_a_running_server_is_found_without_asking_it(home: Path, running: FakeServer) -> None:
    address = HomeServer(str(home)).find()
    assert address == Address(running.url, TOKEN)
    assert running.requests == []


def test_nothing_is_found_in_an_empty_home(home: Path) -> None:
    assert HomeServer(str(home)).find() is None
    assert HomeServer(str(home / "missing")).find() is None


def test_a_dead_process_is_no_server(home: Path, running: FakeServer) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    publish(home, running, ended.pid)
    assert HomeServer(str(home)).find() is None
    status = HomeServer(str(home)).status()
    assert not status.running
    assert status.message == "no server is running"


@pytest.mark.parametrize("content", ["", "{", "[]", '{"pid": 1}', '{"url": "x", "pid": "y"}'])
def test_a_broken_address_file_is_no_server(home: Path, content: str) -> None:
    (home / "server.json").write_text(content)
    assert HomeServer(str(home)).find() is None


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_token_that_others_can_read_is_refused(
    home: Path, running: FakeServer, mode: int
) -> None:
    (home / "token").chmod(mode)
    with pytest.raises(AuthenticationException, match="can be read by others") as caught:
        HomeServer(str(home)).find()
    assert caught.value.hint == f"chmod 600 {home / 'token'}"


def test_a_server_of_another_version_is_told(home: Path, running: FakeServer) -> None:
    running.api, running.version = "2", "9.0"
    with pytest.raises(VersionMismatchError, match=r"Wherry 9\.0 \(API 2\)"):
        HomeServer(str(home)).ensure()


def test_status_of_a_running_server(home: Path, running: FakeServer) -> None:
    status = HomeServer(str(home)).status()
    assert status.running
    assert (status.url, status.pid, status.api) == (running.url, os.getpid(), 1)
    assert status.started_at == "2026-01-01T00:00:00Z"


def test_stopping_where_nothing_runs(home: Path) -> None:
    assert HomeServer(str(home)).stop() is False


def test_missing_packages_are_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ServerUnavailableError, match=r"no wherry\.api") as caught:
        HomeServer(str(home)).ensure()
    assert "pip install 'wherry[server]'" in str(caught.value.hint)


def test_a_home_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for home in (tmp_path / "file", tmp_path / "file" / "home"):
        with pytest.raises(ServerUnavailableError, match="no server can be started in") as caught:
            HomeServer(str(home)).ensure()
        assert "WHERRY_HOME names another" in str(caught.value.hint)


def test_a_server_that_cannot_start_shows_its_last_words(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spawn(_home: str, log: int) -> int:
        command = [sys.executable, "-c", "import sys; sys.exit('the port is taken')"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
        process.wait()
        return process.pid

    (home / "server.log").write_text("words of last week\n")
    monkeypatch.setattr(server_module, "_spawn", spawn)
    monkeypatch.setattr(server_module, "require_server_packages", lambda home: None)
    with pytest.raises(ServerUnavailableError, match="the port is taken") as caught:
        HomeServer(str(home)).ensure()
    assert "last week" not in str(caught.value)


def test_a_server_that_never_answers_is_given_up(
    home: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server_module, "_spawn", lambda home, log: os.getpid())
    monkeypatch.setattr(server_module, "require_server_packages", lambda home: None)
    with pytest.raises(ServerUnavailableError, match=r"did not answer within 3 s"):
        HomeServer(str(home), start_timeout_s=3).ensure()
    assert "starting the Wherry server" in capfd.readouterr().err


def test_a_server_that_is_slow_to_start_gets_no_rival(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = [sys.executable, "-c", "import time; time.sleep(600)", "wherry.api"]
    started: list[subprocess.Popen[bytes]] = []

    def spawn(_home: str, _log: int) -> int:
        started.append(subprocess.Popen(slow))
        return started[-1].pid

    monkeypatch.setattr(server_module, "_spawn", spawn)
    monkeypatch.setattr(server_module, "require_server_packages", lambda home: None)
    try:
        for _ in range(2):
            with pytest.raises(ServerUnavailableError, match="it goes on starting"):
                HomeServer(str(home), start_timeout_s=0.2).ensure()
        assert len(started) == 1
        started[0].kill()
        started[0].wait()
        with pytest.raises(ServerUnavailableError, match="it goes on starting"):
            HomeServer(str(home), start_timeout_s=0.2).ensure()
        assert len(started) == 2
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_ten_racing_clients_start_one_server_and_stop_ends_it(home: Path) -> None:
    clients = [start_client(home) for _ in range(10)]
    outcomes = [client.communicate(timeout=120) for client in clients]
    urls = {out.strip() for out, _ in outcomes}
    assert len(urls) == 1, outcomes
    assert urls != {""}, outcomes
    pids = (home / "starts").read_text().split()
    assert len(pids) == 1
    server = HomeServer(str(home))
    assert server.status().running
    assert server.stop() is True
    assert not server.status().running


def test_a_stopped_server_is_not_started_by_those_who_only_follow(home: Path) -> None:
    (home / "stopped").touch()
    with pytest.raises(ServerUnavailableError, match="was stopped"):
        HomeServer(str(home)).relocate(False)


def test_the_client_of_a_home_follows_its_server_to_another_port(
    home: Path, running: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect()
    client.post("/workspaces", json={"name": "a"})
    running.close()
    again = FakeServer()
    publish(home, again, os.getpid())
    client.post("/workspaces", json={"name": "b"})
    assert list(again.workspaces) == ["b"]
    client.close()
    again.close()


def test_inside_a_run_its_own_server_and_token_are_used(
    home: Path, running: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = running.new_run("lab", {"experiment": "e"})
    monkeypatch.setenv("WHERRY_RUN_ID", run["id"])
    monkeypatch.setenv("WHERRY_RUN_TOKEN", f"run:{run['id']}")
    monkeypatch.setenv("WHERRY_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("WHERRY_SERVER_FILE", str(home / "server.json"))
    client = connect()
    assert client.get(f"/runs/{run['id']}")["id"] == run["id"]
    assert running.headers[-1]["Authorization"] == f"Bearer run:{run['id']}"


def test_in_a_compute_instance_the_server_is_followed_and_no_file_keeps_its_address(
    home: Path, running: FakeServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHERRY_SERVER", "http://127.0.0.1:9")
    monkeypatch.setenv("WHERRY_SERVER_FILE", str(home / "server.json"))
    monkeypatch.setenv("WHERRY_TOKEN", TOKEN)
    Workspace.create("a").write_config(tmp_path)
    assert "server" not in json.loads((tmp_path / ".azureml" / "config.json").read_text())
    running.close()
    again = FakeServer()
    publish(home, again, os.getpid())
    Workspace.create("b")
    assert list(again.workspaces) == ["b"]
    connection.forget()
    again.close()


def test_inside_a_run_no_server_is_started(
    home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WHERRY_RUN_ID", "r")
    monkeypatch.setenv("WHERRY_RUN_TOKEN", "t")
    with pytest.raises(ServerUnavailableError, match="was not told where its server is"):
        connect()
    monkeypatch.setattr("wherry.sdk.client._PAUSES_S", (0.0,))
    monkeypatch.setenv("WHERRY_SERVER", "http://127.0.0.1:9")
    with pytest.raises(ServerUnavailableError):
        connect().get("/workspaces")
    assert not (home / "server.json").exists()


def test_the_log_tail(home: Path) -> None:
    server = HomeServer(str(home))
    assert server.log_tail() == []
    (home / "server.log").write_text("".join(f"line {n}\n" for n in range(100)))
    assert server.log_tail(2) == ["line 98", "line 99"]


def test_a_server_is_started_with_absolute_paths_and_none_of_a_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from wherry.sdk.settings import server_environment

    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}/abs")
    monkeypatch.setenv("WHERRY_TOKEN", "mine")
    env = server_environment("/home/x")
    assert env["PYTHONPATH"] == f"{tmp_path / 'src'}{os.pathsep}/abs"
    assert env["WHERRY_HOME"] == "/home/x"
    assert "WHERRY_TOKEN" not in env


def test_the_settings_file_of_the_home_counts(home: Path) -> None:
    from wherry.sdk.settings import load

    (home / "config").write_text("workspace = from-file\n")
    settings = load()
    assert (settings.workspace, settings.origin("workspace")) == ("from-file", "file")
    assert json.dumps(settings.rows())
