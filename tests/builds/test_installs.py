"""Large and old environments, from the real index: ``make installs``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds.conftest import REPOSITORY, spec
from tests.builds.test_pypi import run_in, versions
from tests.interpreters import find_python
from wherry.builds import prepare

pytestmark = pytest.mark.installs


def test_a_conda_file_of_2020_still_works(root: str) -> None:
    """As Azure ML wrote it then; its channels are not to be reached."""
    python = find_python("3.7")
    version = subprocess.check_output([python, "-V"], text=True).split()[1]
    conda = {
        "name": "project_environment",
        "channels": [(Path(root) / "nothing").as_uri()],
        "dependencies": [
            f"python={version}", "scikit-learn", {"pip": ["azureml-defaults", "pandas", "joblib"]},
        ],
    }  # fmt: skip
    made = prepare({"name": "old", "python": {"conda": conda, "as_of": "2020-05-01"}}, root)
    assert versions(made)["scikit-learn"] == "0.22.2.post1"
    assert versions(made)["pandas"] == "1.0.3"
    code = "from sklearn.linear_model import Ridge; print(Ridge().fit([[1], [2]], [1, 2]).coef_)"
    assert run_in(made, code).startswith("[0.3")


def test_scikit_learn_pandas_and_matplotlib(root: str) -> None:
    said: list[str] = []
    made = prepare(spec("scikit-learn>=1.5", "pandas", "matplotlib"), root, progress=said.append)
    assert run_in(made, "import sklearn, pandas, matplotlib; print('there')") == "there"
    assert any(sentence.startswith("downloading 1 of ") for sentence in said)


def test_uv_is_fetched_where_there_is_none(root: str, tmp_path: Path) -> None:
    path = os.pathsep.join(
        folder
        for folder in os.environ["PATH"].split(os.pathsep)
        if not (Path(folder) / "uv").exists()
    )
    wanted = tmp_path / "spec.json"
    wanted.write_text(json.dumps(spec("six")))
    bare = tmp_path / "bare"  # an interpreter that has no uv beside it either
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    source = {"PYTHONPATH": str(REPOSITORY / "src"), "HOME": str(tmp_path), "WHERRY_UV": ""}
    done = subprocess.run(
        [str(bare / "bin" / "python"), "-m", "wherry.builds", str(wanted), "--root", root],
        env={**os.environ, **source, "PATH": path},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "fetching uv" in done.stderr
    assert (Path(root) / "tools" / "uv" / "bin" / "uv").exists()


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.13"])
def test_a_node_with_another_python(version: str, root: str, tmp_path: Path) -> None:
    wanted = tmp_path / "spec.json"
    wanted.write_text(json.dumps(spec("six")))
    words = [find_python(version), "-m", "wherry.builds"]
    source = {**os.environ, "PYTHONPATH": str(REPOSITORY / "src")}
    for act in ([str(wanted)], ["list"], ["prune", "--all"]):
        done = subprocess.run(
            [*words, *act, "--root", root], env=source, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
