"""What was acknowledged is there, once, whatever dies meanwhile."""

from __future__ import annotations

import subprocess
from functools import partial
from pathlib import Path

import pytest

from tests.homes import Home, wait_until
from wherry import Workspace
from wherry.sdk.server import HomeServer

from .clients import Clients, all_told, told

pytestmark = pytest.mark.mlflow

WRITERS, POINTS = 100, 20


@pytest.fixture
def own(home: Home, python: str, tmp_path: Path) -> Clients:
    """With a server of its own, to be killed."""
    return Clients(python, tmp_path)


def kill_and_start(home: Home) -> None:
    home.kill_server()
    HomeServer(str(home.home)).ensure()


def has_come(process: subprocess.Popen[str], seen: Path, lines: int) -> bool:
    """So far, or to its end."""
    written = len(seen.read_text().splitlines()) if seen.exists() else 0
    return written >= lines or process.poll() is not None


def test_a_server_is_killed_while_batches_come(home: Home, own: Clients) -> None:
    seen = own.folder / "seen"
    process = own.start("""
from mlflow.entities import Metric
run = client.create_run("0").info.run_id
with open("seen", "w", buffering=1) as seen:
    for number in range(60):
        steps = range(number * 100, number * 100 + 100)
        batch = [Metric("loss", float(step), 1000 + step, step) for step in steps]
        client.log_batch(run, metrics=batch)
        seen.write(f"{number}\\n")
tell(run)
""")
    for wanted in (5, 25, 45):
        wait_until(partial(has_come, process, seen, wanted))
        kill_and_start(home)
    run = Workspace.get("default").get_run(told(process))
    assert run.get_metrics()["loss"] == [float(step) for step in range(6000)]


def test_a_server_is_killed_while_files_come(home: Home, own: Clients) -> None:
    seen = own.folder / "seen"
    process = own.start("""
run = client.create_run("0").info.run_id
content = os.urandom(1 << 20)
with open("seen", "w", buffering=1) as seen:
    for number in range(30):
        with open(f"{number}.bin", "wb") as file:
            file.write(content * 4 + str(number).encode())
        client.log_artifact(run, f"{number}.bin", "data")
        seen.write(f"{number}\\n")
client.download_artifacts(run, "data", os.getcwd())
def content_of(path):
    with open(path, "rb") as file:
        return file.read()
tell([run, [content_of(f"data/{n}.bin") == content_of(f"{n}.bin") for n in range(30)]])
""")
    for wanted in (3, 15):
        wait_until(partial(has_come, process, seen, wanted))
        kill_and_start(home)
    run_id, alike = told(process)
    assert alike == [True] * 30
    names = Workspace.get("default").get_run(run_id).get_file_names()
    assert sorted(names) == sorted(f"data/{number}.bin" for number in range(30))


def test_a_hundred_write_at_once(home: Home, newest: str, tmp_path: Path) -> None:
    """Four programs with 25 threads each, all into one run and each into its own."""
    clients = Clients(newest, tmp_path)
    shared = clients.ask('tell(client.create_run("0").info.run_id)')
    program = f"""
from concurrent.futures import ThreadPoolExecutor
process = int(sys.argv[1])
def write(number):
    mine = client.create_run("0", tags={{"writer": str(process * 25 + number)}}).info.run_id
    for step in range({POINTS}):
        client.log_metric("{shared}", f"m{{number}}", process * 1000 + step, 1000 + process, step)
        client.log_metric(mine, "mine", step, step=step)
    client.log_param("{shared}", f"p{{process}}-{{number}}", 1)
    client.set_terminated(mine)
    return mine
with ThreadPoolExecutor(25) as pool:
    tell(list(pool.map(write, range(25))))
"""
    processes = [clients.start(program, str(number)) for number in range(WRITERS // 25)]
    ids = [each for found in all_told(processes) for each in found]
    workspace = Workspace.get("default")
    assert len(set(ids)) == WRITERS
    for run_id in ids[::10]:
        run = workspace.get_run(run_id)
        assert run.get_status() == "Completed"
        assert run.get_metrics()["mine"] == list(range(POINTS))
    metrics = workspace.get_run(shared).get_metrics()
    assert len(metrics) == 25
    wanted = sorted(process * 1000 + step for process in range(4) for step in range(POINTS))
    assert all(sorted(values) == wanted for values in metrics.values())
    found = clients.ask(f'tell(len(client.get_run("{shared}").data.params))')
    assert found == WRITERS
