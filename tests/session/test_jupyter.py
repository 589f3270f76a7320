"""A compute instance's session with a real JupyterLab: ``make jupyter``."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.homes import wait_until
from tests.jupyter import Lab
from tests.session.conftest import Instance

pytestmark = [pytest.mark.jupyter, pytest.mark.timeout(900)]

_SUBMITS = """
from wherry import Experiment, Run, ScriptRunConfig, Workspace
ws = Workspace.from_config()
import os
os.makedirs("code", exist_ok=True)
with open("code/train.py", "w") as file:
    file.write("from wherry import Run; Run.get_context().log('accuracy', 0.91)")
run = Experiment(ws, "lab").submit(ScriptRunConfig("code", "train.py"))
run.wait_for_completion()
print(ws.name, run.get_status(), run.get_metrics(), type(Run.get_context()).__name__)
"""


def test_a_notebook_submits_runs_and_keeps_what_it_installed(instance: Instance) -> None:
    lab = instance.start()
    assert instance.tags()["session.phase"] == "Ready"
    assert lab.answer("GET", "api/contents", token="wrong")[0] == 403
    lab.call("PUT", "api/contents/first.ipynb", {"type": "notebook", "content": _notebook()})
    with lab.kernel(path="first.ipynb") as kernel:
        assert kernel.run(_SUBMITS).split() == [
            "w", "Completed", "{'accuracy':", "0.91}", "_OfflineRun",
        ]  # fmt: skip
        kernel.run("%pip install toolz==1.0.0")
        assert kernel.run("import sys; print(sys.prefix)").startswith(str(instance.folder))
        assert kernel.run("import toolz; print(toolz.__version__)") == "1.0.0\n"
        said = kernel.run("!pip install --quiet toolz==0.12.1 && pip list | grep toolz")
        assert said.split()[-2:] == ["toolz", "0.12.1"]
        kernel.send("import time; time.sleep(10000)")
    private = Path(instance.tags()["session.socket"]).parent
    instance.stop()
    assert not private.exists()
    lab = instance.start()
    assert lab.call("GET", "api/contents/first.ipynb")["type"] == "notebook"
    with lab.kernel() as kernel:
        assert kernel.run("import toolz, pandas; print(toolz.__version__)") == "0.12.1\n"
        assert "time.sleep(10000)" in kernel.run("%history -g -l 9")


def test_terminals_know_the_workspace_and_end_with_the_session(instance: Instance) -> None:
    lab = instance.start()
    terminal = lab.terminal()
    assert str(instance.folder) in terminal.run("pwd")
    assert f"{instance.folder}/.wherry/venv/bin/python" in terminal.run("which python")
    assert "experiments: 1" in terminal.run(
        "python -c 'from wherry import Workspace;"
        ' print("experi" + "ments:", len(Workspace.from_config().experiments))\''
    )
    assert "Running" in terminal.run("wherry ps --all -o json")
    terminal.run("mkdir -p work && cd work")
    terminal.run("(setsid nohup sleep 10000 >/dev/null 2>&1 &)")
    assert instance.wherry.running("10000")
    terminal.close()
    instance.stop()
    assert instance.wherry.running("10000") == []
    assert f"{instance.folder}/work" in instance.start().terminal().run("pwd")


def test_a_creation_script_that_fails_is_told_and_jupyter_is_there_to_look(
    instance: Instance,
) -> None:
    creation = {"content": "pip --version\necho no $1 >&2\nexit 3\n", "arguments": "'such thing'"}
    startup = {"content": "echo $WHERRY_INSTANCE > started\n"}
    lab = instance.start(create=True, creation_script=creation, startup_script=startup)
    tags = instance.tags()
    assert tags["session.phase"] == "UserSetupFailed"
    assert tags["session.created"] == "true"
    sentence, *lines = tags["session.error"].splitlines()
    assert sentence == "the creation script failed with exit code 3"
    assert lines[-1] == "no such thing"
    assert "no such thing" in instance.log()
    assert "no such thing" in (instance.folder / ".wherry/logs/creation.log").read_text()
    assert lab.call("GET", "api/contents/started?type=file")["content"] == "nb\n"


def test_a_jupyter_that_is_killed_comes_back(instance: Instance) -> None:
    lab = instance.start()
    with lab.kernel() as kernel:
        pid = int(kernel.run("import os; print(os.getpid(), flush=True)"))
    server = psutil.Process(pid).parent()
    assert server is not None
    os.kill(server.pid, signal.SIGKILL)
    wait_until(lambda: not psutil.pid_exists(pid), 300)
    wait_until(lambda: instance.log().count("JupyterLab of nb answers") == 2, 300)
    assert lab.call("GET", "api/kernels") == []
    with lab.kernel() as kernel:
        assert kernel.run("print(6 * 7)") == "42\n"
    assert "JupyterLab was ended by signal 9; it is started again" in instance.log()


def test_environments_become_kernels(instance: Instance, tmp_path: Path) -> None:
    conda = {"dependencies": ["python=3.11", {"pip": ["six==1.16.0"]}]}
    kernels = [
        {"name": "mine", "version": "3", "specification": {
            "python": {"user_managed": False, "conda": conda}, "variables": {"COLOUR": "$red"}}},
        {"name": "boxed", "version": "1", "specification": {
            "docker": {"enabled": True, "image": "python:3.11"}}},
        {"name": "theirs", "version": "2", "specification": {
            "python": {"user_managed": True, "interpreter": _bare_python(tmp_path)}}},
    ]  # fmt: skip
    lab = instance.start(kernels=kernels)
    name = "wherry-mine-3"
    wait_until(lambda: name in _kernels(lab), 500)
    wait_until(lambda: "has no ipykernel" in instance.log(), 300)
    assert _kernels(lab) == {"python3": "Python 3", name: "mine (version 3)"}
    assert "there is no kernel for environment 'boxed' version 1" in instance.log()
    with lab.kernel(name) as kernel:
        assert kernel.run("import six, os; print(six.__version__, os.environ['COLOUR'])") == (
            "1.16.0 $red\n"
        )
        kernel.run("%pip install toolz==1.0.0")
        where = kernel.run("import toolz; print(toolz.__file__)")
        assert where.startswith(str(instance.folder))
        assert kernel.run("from wherry import Workspace; print(Workspace.from_config().name)") == (
            "w\n"
        )
    instance.stop()
    assert _kernels(instance.start()) == {"python3": "Python 3"}


def _bare_python(folder: Path) -> str:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    return str(folder / "bare" / "bin" / "python")


def _kernels(lab: Lab) -> dict[str, str]:
    found = lab.call("GET", "api/kernelspecs")["kernelspecs"]
    return {name: each["spec"]["display_name"] for name, each in found.items()}


def _notebook() -> dict[str, object]:
    return {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


def test_a_runner_that_is_killed_disturbs_no_notebook(instance: Instance) -> None:
    lab = instance.start()
    with lab.kernel() as kernel:
        pid = int(kernel.run("import os; x = 42; print(os.getpid())"))
        lab.terminal().run("(setsid nohup sleep 10000 >/dev/null 2>&1 &)")
        runner = psutil.Process(pid).parents()[2]
        runner.kill()
        assert kernel.run("print(x)") == "42\n"
    instance.stop()
    assert instance.wherry.running("10000") == []
