"""What users write: the run that they ask for, checked field by field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Union

from .distribution import parse as parse_distribution
from .environments import parse as parse_environment
from .errors import UserErrorException
from .ids import check_name, check_run_id
from .resources import Resources

MAX_RUN_DURATION_S = 30 * 24 * 3600
MOST_NODES = 10_000


@dataclass(frozen=True)
class EnvironmentSpec:
    """What must be there: an interpreter that the user manages, or what ``specification`` says.

    A specification (``core/environments.py``) is for packages and containers; ``version`` is that
    of the registered environment that it was. An implied interpreter is that of the client, which
    named none: on another machine it stands for the one there.
    """

    name: str = ""
    interpreter_path: str = ""
    environment_variables: Dict[str, str] = field(default_factory=dict)
    version: str = ""
    specification: Optional[Dict[str, Any]] = None
    interpreter_implied: bool = False

    @classmethod
    def parse(cls, fields: Optional[Mapping[str, Any]]) -> EnvironmentSpec:
        fields = fields or {}
        python = fields.get("python") or {}
        return cls(
            name=str(fields.get("name") or ""),
            interpreter_path=str(
                python.get("interpreter_path") or fields.get("interpreter_path") or ""
            ),
            environment_variables=_strings(
                "environment.environment_variables", fields.get("environment_variables")
            ),
            version=str(fields.get("version") or ""),
            specification=_specification(fields),
            interpreter_implied=python.get("implied") is True,
        )


def _specification(fields: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    given = fields.get("specification")
    if given is None:
        return None
    spec = parse_environment(given, f"environment {fields.get('name') or 'unnamed'!r}")
    unwanted = [name for name in ("name", "version", "variables") if name in spec]
    if unwanted:
        raise UserErrorException(
            f"environment.specification says {unwanted[0]!r}, which is said beside it",
            hint="write name, version and environment_variables into environment itself",
        )
    return spec


@dataclass(frozen=True)
class RunSpec:
    """One run as asked for. ``script`` is a path in the snapshot; ``command`` replaces it.

    ``region`` is where the container of a container instance is to be.
    """

    experiment: str
    snapshot_id: str = ""
    target: str = "local"
    script: str = ""
    arguments: List[str] = field(default_factory=list)
    command: Union[str, List[str]] = ""
    environment: EnvironmentSpec = field(default_factory=EnvironmentSpec)
    environment_variables: Dict[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    node_count: int = 1
    priority: int = 0
    distribution: Optional[Dict[str, Any]] = None
    max_run_duration_s: Optional[float] = None
    display_name: str = ""
    description: str = ""
    tags: Dict[str, str] = field(default_factory=dict)
    properties: Dict[str, str] = field(default_factory=dict)
    parent_id: Optional[str] = None
    submission_key: Optional[str] = None
    region: str = ""

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> RunSpec:
        """A checked specification, or ``UserErrorException`` naming the field at fault."""
        node_count = _whole("node_count", fields.get("node_count"), 1, 1, MOST_NODES)
        spec = cls(
            experiment=check_name("experiment", fields.get("experiment")),
            snapshot_id=str(fields.get("snapshot_id") or ""),
            target=str(fields.get("target") or "local"),
            script=str(fields.get("script") or ""),
            arguments=_argv("arguments", fields.get("arguments") or []),
            command=_command(fields.get("command")),
            environment=EnvironmentSpec.parse(fields.get("environment")),
            environment_variables=_strings(
                "environment_variables", fields.get("environment_variables")
            ),
            resources=Resources.parse(fields.get("resources")),
            node_count=node_count,
            distribution=parse_distribution(fields.get("distribution"), node_count),
            priority=_whole("priority", fields.get("priority"), 0, -1000, 1000),
            max_run_duration_s=_duration(fields.get("max_run_duration_s")),
            display_name=str(fields.get("display_name") or ""),
            description=str(fields.get("description") or ""),
            tags=_strings("tags", fields.get("tags")),
            properties=_strings("properties", fields.get("properties")),
            parent_id=check_run_id(fields["parent_id"]) if fields.get("parent_id") else None,
            submission_key=fields.get("submission_key") or None,
            region=str(fields.get("region") or ""),
        )
        if bool(spec.script) == bool(spec.command):
            raise UserErrorException(
                "a run needs either a script or a command",
                hint="give script='train.py' or command='python train.py', not both",
            )
        return spec

    def to_dict(self) -> Dict[str, Any]:
        fields = dict(self.__dict__)
        fields["environment"] = dict(self.environment.__dict__)
        fields["resources"] = dict(self.resources.__dict__)
        return fields

    @classmethod
    def stored(cls, fields: Mapping[str, Any]) -> RunSpec:
        """What ``to_dict`` wrote, trusted."""
        known = {name: fields[name] for name in cls.__dataclass_fields__ if name in fields}
        known["environment"] = EnvironmentSpec(**known.get("environment", {}))
        known["resources"] = Resources(**known.get("resources", {}))
        return cls(**known)


def _command(value: Any) -> Union[str, List[str]]:
    if not value:
        return ""
    return value if isinstance(value, str) else _argv("command", value)


def _argv(name: str, value: Any) -> List[str]:
    if not isinstance(value, (list, tuple)):
        raise UserErrorException(f"{name} must be a list of strings, not {value!r}")
    for item in value:
        if not isinstance(item, (str, int, float)) or "\0" in str(item):
            raise UserErrorException(f"{name} contains {item!r}, which is not text")
    return [str(item) for item in value]


def _strings(name: str, value: Any) -> Dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UserErrorException(f"{name} must map names to text, not {type(value).__name__}")
    for key, item in value.items():
        text = f"{key}{'' if item is None else item}"
        if not key or "\0" in text or ("=" in key and name.endswith("environment_variables")):
            shown = str(key).partition("=")[0]  # what follows may be a value, and secret
            raise UserErrorException(f"{name} has an entry {shown!r} that cannot be used")
    return {str(key): "" if item is None else str(item) for key, item in value.items()}


def _whole(name: str, value: Any, otherwise: int, least: int, most: int) -> int:
    if value is None:
        return otherwise
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise UserErrorException(
            f"{name} is {value!r}, not a whole number from {least} to {most}",
            hint=f"such as {name}: {max(otherwise, 1)}",
        )
    return value


def _duration(value: Any) -> Optional[float]:
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        raise UserErrorException(f"max_run_duration_s is {value!r}, not a number") from None
    if not 0 < seconds <= MAX_RUN_DURATION_S:
        raise UserErrorException(
            f"max_run_duration_s is {value}, outside 0 to {MAX_RUN_DURATION_S} (30 days)"
        )
    return seconds
