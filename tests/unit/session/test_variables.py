from __future__ import annotations

import json
from pathlib import Path

import pytest

from wherry.sdk.settings import run_context
from wherry.session.contract import read
from wherry.session.variables import of_user, within

_CONTRACT = read(json.dumps({"jupyter_token": "j", "token": "of-instance", "workspace": "w"}))
_OF_A_RUN = {
    "WHERRY_RUN_ID": "r",
    "WHERRY_RUN_TOKEN": "of-attempt",
    "WHERRY_ATTEMPT_ID": "a",
    "WHERRY_SESSION": "{}",
    "WHERRY_SESSION_1": "{}",
    "WHERRY_SERVER": "http://127.0.0.1:1",
    "WHERRY_SERVER_FILE": "/server.json",
    "AZUREML_RUN_ID": "r",
    "AZUREML_RUN_TOKEN": "of-attempt",
    "MLFLOW_TRACKING_TOKEN": "of-attempt",
    "CUDA_VISIBLE_DEVICES": "",
    "HOME": "/home/me",
    "PATH": "/bin",
}


def test_a_notebook_is_in_no_run_and_has_the_token_of_the_instance(tmp_path: Path) -> None:
    found = of_user(_OF_A_RUN, _CONTRACT, str(tmp_path))
    assert run_context(found) is None
    assert "of-attempt" not in found.values()
    assert "{}" not in found.values()
    assert found["WHERRY_TOKEN"] == found["MLFLOW_TRACKING_TOKEN"] == "of-instance"
    assert found["WHERRY_SERVER_FILE"] == "/server.json"
    assert found["WHERRY_WORKSPACE"] == "w"
    assert found["WHERRY_ATTEMPT_ID"] == "a"  # a rescue finds processes by it
    assert found["JUPYTER_CONFIG_DIR"].startswith(str(tmp_path))


@pytest.mark.parametrize(("gpus", "seen"), [(["1", "3"], "1,3"), ([], "")])
def test_notebooks_have_the_gpus_of_the_node_and_no_others(
    gpus: list[str], seen: str, tmp_path: Path
) -> None:
    variables = {**_OF_A_RUN, "CUDA_VISIBLE_DEVICES": "0"}
    found = of_user(variables, _CONTRACT._replace(gpus=gpus), str(tmp_path))
    assert found["CUDA_VISIBLE_DEVICES"] == seen


def test_the_home_of_a_container_is_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert of_user(_OF_A_RUN, _CONTRACT, str(tmp_path))["HOME"] == "/home/me"
    monkeypatch.setattr("os.path.ismount", lambda path: path == str(tmp_path))
    assert of_user(_OF_A_RUN, _CONTRACT, str(tmp_path))["HOME"] == str(tmp_path)


def test_an_active_environment_is_first_on_the_path() -> None:
    found = within({"PATH": "/bin"}, "/venv", "/below/bin")
    assert found == {"PATH": "/venv/bin:/below/bin:/bin", "VIRTUAL_ENV": "/venv"}
