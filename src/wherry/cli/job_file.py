"""Job files: Azure ML's v2 command jobs, as far as this version can carry them out."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Dict, Mapping, NamedTuple, Optional, Sequence, Union

from ..core.errors import UserErrorException
from ..core.resources import Resources
from . import job_nodes
from .command import guess
from .duration import parse_duration
from .fields import check_fields

if TYPE_CHECKING:
    from ..sdk.environment import Environment

_FIELDS = (
    "$schema",
    "type",
    "name",
    "display_name",
    "description",
    "experiment_name",
    "tags",
    "properties",
    "command",
    "code",
    "environment",
    "environment_variables",
    "compute",
    "inputs",
    "limits",
    "resources",
    "distribution",
    "queue_settings",
)
_LATER = ("outputs", "services", "identity", "parent_job_name")
_MAX_LEVELS = 10
_REFERENCE = re.compile(r"\$\{\{\s*([A-Za-z_]+)\.([A-Za-z0-9_-]+)\s*\}\}")
_OPTIONAL = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)


class Job(NamedTuple):
    """A job file, checked."""

    command: str
    code: Optional[str]
    interpreter: Optional[str]
    environment: Union[str, Environment, None]  # a reference, or what the file describes
    target: str
    experiment: Optional[str]
    display_name: str
    description: str
    tags: Dict[str, str]
    properties: Dict[str, str]
    variables: Dict[str, str]
    resources: Dict[str, Any]
    timeout_s: Optional[float]
    nodes: int = 1
    priority: Optional[int] = None
    distribution: Any = None


def read(path: str, changes: Sequence[str]) -> Job:
    """The job of a file, with what ``--set`` changes in it."""
    from .yaml_file import load_with_lines

    fields, lines = load_with_lines(path, "a job")
    for change in changes:
        set_field(fields, change)
    return parse(fields, os.path.dirname(os.path.abspath(path)), path, lines)


def parse(
    fields: Mapping[str, Any],
    folder: str,
    where: str,
    lines: Optional[Mapping[Any, int]] = None,
) -> Job:
    """``folder`` is what paths in the file are counted from."""
    _check_fields(fields, where)
    environment = fields.get("environment")
    plain = _is_plain(environment)
    inputs = _section(fields, "inputs", where)
    compute = str(fields.get("compute") or "local")
    return Job(
        command=_command(fields, inputs, where),
        code=_code(fields.get("code"), folder, where),
        interpreter=_interpreter(environment, folder, where) if plain else None,
        environment=None if plain else _environment(environment, folder, where, lines or {}),
        target=compute[len("azureml:") :] if compute.startswith("azureml:") else compute,
        experiment=_text(fields.get("experiment_name")),
        display_name=str(fields.get("display_name") or fields.get("name") or ""),
        description=str(fields.get("description") or ""),
        tags=_labels(fields, "tags", where),
        properties=_labels(fields, "properties", where),
        variables=_labels(fields, "environment_variables", where),
        resources=_resources(fields, where),
        timeout_s=_timeout(fields, where),
        nodes=job_nodes.nodes(_section(fields, "resources", where), where),
        priority=job_nodes.priority(_section(fields, "queue_settings", where), where),
        distribution=job_nodes.distribution(
            _section(fields, "distribution", where), _section(fields, "resources", where), where
        ),
    )


def set_field(fields: Dict[str, Any], change: str) -> None:
    """``a.b=value``; the value is read as YAML, so numbers are numbers."""
    from .yaml_file import value_of

    place, equals, text = change.partition("=")
    keys = place.split(".")
    if not equals or not all(keys) or len(keys) > _MAX_LEVELS:
        raise UserErrorException(
            f"--set {change!r} cannot be understood", hint="write it like --set inputs.epochs=10"
        )
    section = fields
    for key in keys[:-1]:
        below = section.setdefault(key, {})
        if not isinstance(below, dict):
            raise UserErrorException(
                f"--set {change!r}: {key!r} has no fields below it",
                hint=f"write it like --set {key}=...",
            )
        section = below
    section[keys[-1]] = value_of(text) if text else ""


def _check_fields(fields: Mapping[str, Any], where: str) -> None:
    kind = fields.get("type", "command")
    if kind != "command":
        raise UserErrorException(
            f"{where} is a {kind} job, which this version cannot run", hint="it runs type: command"
        )
    for name in map(str, fields):
        if name in _LATER and fields[name]:
            raise UserErrorException(
                f"{where}: this version cannot do {name!r} yet", hint="take it out of the file"
            )
        if name not in _FIELDS and name not in _LATER:
            raise UserErrorException(
                f"{where} has a field {name!r}, which a command job has not{guess(name, _FIELDS)}",
                hint=f"its fields are {', '.join(_FIELDS[1:])}",
            )


def _command(fields: Mapping[str, Any], inputs: Mapping[str, Any], where: str) -> str:
    command = fields.get("command")
    if not isinstance(command, str) or not command.strip():
        raise UserErrorException(
            f"{where} has no command", hint="such as: command: python train.py"
        )
    for name in inputs:
        if isinstance(inputs[name], (dict, list)):
            raise UserErrorException(
                f"{where}: input {name!r} is data, which this version cannot bring to a run yet",
                hint="inputs may be text, numbers and true or false",
            )

    def optional(found: re.Match[str]) -> str:
        wanted = _REFERENCE.findall(found.group(1))
        given = all(inputs.get(name) is not None for kind, name in wanted if kind == "inputs")
        return found.group(1) if given else ""

    def value(found: re.Match[str]) -> str:
        kind, name = found.groups()
        if kind != "inputs" or inputs.get(name) is None:
            raise UserErrorException(
                f"{where}: the command uses {found.group()}, which is not given",
                hint=f"give it with --set {kind}.{name}=..." if kind == "inputs" else None,
            )
        given = inputs[name]
        return str(given).lower() if isinstance(given, bool) else str(given)

    return _REFERENCE.sub(value, _OPTIONAL.sub(optional, command)).strip()


def _code(code: Any, folder: str, where: str) -> Optional[str]:
    if code is None:
        return None
    text = str(code)
    if re.match(r"(azureml|https?|git\+?[a-z]*):", text):
        raise UserErrorException(
            f"{where}: this version cannot fetch code from {text!r}", hint="name a local folder"
        )
    path = os.path.join(folder, os.path.expanduser(text))
    if not os.path.isdir(path):
        raise UserErrorException(
            f"{where}: there is no folder {text!r} for code", hint=f"it is looked for in {folder}"
        )
    return os.path.normpath(path)


def _is_plain(environment: Any) -> bool:
    """Whether it names an interpreter and nothing else."""
    return environment is None or (
        isinstance(environment, dict) and set(environment) <= {"python", "name"}
    )


def _interpreter(environment: Any, folder: str, where: str) -> Optional[str]:
    python = (environment or {}).get("python")
    if isinstance(python, dict):
        what = f"{where}: environment.python"
        check_fields(what, python, ["interpreter_path"], "its field is interpreter_path")
        python = python.get("interpreter_path")
    text = os.path.expanduser(str(python or ""))
    beside = os.path.normpath(os.path.join(folder, text))
    is_beside = os.path.exists(beside) if os.sep in text else os.path.isdir(beside)
    return beside if text and is_beside else text or None


def _environment(
    environment: Any, folder: str, where: str, lines: Mapping[Any, int]
) -> Union[str, Environment]:
    from ..sdk.environment_yaml import from_fields

    if isinstance(environment, str):
        return environment
    if not isinstance(environment, dict):
        raise UserErrorException(
            f"{where}: environment is {environment!r}",
            hint="name one, such as azureml:train:3, or describe it: {conda_file: conda.yml}",
        )
    below = {at[1:]: line for at, line in lines.items() if at[:1] == ("environment",)}
    return from_fields(environment, folder, where, below)


def _resources(fields: Mapping[str, Any], where: str) -> Dict[str, Any]:
    wanted = dict(_section(fields, "resources", where))
    wanted.pop("instance_count", None)
    known = ("cpu", "memory", "gpu")
    for name in wanted:
        if name not in known:
            raise UserErrorException(
                f"{where}: this version cannot ask for resources.{name}{guess(str(name), known)}",
                hint="the fields are cpu, memory, gpu and instance_count",
            )
    try:
        Resources.parse(wanted)
    except UserErrorException as error:
        raise UserErrorException(f"{where}: {error.message}", hint=error.hint) from None
    return wanted


def _timeout(fields: Mapping[str, Any], where: str) -> Optional[float]:
    limits = _section(fields, "limits", where)
    check_fields(f"{where}: limits", limits, ["timeout"], "its field is timeout")
    given = limits.get("timeout")
    if given is None:
        return None
    seconds = parse_duration(given)
    if seconds is None:
        raise UserErrorException(
            f"{where}: limits.timeout is {given!r}", hint="write seconds, or a time like 30m or 2h"
        )
    return seconds


def _labels(fields: Mapping[str, Any], name: str, where: str) -> Dict[str, str]:
    found = {}
    for key, value in _section(fields, name, where).items():
        if isinstance(value, (dict, list)):
            raise UserErrorException(
                f"{where}: {name}.{key} is {value!r}, which is not text",
                hint=f"write it as {name}: {{{key}: text}}",
            )
        shown = "" if value is None else value
        found[str(key)] = str(shown).lower() if isinstance(shown, bool) else str(shown)
    return found


def _section(fields: Mapping[str, Any], name: str, where: str) -> Mapping[str, Any]:
    section = fields.get(name)
    if section is None:
        return {}
    if not isinstance(section, dict):
        raise UserErrorException(
            f"{where}: {name} is {section!r} and has no fields",
            hint=f"write it as {name}: {{name: value}}",
        )
    return section


def _text(value: Any) -> Optional[str]:
    return None if value is None else str(value)
