"""An environment in a folder, in Azure ML's layout: a JSON file and a conda file."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Optional

import wherry  # the lazy surface: see run.py

from ..core.errors import UserErrorException
from .azure_fields import environment_fields, fill_environment
from .conda_dependencies import FILE_NAME as CONDA_FILE
from .conda_dependencies import CondaDependencies
from .yaml_text import read_file

FILE_NAME = "azureml_environment.json"


def save(environment: wherry.Environment, folder: str, *, overwrite: bool) -> None:
    path = os.path.join(folder, FILE_NAME)
    if os.path.exists(path) and not overwrite:
        raise UserErrorException(
            f"{folder!r} holds an environment already", hint="overwrite=True writes over it"
        )
    packages = _packages(environment)
    text = json.dumps(_fields(environment), indent=4, sort_keys=True)
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserErrorException(f"{path} cannot be written: {reason}") from None
    if packages is not None:
        packages.save(os.path.join(folder, CONDA_FILE))


def shown(environment: wherry.Environment) -> str:
    """As Azure ML shows it in a notebook: the file, without a password."""
    fields = _fields(environment)
    registry = fields["docker"]["baseImageRegistry"]
    registry["password"] = "***" if registry["password"] else None
    return json.dumps(fields, indent=4, sort_keys=True)


def load(environment: wherry.Environment, folder: str) -> None:
    """The conda file counts, since people change it; without one what the JSON file says."""
    path = os.path.join(folder, FILE_NAME)
    if not os.path.isfile(path):
        raise UserErrorException(
            f"{folder!r} holds no environment", hint=f"it would be in a file {FILE_NAME}"
        )
    try:
        fields = json.loads(read_file(path))
    except ValueError as error:
        raise UserErrorException(
            f"{path} cannot be read: it is not JSON", hint=str(error)
        ) from None
    if not isinstance(fields, dict):
        raise UserErrorException(f"{path} describes no environment", hint="it has a name")
    fill_environment(environment, fields)
    python = fields.get("python")
    inside = python.get("condaDependencies") if isinstance(python, dict) else None
    conda = os.path.join(folder, CONDA_FILE)
    if environment.python.user_managed_dependencies:
        return
    if os.path.isfile(conda):
        environment.python.conda_dependencies = CondaDependencies(conda)
    elif isinstance(inside, dict):
        environment.python.conda_dependencies = CondaDependencies(_underlying_structure=inside)


def _fields(environment: wherry.Environment) -> Dict[str, Any]:
    fields = environment_fields(environment)
    packages = _packages(environment)
    fields["python"]["condaDependencies"] = packages.as_dict() if packages else None
    return fields


def _packages(environment: wherry.Environment) -> Optional[CondaDependencies]:
    managed = environment.python.user_managed_dependencies
    return None if managed else environment.python.conda_dependencies
