"""What travels to a node lets MLflow find the store that Wherry brings."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from pathlib import Path

from wherry.control import bundle

LOOK = """\
from importlib.metadata import entry_points
for each in entry_points(group="mlflow.tracking_store"):
    print(each.name, each.value)
"""


def test_the_store_is_found_on_the_python_path(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(bundle.build())) as archive:
        archive.extractall(tmp_path)
    told = subprocess.run(
        [sys.executable, "-S", "-c", LOOK],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(told.stdout.splitlines()) == [
        "http wherry.mlflow_store:build",
        "https wherry.mlflow_store:build",
    ]
    assert (tmp_path / "wherry" / "mlflow_store.py").is_file()
