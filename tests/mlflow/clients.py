"""Interpreters with MLflow's clients in them, kept between calls and apart from the project's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wherry import Workspace

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "oldest": ["mlflow-skinny==2.9.2", "setuptools<81"],  # it asks for pkg_resources
    "newest": ["mlflow-skinny==3.17.2"],
    "training": ["mlflow==3.17.2", "scikit-learn", "lightgbm", "torch==2.13.0", "lightning"],
}
_BEGINNING = """
import json, math, os, sys, time, warnings
warnings.simplefilter("ignore")
import mlflow
from mlflow import MlflowClient
client = MlflowClient()
def tell(value):
    print("\\n" + json.dumps(value))
"""
PATIENCE_S = 300


def interpreter(name: str) -> str:
    folder = ROOT / ".tools" / f"mlflow-{name}"
    packages = PACKAGES[name]
    made = folder / "packages.txt"
    if not made.exists() or made.read_text().split() != packages:
        uv = shutil.which("uv") or str(ROOT / ".tools" / "bin" / "uv")
        subprocess.run(
            [uv, "venv", "-q", "--clear", "--python", sys.executable, folder], check=True
        )
        into = ["--python", str(folder / "bin" / "python")]
        subprocess.run([uv, "pip", "install", "-q", *into, *packages], check=True)
        made.write_text("\n".join(packages))
    return str(folder / "bin" / "python")


@dataclass
class Clients:
    """Programs of people, each in a process of its own, that log into one workspace."""

    python: str
    folder: Path
    workspace: str = "default"

    def ask(self, program: str, **env: str) -> Any:
        """What it tells at its end."""
        return told(self.start(program, **env))

    def start(self, program: str, *arguments: str, **env: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.python, "-c", _BEGINNING + program, *arguments],
            env={**self.variables(), **env},
            cwd=self.folder,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def variables(self) -> dict[str, str]:
        workspace = Workspace.create(self.workspace, exist_ok=True)
        plain = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {
            **plain,
            **quiet(),
            "MLFLOW_TRACKING_URI": workspace.mlflow_tracking_uri,
            "MLFLOW_TRACKING_TOKEN": workspace._client.token,
        }


def quiet() -> Mapping[str, str]:
    """They call home otherwise, and look for git."""
    return {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "1", "GIT_PYTHON_REFRESH": "quiet"}


def told(process: subprocess.Popen[str]) -> Any:
    out, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, f"{out}\n{err}"
    return json.loads(out.splitlines()[-1])


def all_told(processes: Sequence[subprocess.Popen[str]]) -> list[Any]:
    return [told(each) for each in processes]
