"""What users ask for when they make a compute instance."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...core.errors import ComputeTargetException
from ...core.instance_config import LONGEST_IDLE_S
from ...core.nearest import suggest
from ...core.ssh_names import check_no_private_key
from ..values import plain
from .configuration import ComputeTargetProvisioningConfiguration, switch, whole

SCRIPTS = ("creation_script", "startup_script")
_SCRIPT_FIELDS = ("path", "content", "command", "arguments", "timeout_minutes")


class ComputeInstanceProvisioningConfiguration(ComputeTargetProvisioningConfiguration):
    """``ComputeInstance.provisioning_configuration`` makes it.

    Scripts are read here, by paths that are counted from ``folder``.
    """

    def __init__(
        self,
        vm_size: Any = "",
        ssh_public_access: Any = False,
        admin_user_ssh_public_key: Optional[str] = None,
        location: Optional[str] = None,
        idle_time_before_shutdown_minutes: Any = None,
        schedules: Any = None,
        setup_scripts: Optional[Mapping[str, Any]] = None,
        environments: Any = None,
        tags: Optional[Mapping[str, Any]] = None,
        description: Optional[str] = None,
        folder: str = "",
    ) -> None:
        super().__init__(location, tags, description)
        self.vm_size = str(vm_size or "")
        self.ssh_public_access = switch("ssh_public_access", ssh_public_access or False)
        check_no_private_key(str(admin_user_ssh_public_key), "admin_user_ssh_public_key")
        self.admin_user_ssh_public_key = admin_user_ssh_public_key
        self.idle_time_before_shutdown_minutes = idle_minutes(idle_time_before_shutdown_minutes)
        self.schedules = listed_schedules(schedules)
        self.setup_scripts = read_scripts(setup_scripts, folder)
        self.environments = _names(environments)

    def _provisioning(self) -> Dict[str, Any]:
        minutes = self.idle_time_before_shutdown_minutes
        config: Dict[str, Any] = {
            "location": self.location or "",
            "vm_size": self.vm_size,
            "idle_seconds": minutes * 60 if minutes else None,
            "schedules": self.schedules,
            **self.setup_scripts,
            "environments": self.environments,
            "ssh_public_access": self.ssh_public_access,
            "ssh_public_key": self.admin_user_ssh_public_key or "",
        }
        return {
            "type": "ComputeInstance",
            "kind": "instance",
            "config": config,
            "tags": self.tags,
            "description": self.description,
        }


def idle_minutes(value: Any) -> Optional[int]:
    """None and 0: it is never stopped for being idle."""
    name = "idle_time_before_shutdown_minutes"
    minutes = 0 if value in (None, "") else whole(name, value)
    if minutes * 60 > LONGEST_IDLE_S:
        raise ComputeTargetException(
            f"{name} is {minutes}, and at the most it is {LONGEST_IDLE_S // 60}, three days",
            hint="0 is never",
        )
    return minutes or None


def listed_schedules(value: Any) -> List[Any]:
    """Either the list, or what holds it in Azure ML's files."""
    if isinstance(value, Mapping):
        others = [name for name in value if name != "compute_start_stop"]
        if others:
            raise ComputeTargetException(
                f"schedules has {others[0]!r}{suggest(str(others[0]), ['compute_start_stop'])}",
                hint="schedules are a list below compute_start_stop",
            )
        value = value.get("compute_start_stop")
    if value is None:
        return []
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ComputeTargetException(
            f"schedules is {value!r}, and must be a list",
            hint="such as [{'action': 'stop', 'trigger': {'type': 'cron', "
            "'expression': '0 18 * * *', 'time_zone': 'UTC'}}]",
        )
    found: List[Any] = plain(value)
    return found


def read_scripts(scripts: Any, folder: str = "") -> Dict[str, Optional[Dict[str, Any]]]:
    """Both scripts with what they contain; None for one that there is not."""
    if scripts is not None and not isinstance(scripts, Mapping):
        raise ComputeTargetException(
            f"setup_scripts is {scripts!r}", hint=f"its fields are {' and '.join(SCRIPTS)}"
        )
    given = dict(scripts or {})
    for name in given:
        if name not in SCRIPTS:
            raise ComputeTargetException(
                f"setup_scripts has {name!r}{suggest(str(name), SCRIPTS)}",
                hint=f"its fields are {' and '.join(SCRIPTS)}",
            )
    return {name: _script(name, given.get(name), folder) for name in SCRIPTS}


def _script(name: str, value: Any, folder: str) -> Optional[Dict[str, Any]]:
    """A path, or a table with one; ``command`` is what Azure ML calls the arguments."""
    if value is None:
        return None
    fields = dict(value) if isinstance(value, Mapping) else {"path": value}
    for field in fields:
        if field not in _SCRIPT_FIELDS:
            raise ComputeTargetException(
                f"{name} has {field!r}{suggest(str(field), _SCRIPT_FIELDS)}",
                hint=f"its fields are {', '.join(_SCRIPT_FIELDS)}",
            )
    content = fields.get("content")
    script: Dict[str, Any] = {
        "content": _read(name, fields.get("path"), folder) if content is None else str(content),
        "arguments": str(fields.get("arguments") or fields.get("command") or ""),
    }
    if fields.get("timeout_minutes") is not None:
        script["timeout_minutes"] = fields["timeout_minutes"]
    return script


def _read(name: str, path: Any, folder: str) -> str:
    if not isinstance(path, (str, os.PathLike)) or not os.fspath(path):
        raise ComputeTargetException(
            f"{name} names no file", hint=f"such as {name}: {{path: setup.sh}}"
        )
    where = os.path.join(folder, os.path.expanduser(os.fspath(path)))
    try:
        with open(where, encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise ComputeTargetException(f"{name}: {where} is no text") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ComputeTargetException(f"{name}: {where} cannot be read: {reason}") from None


def _names(environments: Any) -> List[str]:
    """Environments by name, or objects that have one."""
    each = [environments] if isinstance(environments, str) else list(environments or [])
    return [_name(one) for one in each]


def _name(environment: Any) -> str:
    if isinstance(environment, str):
        return environment
    name, version = getattr(environment, "name", None), getattr(environment, "version", None)
    if not name:
        raise ComputeTargetException(
            f"{environment!r} names no environment", hint="such as environments=['my-env:2']"
        )
    return f"{name}:{version}" if version else str(name)
