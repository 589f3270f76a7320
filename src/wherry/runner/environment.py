"""The variables that a command sees."""

from __future__ import annotations

import os

from .light import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, Dict, Mapping


def command_environment(
    inherited: Mapping[str, str], manifest: Mapping[str, Any], folder: str, library: str
) -> Dict[str, str]:
    """What the runner inherited, then what the user set, then who and where the run is."""
    given = manifest.get("env") or {}
    found = {**inherited, **given, **_names(manifest, folder)}
    for name, value in _defaults(manifest, given).items():
        if name not in given:
            found[name] = value
    behind = found.get("PYTHONPATH")
    found["PYTHONPATH"] = f"{library}:{behind}" if behind else library
    return found


def _names(manifest: Mapping[str, Any], folder: str) -> Dict[str, str]:
    answers = {"WHERRY_SERVER_USER": str(os.getuid())} if manifest.get("tunnel") else {}
    return {
        **answers,
        "WHERRY_RUN_ID": manifest["run_id"],
        "WHERRY_ATTEMPT_ID": manifest["attempt_id"],
        "WHERRY_ATTEMPT": str(manifest.get("attempt") or 1),
        "WHERRY_SERVER": manifest["server"],
        "WHERRY_SERVER_FILE": manifest.get("server_file") or "",
        "WHERRY_RUN_TOKEN": manifest.get("token") or "",
        "WHERRY_SPOOL": folder,
        "AZUREML_RUN_ID": manifest["run_id"],
        "AZUREML_RUN_TOKEN": manifest.get("token") or "",
        "AZUREML_SERVICE_ENDPOINT": manifest["server"],
    }


def _defaults(manifest: Mapping[str, Any], given: Mapping[str, str]) -> Dict[str, str]:
    """What a user may set otherwise, say to log to an MLflow server of their own."""
    found = {"PYTHONUNBUFFERED": "1", "MLFLOW_RUN_ID": manifest["run_id"]}
    if manifest.get("token") and "MLFLOW_TRACKING_USERNAME" not in given:
        found["MLFLOW_TRACKING_TOKEN"] = manifest["token"]
    if manifest["server"] and given.get("WHERRY_WORKSPACE"):
        found["MLFLOW_TRACKING_URI"] = f"{manifest['server']}/mlflow/{given['WHERRY_WORKSPACE']}"
    return found
