"""The lab as Azure's course has it: start the compute instance, open Jupyter, run the notebook,
stop the instance. From the command line, through the server, with a real JupyterLab and the cells
of docs/lab.md.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.homes import Home, wait_until
from tests.jupyter import Visitor
from tests.session.conftest import REPOSITORY
from wherry import Workspace
from wherry.compute import ComputeInstance, ComputeTarget, ComputeTargetException

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

_PATIENCE_S = 300.0
NOTEBOOK = "05B - Working with Compute Targets.ipynb"
PAGE = REPOSITORY / "docs" / "lab.md"
CELLS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
LOSSES = [1.0, 0.5, 1 / 3, 0.25, 0.2]


@pytest.fixture
def lab(home: Home, shared_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    monkeypatch.setenv("WHERRY_CACHE", str(shared_cache))
    monkeypatch.setenv("UV_PYTHON_DOWNLOADS", "never")
    monkeypatch.setenv("WHERRY_WORKSPACE", "w")
    monkeypatch.setenv("PATH", f"{REPOSITORY / '.tools' / 'bin'}:{os.environ['PATH']}")
    workspace = Workspace.create("w", exist_ok=True)
    yield home
    for target in workspace.compute_targets.values():
        if target.type != "local":
            target.delete(cancel_active_runs=True)
            target.wait_for_completion(is_delete_operation=True)


def wherry(*words: str) -> str:
    command = [sys.executable, "-m", "wherry.cli.main", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=800)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _cell(source: str) -> dict[str, Any]:
    """As notebooks hold it."""
    kept = {"cell_type": "code", "source": source, "metadata": {}}
    return {**kept, "outputs": [], "execution_count": None}


def test_the_lab(lab: Home) -> None:
    workspace = Workspace.get("w")
    with pytest.raises(ComputeTargetException, match="ComputeTargetNotFound"):
        ComputeInstance(workspace, "nb")
    wherry("compute", "create", "nb", "--type", "computeinstance", "--no-wait")
    wherry("compute", "stop", "nb")
    assert ComputeInstance(workspace, "nb").state == "Stopped"

    wherry("compute", "start", "nb")
    assert wherry("compute", "show", "nb", "--query", "instance.state", "-o", "tsv") == "Running\n"
    address = wherry("compute", "open", "nb", "--print").strip()
    jupyter = Visitor(address)
    assert "JupyterLab of nb answers" in wherry("compute", "logs", "nb")

    cells = [_cell(each) for each in CELLS]
    notebook = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    place = f"api/contents/{quote(NOTEBOOK)}"
    jupyter.call("PUT", place, {"type": "notebook", "content": notebook})
    listed = [each["name"] for each in jupyter.call("GET", "api/contents")["content"]]
    assert NOTEBOOK in listed
    opened = jupyter.call("GET", place)["content"]["cells"]
    with jupyter.kernel(path=NOTEBOOK) as kernel:
        shown = [kernel.run(cell["source"]) for cell in opened]
        first_kernel = kernel.id
    assert shown[0] == "w ['local', 'nb']\n"
    assert "Minimum number of nodes requested have been provisioned" in shown[2]
    assert "trained\n" in shown[3]
    assert shown[3].endswith(f"{{'loss': {LOSSES}}}\n")
    (run,) = workspace.experiments["churn"].get_runs()
    assert (run.get_status(), run.get_metrics()) == ("Completed", {"loss": LOSSES})
    assert {each.name for each in ComputeTarget.list(workspace)} == {"local", "nb", "cpu-cluster"}

    jupyter.call("DELETE", f"api/kernels/{first_kernel}")
    wherry("compute", "stop", "nb")
    instance = ComputeInstance(workspace, "nb")
    assert (instance.state, instance.applications) == ("Stopped", [])
    status, said = jupyter.answer("GET", "api/contents")
    assert (status, "is Stopped" in json.loads(said)["detail"]) == (409, True)

    instance.start(wait_for_completion=True)
    again = Visitor(instance.sign_in_url())
    assert again.call("GET", place)["type"] == "notebook"
    with again.kernel(path=NOTEBOOK) as kernel:
        assert kernel.run("import os; print(os.listdir('churn'))") == "['train.py']\n"
    instance.stop(wait_for_completion=True)


def test_only_whoever_was_let_in_sees_anything(lab: Home) -> None:
    workspace = Workspace.get("w")
    instance = _made(workspace, "nb")
    address = instance.sign_in_url()
    visitor = Visitor(address)
    assert visitor.answer("GET", "api/contents")[0] == 200
    assert visitor.answer("GET", "api/contents", token="")[0] == 401
    with pytest.raises(AssertionError):
        Visitor(address)  # it was good once


def test_one_that_is_idle_is_stopped_and_one_that_works_silently_is_not(lab: Home) -> None:
    """In a cell, or in a terminal; nobody is connected to any."""
    workspace = Workspace.get("w")
    quiet, busy, typed = (_made(workspace, name) for name in ("quiet", "busy", "typed"))
    with Visitor(quiet.sign_in_url()).kernel() as kernel:
        assert kernel.run("print('done')") == "done\n"
    jupyter = Visitor(busy.sign_in_url())
    with jupyter.kernel() as kernel:
        kernel.send("import time\nfor _ in range(100000): time.sleep(0.1)")
    terminal = Visitor(typed.sign_in_url()).terminal()
    terminal.run("{ sleep 54321 & }")
    terminal.close()
    Visitor(quiet.sign_in_url()).terminal().close()  # a shell at its prompt is idle
    wait_until(lambda: _said(workspace, typed).get("session.terminals") == "busy", _PATIENCE_S)
    for each in (quiet, busy, typed):  # whole minutes would take as long
        each._patch({"config": {"idle_seconds": 5}})
    wait_until(lambda: quiet.get_status().state == "Stopped", _PATIENCE_S)
    assert "IdleShutdown" in str(quiet.status.last_operation)
    assert busy.get_status().state == typed.get_status().state == "Running"
    jupyter.call("POST", f"api/kernels/{kernel.id}/interrupt")
    for program in lab.running("54321"):
        program.kill()
    wait_until(lambda: busy.get_status().state == "Stopped", _PATIENCE_S)
    wait_until(lambda: typed.get_status().state == "Stopped", _PATIENCE_S)


def _said(workspace: Workspace, instance: ComputeInstance) -> dict[str, str]:
    """By its session."""
    run_id = str(instance._record["instance"]["session_run_id"])
    return dict(workspace._client.get(f"/runs/{run_id}")["tags"])


def _made(workspace: Workspace, name: str) -> ComputeInstance:
    config = ComputeInstance.provisioning_configuration()
    instance = ComputeTarget.create(workspace, name, config)
    assert isinstance(instance, ComputeInstance)
    instance.wait_for_completion()
    return instance
