"""A run configuration as a file, in the YAML that Azure ML writes (``*.runconfig``)."""

from __future__ import annotations

import os
from typing import Any, Dict, Iterator, Mapping, Optional, Tuple

import wherry  # the lazy surface: see run.py

from ..core.errors import UserErrorException
from ..core.nearest import suggest
from . import yaml_text
from .azure_fields import (
    Layout,
    camel,
    environment_fields,
    fields_of,
    fill,
    fill_environment,
    layout_of,
    plain,
    snake,
)
from .conda_dependencies import FILE_NAME as CONDA_FILE
from .conda_dependencies import CondaDependencies
from .console import say
from .run_config_sections import MADE, RARE, DataReferenceConfiguration
from .section import Section

FOLDER = ".azureml"
_FOLDERS = (FOLDER, "aml_config", "")  # where the files of all eras lie
_ENVIRONMENT_FILE = "environment.yml"
_HISTORY: Layout = [
    ("output_collection", None),
    ("snapshot_project", None),
    ("directories_to_watch", None),
]
_DOCKER: Layout = [
    ("use_docker", None),
    ("shared_volumes", None),
    ("arguments", None),
    ("shm_size", None),
]
_HEAD: Layout = [
    ("script", None),
    ("arguments", None),
    ("target", None),
    ("framework", None),
    ("communicator", None),
    ("max_run_duration_seconds", None),
    ("node_count", None),
    ("priority", None),
]
_FOOT: Layout = [("command", None), ("environment_variables", None)]
_OLD: Layout = [("auto_prepare_environment", None)]
_SERVICES = "application_endpoints"


def save(
    config: wherry.RunConfiguration, path: Any, name: Optional[str], *, separate: bool
) -> None:
    """Write ``<path>/.azureml/<name>`` and, for packages, the conda file beside it.

    A path that is no folder is the file itself.
    """
    folder, where = _destination(os.fspath(path or os.curdir), name or _own_name(config))
    environment = environment_fields(config.environment)
    managed = config.environment.python.user_managed_dependencies
    try:
        os.makedirs(os.path.dirname(where), exist_ok=True)
        if not managed:
            conda = os.path.join(os.path.dirname(where), CONDA_FILE)
            config.environment.python.conda_dependencies.save(conda)
            environment["python"]["condaDependenciesFile"] = _below(folder, conda)
        if separate:
            beside = os.path.join(os.path.dirname(where), _ENVIRONMENT_FILE)
            _write(beside, environment)
        _write(where, _fields(config, _below(folder, beside) if separate else environment))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserErrorException(f"{where} cannot be written: {reason}") from None


def load(config: wherry.RunConfiguration, path: Any, name: Optional[str]) -> None:
    """Make a configuration what a file says; keys may be spelt either way."""
    folder = os.fspath(path if path is not None else os.curdir)
    where = find(folder, name)
    if where is None:
        raise UserErrorException(
            f"Failed to load RunConfiguration from path={folder} name={name}",
            hint=f"it is looked for in {', '.join(each or 'the folder' for each in _FOLDERS)}",
        )
    root = _root(where)
    fields = _read(where)
    fill(config, [*_HEAD, ("history", _HISTORY), *_FOOT, *_OLD], fields)
    _fill_sections(config, fields, where)
    docker = fields.get("docker")
    if isinstance(docker, Mapping):
        config.docker = wherry.DockerConfiguration()
        fill(config.docker, _DOCKER, docker)
    environment = fields.get("environment")
    if isinstance(environment, str):
        environment = _read(os.path.join(root, environment))
    if isinstance(environment, Mapping):
        fill_environment(config.environment, environment)
        _load_packages(config.environment, root, where)


def find(folder: str, name: Optional[str]) -> Optional[str]:
    """The file of a configuration, wherever its era put it."""
    return next((each for each in _candidates(folder, name) if os.path.isfile(each)), None)


def _candidates(folder: str, name: Optional[str]) -> Iterator[str]:
    if name is None:
        yield folder
        return
    for below in _FOLDERS:
        for ending in ("", ".runconfig", ".yml", ".yaml"):
            yield os.path.join(folder, below, name + ending)


