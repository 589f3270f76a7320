"""The lab as Azure's course has it: start the compute instance, open Jupyter, run the notebook,
stop the instance. From the command line, through the server, with a real JupyterLab.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.homes import Home
from tests.jupyter import Visitor
from tests.session.conftest import REPOSITORY
from wherry import Workspace
from wherry.compute import ComputeInstance, ComputeTarget, ComputeTargetException

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

NOTEBOOK = "05B - Working with Compute Targets.ipynb"
CELLS = [
    "from wherry import Experiment, ScriptRunConfig, Workspace\n"
    "ws = Workspace.from_config()\n"
    "print(ws.name, 'loaded')",
    "import os\n"
    "os.makedirs('diabetes', exist_ok=True)\n"
    "with open('diabetes/train.py', 'w') as file:\n"
    "    file.write('from wherry import Run; Run.get_context().log(\"AUC\", 0.88)')",
    "from wherry.compute import AmlCompute, ComputeTarget, ComputeTargetException\n"
    "try:\n"
    "    cluster = ComputeTarget(workspace=ws, name='aml-cluster')\n"
    "    print('Found existing cluster, use it.')\n"
    "except ComputeTargetException:\n"
    "    print('Creating new cluster.')\n"
    "    config = AmlCompute.provisioning_configuration(vm_size='STANDARD_DS11_V2', max_nodes=2)\n"
    "    cluster = ComputeTarget.create(ws, 'aml-cluster', config)\n"
    "cluster.wait_for_completion(show_output=True)",
    "config = ScriptRunConfig('diabetes', 'train.py', compute_target=cluster)\n"
    "run = Experiment(ws, 'diabetes-training').submit(config)\n"
    "run.wait_for_completion()\n"
    "print(run.get_status(), run.get_metrics())",
]


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
    assert shown[0] == "w loaded\n"
    assert "Creating new cluster." in shown[2]
    assert shown[3] == "Completed {'AUC': 0.88}\n"
    (run,) = workspace.experiments["diabetes-training"].get_runs()
    assert (run.get_status(), run.get_metrics()) == ("Completed", {"AUC": 0.88})
    assert {each.name for each in ComputeTarget.list(workspace)} == {"local", "nb", "aml-cluster"}

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
        assert kernel.run("import os; print(os.listdir('diabetes'))") == "['train.py']\n"
    instance.stop(wait_for_completion=True)


def test_only_whoever_was_let_in_sees_anything(lab: Home) -> None:
    workspace = Workspace.get("w")
    config = ComputeInstance.provisioning_configuration()
    instance = ComputeTarget.create(workspace, "nb", config)
    assert isinstance(instance, ComputeInstance)
    instance.wait_for_completion()
    address = instance.sign_in_url()
    visitor = Visitor(address)
    assert visitor.answer("GET", "api/contents")[0] == 200
    assert visitor.answer("GET", "api/contents", token="")[0] == 401
    with pytest.raises(AssertionError):
        Visitor(address)  # it was good once
