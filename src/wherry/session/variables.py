"""The variables that kernels, terminals and scripts see: the SDK's, and none of the session's run.

``WHERRY_ATTEMPT_ID`` stays: by it the processes of an attempt are found whose runner was killed.
"""

from __future__ import annotations

import os
from typing import Dict, Mapping

from wherry.core.sessions import VARIABLE

from .contract import Contract

_OF_THE_RUN = (
    "WHERRY_RUN_ID",
    "WHERRY_RUN_TOKEN",
    "WHERRY_SPOOL",
    "WHERRY_ATTEMPT",
    "WHERRY_EXPERIMENT",
    "AZUREML_RUN_ID",
    "AZUREML_RUN_TOKEN",
    "AZUREML_RUN_TOKEN_EXPIRY",
    "AZUREML_EXPERIMENT_ID",
    "AZUREML_ARM_PROJECT_NAME",
    "MLFLOW_RUN_ID",
    "MLFLOW_EXPERIMENT_ID",
    "MLFLOW_EXPERIMENT_NAME",
    "MLFLOW_TRACKING_TOKEN",
    "VIRTUAL_ENV",
)


def of_user(inherited: Mapping[str, str], contract: Contract, home: str) -> Dict[str, str]:
    """What the session itself was given, as a person in the instance's home would have it."""
    found = {name: value for name, value in inherited.items() if not _of_the_run(name)}
    found["CUDA_VISIBLE_DEVICES"] = ",".join(contract.gpus)  # the session itself asks for none
    if contract.workspace:
        found["WHERRY_WORKSPACE"] = contract.workspace
    if contract.token:
        found["WHERRY_TOKEN"] = contract.token
        found["MLFLOW_TRACKING_TOKEN"] = contract.token
    if os.path.ismount(home):  # a volume: the node is a container, made for this instance alone
        found["HOME"] = home
    return {
        **found,
        "JUPYTER_CONFIG_DIR": os.path.join(home, ".jupyter"),
        "JUPYTER_DATA_DIR": os.path.join(home, ".jupyter", "share"),
        "IPYTHONDIR": os.path.join(home, ".ipython"),
        "HISTFILE": os.path.join(home, ".wherry", "shell_history"),
        "WHERRY_INSTANCE": contract.instance,
    }


def _of_the_run(name: str) -> bool:
    return name in _OF_THE_RUN or name.startswith(VARIABLE)


def within(variables: Mapping[str, str], venv: str, *folders: str) -> Dict[str, str]:
    """Those of a shell in which this virtual environment is active."""
    behind = [variables.get("PATH") or os.defpath]
    path = os.pathsep.join([os.path.join(venv, "bin"), *folders, *behind])
    return {**variables, "PATH": path, "VIRTUAL_ENV": venv}
