"""What conda packages set when their environment is activated: JAVA_HOME, PROJ_DATA and such."""

from __future__ import annotations

import glob
import os
import subprocess
from typing import Dict

from wherry.builds.cache import read_json

_SCRIPT = 'for each in "$CONDA_PREFIX"/etc/conda/activate.d/*.sh; do . "$each"; done; env -0'
_NOT_THEIRS = {"PATH", "PWD", "OLDPWD", "SHLVL", "_"}
_PATIENCE_S = 60


def activation(prefix: str) -> Dict[str, str]:
    """Found out once, by running their scripts in a shell, and kept with the environment."""
    found: Dict[str, str] = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(prefix), "etc/conda/env_vars.d/*.json"))):
        found.update({name: str(value) for name, value in (read_json(path) or {}).items()})
    if glob.glob(os.path.join(glob.escape(prefix), "etc/conda/activate.d/*.sh")):
        found.update(_run_scripts(prefix))
    return found


def _run_scripts(prefix: str) -> Dict[str, str]:
    before = {"PATH": f"{prefix}/bin:{os.defpath}", "CONDA_PREFIX": prefix, "HOME": "/"}
    try:
        done = subprocess.run(
            ["bash", "-c", _SCRIPT],
            env=before,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return {}
    said = done.stdout.decode("utf-8", "replace").split("\0")
    pairs = dict(each.partition("=")[::2] for each in said if "=" in each)
    return {
        name: value
        for name, value in pairs.items()
        if name not in _NOT_THEIRS and before.get(name) != value
    }