def _destination(path: str, name: str) -> Tuple[str, str]:
    """What paths in the file are counted from, and the file."""
    if os.path.isdir(path):
        return path, os.path.join(path, FOLDER, name)
    if os.path.isdir(os.path.dirname(path) or os.curdir) and os.path.splitext(path)[1]:
        return _root(path), path
    raise UserErrorException(
        f"there is no folder {path!r} to save a run configuration in", hint="make it first"
    )


def _root(where: str) -> str:
    folder = os.path.dirname(os.path.abspath(where))
    is_special = os.path.basename(folder) in _FOLDERS
    return os.path.dirname(folder) if is_special else folder


def _own_name(config: wherry.RunConfiguration) -> str:
    target = getattr(config.target, "name", config.target) or "local"
    return f"{target}.runconfig"


def _fields(config: wherry.RunConfiguration, environment: Any) -> Dict[str, Any]:
    head = fields_of(config, _HEAD)
    head["target"] = str(getattr(config.target, "name", config.target) or "local")
    docker = config.docker if config.docker is not None else wherry.DockerConfiguration()
    sections = {name: plain(getattr(config, name)) for name in MADE}
    sections.update({name: plain(vars(config)[name]) for name in RARE if vars(config).get(name)})
    services = sections.pop("services")
    old = {name: value for name, value in fields_of(config, _OLD).items() if value is not None}
    return {
        **head,
        **old,
        "environment": environment,
        "history": fields_of(config.history, _HISTORY),
        "spark": sections.pop("spark"),
        "docker": fields_of(docker, _DOCKER),
        **{camel(name): value for name, value in sections.items()},
        **fields_of(config, _FOOT),
        "command": plain(config.command) or "",
        camel(_SERVICES): services,
        **config._others,
    }


def _fill_sections(config: wherry.RunConfiguration, fields: Mapping[str, Any], where: str) -> None:
    """What is of no section is kept, and written back as it came."""
    named = {**dict.fromkeys([*MADE, *RARE]), _SERVICES: "services"}
    own = {name for name, _ in [*_HEAD, *_FOOT, *_OLD]} | {"environment", "history", "docker"}
    for key, value in fields.items():
        name = snake(str(key))
        if name in named:
            _fill_section(config, named[name] or name, value)
        elif name not in own:
            config._others[key] = value
            guess = suggest(name, [*own, *named])
            if guess:
                say(f"{where} has a field {key!r}, which Wherry does not know{guess}")


def _fill_section(config: wherry.RunConfiguration, name: str, value: Any) -> None:
    present = getattr(config, name)
    if isinstance(present, Section):
        if isinstance(value, Mapping):
            fill(present, layout_of(present), value)
        return
    if name == "data_references" and isinstance(value, Mapping):
        value = {str(each): _reference(found) for each, found in value.items()}
    setattr(config, name, type(present)() if value is None and present is not None else value)


def _reference(fields: Any) -> Any:
    if not isinstance(fields, Mapping):
        return fields
    reference = DataReferenceConfiguration()
    fill(reference, layout_of(reference), fields)
    return reference


def _load_packages(environment: wherry.Environment, root: str, where: str) -> None:
    python = environment.python
    if python.user_managed_dependencies or not python.conda_dependencies_file:
        return
    conda = os.path.join(root, python.conda_dependencies_file)
    if not os.path.isfile(conda):
        raise UserErrorException(
            f"{where} names the conda file {python.conda_dependencies_file!r}, which is not there",
            hint=f"it is looked for in {root}",
        )
    python.conda_dependencies = CondaDependencies(conda)
    python.conda_dependencies_file = None


def _read(where: str) -> Dict[str, Any]:
    found = yaml_text.parse(yaml_text.read_file(where, "a run configuration"), where)
    if not isinstance(found, dict):
        raise UserErrorException(
            f"{where} is no run configuration", hint="it has lines like 'target: local'"
        )
    return found


def _write(where: str, fields: Mapping[str, Any]) -> None:
    text = yaml_text.dump(fields)
    with open(where, "w", encoding="utf-8") as file:
        file.write(text)


def _below(folder: str, path: str) -> str:
    return os.path.relpath(path, folder).replace(os.sep, "/")
