"""Compute instances in Azure ML's v2 YAML, and from options, as requests of ours."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Sequence

from ..core.errors import UserErrorException
from .ending import Usage

FIELDS = (
    "size",
    "idle_time_before_shutdown_minutes",
    "idle_time_before_shutdown",
    "schedules",
    "setup_scripts",
    "environments",
    "ssh_public_access_enabled",
    "ssh_settings",
)
# What belongs to Azure's accounts and machines: it may stand there and means nothing here.
AZURE = (
    "create_on_behalf_of",
    "enable_os_patching",
    "enable_root_access",
    "enable_sso",
    "release_quota_on_stop",
)
SAID = ("state", "last_operation", "services", "os_image_metadata")
CHANGEABLE = ("idle_time_before_shutdown_minutes", "idle_time_before_shutdown", "schedules")
_KEYS = ("ssh-", "ecdsa-", "sk-")
_SSH = ("ssh_key_value", "admin_username", "ssh_port")
_ISO = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?\Z", re.IGNORECASE)


def body(fields: Mapping[str, Any], folder: str, where: str) -> Dict[str, Any]:
    """The configuration that a file asks for; scripts are read from beside it."""
    from ..sdk.compute.instance_configuration import ComputeInstanceProvisioningConfiguration

    ssh = _ssh(fields, where)
    config = ComputeInstanceProvisioningConfiguration(
        vm_size=fields.get("size"),
        ssh_public_access=fields.get("ssh_public_access_enabled") or bool(ssh),
        admin_user_ssh_public_key=ssh,
        location=str(fields.get("location") or ""),
        idle_time_before_shutdown_minutes=_idle(fields, where),
        schedules=fields.get("schedules"),
        setup_scripts=fields.get("setup_scripts"),
        environments=fields.get("environments"),
        folder=folder,
    )
    asked: Dict[str, Any] = config._provisioning()["config"]
    return {"config": asked}


def changes_of(fields: Mapping[str, Any], where: str) -> Dict[str, Any]:
    """The part of a configuration that is to be another."""
    from ..sdk.compute.instance_configuration import idle_minutes, listed_schedules

    changed: Dict[str, Any] = {}
    if any(name in fields for name in CHANGEABLE[:2]):
        minutes = idle_minutes(_idle(fields, where))
        changed["idle_seconds"] = minutes * 60 if minutes else None
    if "schedules" in fields:
        changed["schedules"] = listed_schedules(fields["schedules"])
    return changed


def schedules_of(options: Mapping[str, Any]) -> Optional[List[Dict[str, Any]]]:
    """What ``--start-at`` and ``--stop-at`` ask for; None without any."""
    asked = [(action, at) for action in ("start", "stop") for at in options[f"{action}_at"]]
    if not asked:
        if options["time_zone"]:
            raise Usage(
                "--time-zone goes with --start-at or --stop-at", hint="such as --stop-at 18:00"
            )
        return None
    place = options["time_zone"] or here()
    return [
        {
            "action": action,
            "trigger": {"type": "cron", "expression": expression(at), "time_zone": place},
        }
        for action, at in asked
    ]


def expression(at: str) -> str:
    """``18:00`` is daily at that time; anything else is a cron expression already."""
    hour, colon, minute = at.strip().partition(":")
    if not colon:
        return at
    if not (hour.isdecimal() and minute.isdecimal() and int(hour) < 24 and int(minute) < 60):
        raise Usage(
            f"{at!r} is no time of day",
            hint='such as 18:00, or as cron has it: "0 18 * * 1-5"',
        )
    return f"{int(minute)} {int(hour)} * * *"


def here() -> str:
    """The time zone of this machine, where it is known by a name."""
    _, found, name = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    return name.replace("posix/", "").replace("right/", "") if found and name else "UTC"


def key_text(value: Optional[str]) -> Optional[str]:
    """A public key, or what the file of that name holds."""
    if not value or value.startswith(_KEYS):
        return value
    try:
        with open(os.path.expanduser(value), encoding="utf-8") as file:
            text = file.read().strip()
    except (OSError, UnicodeDecodeError):
        text = ""
    if "PRIVATE KEY" in text:
        raise Usage(f"{value!r} holds a private key", hint=f"the public one is in {value}.pub")
    if not text.startswith(_KEYS):
        raise Usage(
            f"{value!r} is neither a public key nor a file that holds one",
            hint="such as --ssh-key-value ~/.ssh/id_ed25519.pub",
        )
    return text


def _idle(fields: Mapping[str, Any], where: str) -> Any:
    minutes = fields.get("idle_time_before_shutdown_minutes")
    text = fields.get("idle_time_before_shutdown")
    if minutes is not None or text in (None, ""):
        return minutes
    found = _ISO.match(str(text).strip())
    if found is None or not any(found.groups()):
        raise UserErrorException(
            f"{where}: idle_time_before_shutdown is {text!r}",
            hint="write PT30M, or idle_time_before_shutdown_minutes: 30",
        )
    days, hours, minutes_, seconds = (int(part or 0) for part in found.groups())
    return (days * 24 + hours) * 60 + minutes_ + -(-seconds // 60)


def _ssh(fields: Mapping[str, Any], where: str) -> Optional[str]:
    settings = fields.get("ssh_settings") or {}
    if not isinstance(settings, Mapping):
        raise UserErrorException(f"{where}: ssh_settings is {settings!r} and has no fields")
    _known(settings, where)
    return str(settings["ssh_key_value"]) if settings.get("ssh_key_value") else None


def _known(settings: Mapping[str, Any], where: str, known: Sequence[str] = _SSH) -> None:
    from .command import guess

    for name in map(str, settings):
        if name not in known:
            raise UserErrorException(
                f"{where}: ssh_settings has a field {name!r}{guess(name, known)}",
                hint=f"its fields are {', '.join(known)}",
            )
