"""Secrets that are planted in a real home, and looked for wherever they must not be."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.builds.index import Index, serve
from tests.homes import Home, wait_until
from tests.postgres import find_programs
from wherry import (
    CondaDependencies,
    Environment,
    Experiment,
    Run,
    RunConfiguration,
    ScriptRunConfig,
    Workspace,
)
from wherry.sdk.server import HomeServer

PASSWORD, API_KEY, DATABASE, REMOTE = (f"geheim-{n}-4711" for n in "abcd")
INDEX, CHANNEL, REGISTRY, ARGUMENT, SIGNATURE = (f"geheim-{n}-0815" for n in "efghi")

_PATHS = ("runs", "runs/plan")
SCRIPT = """
import os, time
from wherry import Run
run = Run.get_context()
run.log("length", len(os.environ["PASSWORD"] + os.environ["API_KEY"]))
child = run.child_run("below")
child.complete()
with open(os.environ["TOLD"] + ".part", "w") as file:
    file.write(os.environ["WHERRY_RUN_TOKEN"])
os.rename(os.environ["TOLD"] + ".part", os.environ["TOLD"])
while not os.path.exists(os.environ["TOLD"] + ".go"):
    time.sleep(0.02)
"""


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def database(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str | None:
    """Its address with a password, which the throw-away server does not ask for.

    To be made before the home, or PostgreSQL's processes would count as the home's.
    """
    monkeypatch.setenv("WHERRY_LOG_LEVEL", "debug")
    if request.param == "sqlite":
        return None
    url = str(request.getfixturevalue("postgres_url"))
    name = f"secrets_{uuid.uuid4().hex}"
    _program("psql", "-q", url, "-c", f"CREATE DATABASE {name}")
    url = url.replace("/postgres?", f"/{name}?").replace("@", f":{DATABASE}@", 1)
    monkeypatch.setenv("WHERRY_DATABASE_URL", url)
    return url


def test_secrets_are_nowhere_in_clear(database: str | None, home: Home) -> None:
    told = home.folder / "told"
    run = _submit(home, told)
    wait_until(told.exists)
    attempt_token = told.read_text()
    token, key = ((home.home / name).read_text() for name in ("token", "secret.key"))
    planted = [PASSWORD, API_KEY, DATABASE, REMOTE, token, key, attempt_token]

    assert _found(planted, _command_lines()) == set()
    assert _found(planted, _refusals(home, token, attempt_token)) == set()
    _check_modes(home, planted)

    (home.folder / "told.go").touch()
    assert run.wait_for_completion()["status"] == "Completed"
    assert run.get_metrics() == {"length": len(PASSWORD + API_KEY)}
    # What is cleared away held a token for the runner.
    wait_until(lambda: _holders(home, planted) == {"token", "secret.key"})
    if database is not None:
        assert _found(planted, [_dump(database)]) == set()
    HomeServer(str(home.home)).stop()
    assert _holders(home, planted) == {"token", "secret.key"}


def test_secrets_of_an_environment_are_nowhere_in_clear(
    database: str | None, home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    planted = [INDEX, CHANNEL, REGISTRY, ARGUMENT, SIGNATURE, PASSWORD]
    home.script("import private, direct, os; print(len(os.environ['PASSWORD']))")
    with serve(Index(login=f"me:{INDEX}")) as index:
        run = _submit_environment(home, index)
        wait_until(index.asked.is_set)
        assert _found(planted, _command_lines()) == set()
        _check_modes(home, planted)
        _check_cache(home.folder / "cache", planted)
        index.let_go.set()
        assert run.wait_for_completion()["status"] == "Completed"
    for name in ("environment/lock.json", "azureml-logs/20_image_build_log.txt"):
        run.download_file(name, str(home.folder / "file"))
        assert _found(planted, [_read(home.folder / "file")]) == set(), name
    _check_cache(home.folder / "cache", planted)
    wait_until(lambda: _holders(home, planted) == set())
    if database is not None:
        assert _found(planted, [_dump(database)]) == set()
    HomeServer(str(home.home)).stop()
    assert _holders(home, planted) == set()


def _submit_environment(home: Home, index: Index) -> Any:
    """With an index that asks who it is; another one is registered and never made."""
    index.add("private", "1.0")
    index.add("direct", "1.0")
    index.let_go.clear()
    address = index.url.replace("://", f"://me:{INDEX}@")
    file = f"direct @ {address}/files/direct-1.0-py3-none-any.whl?sig={SIGNATURE}"
    environment = Environment("train")
    environment.python.user_managed_dependencies = False
    environment.python.conda_dependencies = CondaDependencies.create(
        pip_packages=[f"--index-url {address}/simple", "private", file]
    )
    environment.environment_variables = {"PASSWORD": PASSWORD}
    workspace = Workspace.create("w", exist_ok=True)
    kept = environment.register(workspace)
    other = Environment("other")
    other.python.conda_dependencies = CondaDependencies.create(conda_packages=["six"])
    other.python.conda_dependencies.add_channel(f"https://host/t/{CHANNEL}/own")
    other.docker.enabled = True
    other.docker.base_image = "team/image"
    other.docker.base_image_registry.address = "registry.example.com"
    other.docker.base_image_registry.username = "me"
    other.docker.base_image_registry.password = REGISTRY
    other.docker.arguments = ["-e", f"KEY={ARGUMENT}", f"--env=KEY={ARGUMENT}"]
    found = other.register(workspace)
    assert found.docker.base_image_registry.password == REGISTRY
    assert found.docker.arguments[1] == f"KEY={ARGUMENT}"
    assert f"https://host/t/{CHANNEL}/own" in found.python.conda_dependencies.conda_channels
    source = ScriptRunConfig(str(home.source), "train.py", environment=kept)
    return Experiment(workspace, "e").submit(source)


def _check_cache(folder: Path, planted: list[str]) -> None:
    """What a build needs on its way only this user can read; what it made holds nothing."""
    for path in folder.rglob("*"):
        if path.is_file() and _found(planted, [_read(path)]):
            part = folder / "environments" / path.relative_to(folder / "environments").parts[0]
            held = path.parent if part.name == "work" else part
            assert part.name in ("work", "uv"), path
            assert held.stat().st_mode & 0o777 == 0o700, path


def _submit(home: Home, told: Path) -> Any:
    git = home.source / ".git"
    git.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text(f'[remote "origin"]\n\turl = https://me:{REMOTE}@host/repo.git\n')
    home.script(SCRIPT)
    config = RunConfiguration()
    config.environment_variables = {"PASSWORD": PASSWORD, "TOLD": str(told)}
    config.environment.environment_variables = {"API_KEY": API_KEY}
    source = ScriptRunConfig(str(home.source), "train.py", run_config=config)
    return Experiment(Workspace.create("w", exist_ok=True), "e").submit(source)


def _command_lines() -> list[str]:
    """What ``ps`` shows to everybody on the machine."""
    lines = []
    for process in psutil.process_iter():
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    assert any("wherry.api" in line for line in lines)
    return lines


def _refusals(home: Home, token: str, attempt_token: str) -> list[str]:
    """What the server answers to requests that it cannot carry out."""
    odd: list[Any] = [
        [PASSWORD],
        PASSWORD,
        {"A": {"B": PASSWORD}},
        {"A": [PASSWORD]},
        {f"A={PASSWORD}": ""},
        {"A": PASSWORD + "\0"},
    ]
    answers = []
    for variables in odd:
        for fields in (
            {"environment_variables": variables},
            {"environment": {"environment_variables": variables}},
        ):
            body = {"experiment": "e", "script": "a.py", **fields}
            for path, sent in (
                ("runs", body),
                ("runs/bulk", {"runs": [body]}),
                ("runs/plan", body),
            ):
                answers.append(_ask(home, f"workspaces/w/{path}", token, sent))
    for wrong in (f"{token}x", f"{attempt_token}x", attempt_token.replace("wa.", "wa.x")):
        answers.append(_ask(home, "workspaces", wrong))
        answers.append(_ask(home, f"workspaces?token={token}", wrong))
    answers.append(_ask(home, "server/stop", attempt_token, {}))
    return answers


def _ask(home: Home, path: str, token: str, body: Any = None) -> str:
    url = json.loads((home.home / "server.json").read_text())["url"]
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/v1/{path}", data)
    request.add_header("Authorization", f"Bearer {token}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request)
    with caught.value as reply:
        assert 400 <= caught.value.code < 500
        return str(reply.headers) + reply.read().decode()


def _check_modes(home: Home, planted: list[str]) -> None:
    """Where a secret lies on disk while the run goes on, nobody else can look."""
    for path in home.home.rglob("*"):
        if path.is_file() and _found(planted, [_read(path)]):
            assert path.stat().st_mode & 0o777 == 0o600, path
            assert path.parent.stat().st_mode & 0o777 == 0o700, path.parent
    for name in (".", "blobs", "logs", "nodes", "nodes/local"):
        assert (home.home / name).stat().st_mode & 0o777 == 0o700, name
    for attempt in _attempts(home):
        assert attempt.stat().st_mode & 0o777 == 0o700
    for name in ("server.log", "server.json", "server.lock", "token", "secret.key"):
        assert (home.home / name).stat().st_mode & 0o777 == 0o600, name
    for path in home.home.glob("wherry.db*"):
        assert path.stat().st_mode & 0o777 == 0o600, path


def _attempts(home: Home) -> list[Path]:
    folder = home.home / "nodes" / "local"
    return [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _holders(home: Home, planted: list[str]) -> set[str]:
    """The files of the home in which any of them lies: logs, database, blobs and all."""
    files = [path for path in home.home.rglob("*") if path.is_file()]
    assert {"server.log"} <= {path.name for path in files}
    return {path.name for path in files if _found(planted, [_read(path)])}


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("latin-1")
    except FileNotFoundError:  # gone meanwhile
        return ""


def _dump(database: str) -> str:
    text = _program("pg_dump", database)
    assert "PASSWORD" in text
    return text


def _program(name: str, *arguments: str) -> str:
    programs = find_programs()
    assert programs is not None
    command = [str(programs / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _found(planted: Iterable[str], texts: Iterable[str]) -> set[str]:
    return {secret for text in texts for secret in planted if secret in text}


HANDS_ON = """
from wherry import Environment, Run, ScriptRunConfig
run = Run.get_context()
env = Environment.get(run.experiment.workspace, "train")
print(env.environment_variables, run.get_environment().environment_variables)
config = ScriptRunConfig(".", "child.py", environment=env)
run.submit_child(config).wait_for_completion()
"""


def test_a_run_hands_on_an_environment_whose_secrets_it_is_not_shown(home: Home) -> None:
    registered = Environment("train")
    registered.environment_variables = {"PASSWORD": PASSWORD}
    registered.register(Workspace.create("w", exist_ok=True))
    home.script("import os; print(len(os.environ['PASSWORD']))", "child.py")
    own = Environment("own")
    own.environment_variables = {"API_KEY": "of its own"}
    run = home.submit(HANDS_ON, environment=own)
    run.wait_for_completion()
    assert _output(run) == "{'PASSWORD': '(hidden)'} {'API_KEY': 'of its own'}\n"
    (child,) = run.get_children()
    assert _output(child) == f"{len(PASSWORD)}\n"
    assert child.get_environment().environment_variables == {"PASSWORD": PASSWORD}


def _output(run: Run) -> str:
    pieces: list[bytes] = []
    run.stream_logs(pieces.append, follow=False)
    return b"".join(pieces).decode()
