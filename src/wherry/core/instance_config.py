"""A compute instance as people ask for it: one machine of their own, with JupyterLab on it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .config_fields import known, shown, text, texts, whole
from .errors import UserErrorException
from .schedules import parse_all
from .ssh_names import check_no_private_key

LONGEST_IDLE_S = 3 * 24 * 3600
_MOST_ENVIRONMENTS = 50
_LONGEST_SCRIPT = 100_000
_SCRIPT_MINUTES = 15
_LONGEST_MINUTES = 24 * 60
_SCRIPT_FIELDS = ("content", "arguments", "timeout_minutes")


@dataclass(frozen=True)
class InstanceConfig:
    """``idle_seconds`` is how long it stays without use, None for ever. ``environments`` are
    kernels besides its own: names, with a version behind ``:`` or a label behind ``@``.
    """

    vm_size: str = ""
    location: str = ""
    idle_seconds: Optional[int] = None
    schedules: Sequence[Mapping[str, Any]] = ()
    creation_script: Optional[Mapping[str, Any]] = None
    startup_script: Optional[Mapping[str, Any]] = None
    environments: Sequence[str] = ()
    ssh_public_access: bool = False
    ssh_public_key: str = ""

    @classmethod
    def parse(cls, fields: Mapping[str, Any]) -> InstanceConfig:
        known("a compute instance", fields, cls.__dataclass_fields__)
        idle = fields.get("idle_seconds")
        return cls(
            vm_size=text("vm_size", fields.get("vm_size")),
            location=text("location", fields.get("location")),
            idle_seconds=None
            if idle in (None, "")
            else whole("idle_seconds", idle, 1, LONGEST_IDLE_S),
            schedules=parse_all(fields.get("schedules")),
            creation_script=_script("creation_script", fields.get("creation_script")),
            startup_script=_script("startup_script", fields.get("startup_script")),
            environments=_environments(fields.get("environments")),
            ssh_public_access=fields.get("ssh_public_access") is True,
            ssh_public_key=_public_key(fields.get("ssh_public_key")),
        )

    def to_dict(self) -> Dict[str, Any]:
        return asdict(self)


def _public_key(value: Any) -> str:
    check_no_private_key(str(value), "ssh_public_key")
    return text("ssh_public_key", value)


def _script(name: str, value: Any) -> Optional[Dict[str, Any]]:
    if not value:
        return None
    if not isinstance(value, Mapping) or not isinstance(value.get("content"), str):
        raise UserErrorException(
            f"{name} is {shown(value)}, not a script", hint="its content says what is executed"
        )
    known(name, value, _SCRIPT_FIELDS)
    if len(value["content"]) > _LONGEST_SCRIPT or not _is_text(value["content"]):
        raise UserErrorException(
            f"{name} is not a text of at most {_LONGEST_SCRIPT} characters",
            hint="have it fetch what it needs",
        )
    minutes = value.get("timeout_minutes") or _SCRIPT_MINUTES
    return {
        "content": value["content"],
        "arguments": text("arguments", value.get("arguments")),
        "timeout_minutes": whole("timeout_minutes", minutes, 1, _LONGEST_MINUTES),
    }


def _is_text(content: str) -> bool:
    """Halves of characters cannot be written to a file."""
    return "\0" not in content and content.encode("utf-8", "replace").decode() == content


def _environments(value: Any) -> List[str]:
    found = [each for each in texts("environments", value) if each]
    if len(found) > _MOST_ENVIRONMENTS:
        raise UserErrorException(f"at most {_MOST_ENVIRONMENTS} environments can be kernels")
    return found
