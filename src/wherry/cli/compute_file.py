"""Compute files: Azure ML's v2 YAML of clusters and machines, as requests of ours."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple

from ..core.errors import UserErrorException
from . import instance_file
from .command import guess
from .duration import parse_duration
from .ending import Usage

_COMMON = ("$schema", "name", "type", "description", "tags", "location")
_CLUSTER = ("size", "tier", "min_instances", "max_instances", "idle_time_before_scale_down")
_MACHINE = ("resource_id", "address", "jump", "host_key", "python", "ssh_settings")
_SSH = (
    "admin_username",
    "admin_password",
    "ssh_port",
    "ssh_private_key_file",
    "ssh_private_key_passphrase",
)
# What Azure's networks and accounts need: it may stand there and means nothing here.
_AZURE = ("network_settings", "identity", "enable_node_public_ip", "ssh_public_access_enabled")
# What it says of a target that there is.
_SAID = ("id", "resource_id", "provisioning_state", "provisioning_errors", "created_on")
_TYPES = {
    "amlcompute": "AmlCompute",
    "batchai": "BatchAI",
    "virtualmachine": "VirtualMachine",
    "computeinstance": "ComputeInstance",
}
TYPES = tuple(_TYPES)
_ONLY_INSTANCES = tuple(
    name for name in instance_file.FIELDS if name not in ("size", "ssh_settings")
)
TIERS = ("dedicated", "low_priority")
MOST_INSTANCES = 4
IDLE_S = 120


class Compute:
    """A compute target as it is asked for: its name and the body of the request."""

    def __init__(self, name: str, body: Dict[str, Any]) -> None:
        self.name = name
        self.body = body


def read(
    path: Optional[str], given: Mapping[str, Any], changes: Sequence[str], *, attach: bool
) -> Compute:
    """What a file says, with what the command line says besides."""
    from .job_file import set_field
    from .yaml_file import load_with_lines

    fields: Dict[str, Any] = load_with_lines(path, "a compute target")[0] if path else {}
    where = path or "the compute target"
    for name, value in given.items():
        if value is not None:
            _lay(fields, name, value)
    for change in changes:
        set_field(fields, change)
    folder = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    return parse(fields, folder, where, attach=attach)


def parse(fields: Mapping[str, Any], folder: str, where: str, *, attach: bool) -> Compute:
    """``folder`` is what paths in the file are counted from."""
    kind = _type(fields, where, attach)
    machine = kind == "VirtualMachine" and (attach or _is_machine(fields))
    ours = "instance" if kind == "ComputeInstance" else "machine" if machine else "cluster"
    own, make = _KINDS[ours]
    known = (*_COMMON, *own)
    meaningless = (*_AZURE, *instance_file.AZURE, *_SAID, *instance_file.SAID, "ssh_settings")
    _check_fields(fields, (*known, *meaningless), where, known)
    name = str(fields.get("name") or "")
    if not name:
        raise Usage(f"{where} has no name", hint="give it one: NAME, -n NAME, or a line name: ...")
    body: Dict[str, Any] = {
        "type": kind,
        "kind": ours,
        "tags": _tags(fields, where),
        "description": str(fields.get("description") or ""),
    }
    return Compute(name, {**body, **make(fields, folder, where)})


def changes_of(fields: Mapping[str, Any], where: str) -> Dict[str, Any]:
    """The request that changes a target, from v2's names of its fields."""
    own = ("min_instances", "max_instances", "idle_time_before_scale_down")
    may = (*own, *instance_file.CHANGEABLE, "description", "tags")
    _check_fields(fields, may, where, may)
    config = {**_scale(fields, where), **instance_file.changes_of(fields, where)}
    body: Dict[str, Any] = {"config": config}
    if fields.get("description") is not None:
        body["description"] = str(fields["description"])
    if fields.get("tags"):
        body["tags"] = _tags(fields, where)
    return body


def split_host(text: str) -> Tuple[str, str, Optional[int]]:
    """``user@address:port`` taken apart; user and port may be missing."""
    user, _, rest = text.rpartition("@")
    address, port = rest, ""
    if rest.startswith("["):  # an IPv6 address
        address, _, port = rest[1:].partition("]")
        port = port[1:] if port.startswith(":") else port
    elif rest.count(":") == 1:
        address, _, port = rest.partition(":")
    good_port = not port or (port.isdecimal() and 0 < int(port) < 2**16)
    if not address or not good_port or text != text.strip():
        raise Usage(f"{text!r} names no host", hint="write it as user@address or user@address:port")
    return user, address, int(port) if port else None


def _lay(fields: Dict[str, Any], name: str, value: Any) -> None:
    """``ssh_settings.ssh_port`` goes below ``ssh_settings``; tags are added."""
    section, _, below = name.partition(".")
    if below:
        fields[section] = {**(fields.get(section) or {}), below: value}
    elif name == "tags":
        fields["tags"] = {**(fields.get("tags") or {}), **value}
    else:
        fields[name] = value


def _type(fields: Mapping[str, Any], where: str, attach: bool) -> str:
    text = str(fields.get("type") or ("virtualmachine" if attach else "amlcompute")).lower()
    if text not in _TYPES:
        raise UserErrorException(
            f"{where}: this version cannot make compute of type {text!r}{guess(text, TYPES)}",
            hint=f"the types are {', '.join(TYPES)}",
        )
    if attach and text != "virtualmachine":
        raise Usage(
            f"a target of type {text} is made, not attached", hint="wherry compute create makes it"
        )
    return _TYPES[text]


def _is_machine(fields: Mapping[str, Any]) -> bool:
    return any(fields.get(name) for name in ("resource_id", "address"))


def _check_fields(
    fields: Mapping[str, Any], known: Sequence[str], where: str, told: Sequence[str]
) -> None:
    for name in map(str, fields):
        if name not in known:
            fields_told = ", ".join(each for each in told if each != "$schema")
            only = "a compute instance has it: --type computeinstance; "
            raise UserErrorException(
                f"{where} has a field {name!r}, which such a target has not{guess(name, told)}",
                hint=f"{only if name in _ONLY_INSTANCES else ''}its fields are {fields_told}",
            )


def _cluster(fields: Mapping[str, Any], folder: str, where: str) -> Dict[str, Any]:
    machine = _TYPES.get(str(fields.get("type")).lower()) == "VirtualMachine"
    defaults = {
        "min_nodes": 1 if machine else 0,
        "max_nodes": 1 if machine else MOST_INSTANCES,
        "idle_seconds": 0 if machine else IDLE_S,
    }
    scale = {**defaults, **_scale(fields, where)}
    if fields.get("max_instances") is None:
        scale["max_nodes"] = max(scale["max_nodes"], scale["min_nodes"])
    return {
        "config": {
            "location": str(fields.get("location") or ""),
            "vm_size": str(fields.get("size") or ""),
            "vm_priority": _tier(fields.get("tier"), where),
            **scale,
            **_listening(fields, where),
        }
    }


def _listening(fields: Mapping[str, Any], where: str) -> Dict[str, int]:
    """The port of a machine that is made; what else ``ssh_settings`` says means nothing here."""
    ssh = fields.get("ssh_settings") or {}
    port = ssh.get("ssh_port") if isinstance(ssh, dict) else None
    return {} if port is None else {"ssh_port": _whole("ssh_port", port, where)}


def _scale(fields: Mapping[str, Any], where: str) -> Dict[str, int]:
    names = {"min_instances": "min_nodes", "max_instances": "max_nodes"}
    found = {
        ours: _whole(name, fields[name], where)
        for name, ours in names.items()
        if fields.get(name) is not None
    }
    idle = fields.get("idle_time_before_scale_down")
    if idle is not None:
        seconds = 0.0 if str(idle) in ("0", "0.0") else parse_duration(idle)
        if seconds is None:
            raise UserErrorException(
                f"{where}: idle_time_before_scale_down is {idle!r}",
                hint="write seconds, or a time like 2m or 1h",
            )
        found["idle_seconds"] = int(seconds)
    return found


def _tier(value: Any, where: str) -> str:
    plain = str(value or "dedicated").lower().replace("_", "").replace("-", "")
    if plain not in ("dedicated", "lowpriority"):
        raise UserErrorException(
            f"{where}: tier is {value!r}{guess(str(value), TIERS)}",
            hint=f"it is {' or '.join(TIERS)}",
        )
    return plain


def _machine(fields: Mapping[str, Any], folder: str, where: str) -> Dict[str, Any]:
    from ..sdk.compute.machine import RemoteCompute

    ssh = fields.get("ssh_settings") or {}
    if not isinstance(ssh, dict):
        raise UserErrorException(f"{where}: ssh_settings is {ssh!r} and has no fields")
    _check_fields(ssh, _SSH, f"{where}: ssh_settings", _SSH)
    user, address, port = _host(fields, where)
    key = ssh.get("ssh_private_key_file")
    config = RemoteCompute.attach_configuration(
        username=ssh.get("admin_username") or user or None,
        address=address,
        ssh_port=ssh.get("ssh_port") or port or 22,
        password=str(ssh.get("admin_password") or ""),
        private_key_file=os.path.join(folder, os.path.expanduser(str(key))) if key else "",
        private_key_passphrase=str(ssh.get("ssh_private_key_passphrase") or ""),
        jump=fields.get("jump"),
        host_key=fields.get("host_key"),
        python=fields.get("python"),
    )
    asked = config._attaching()
    return {"config": asked["config"], "secrets": asked["secrets"]}


def _host(fields: Mapping[str, Any], where: str) -> Tuple[str, str, Optional[int]]:
    text = str(fields.get("address") or fields.get("resource_id") or "")
    if text.startswith("/"):
        raise UserErrorException(
            f"{where}: {text!r} is a machine in Azure, whose address cannot be looked up from here",
            hint="write address: HOST, by which the server can reach it",
        )
    if not text:
        raise Usage(
            f"{where} names no machine", hint="wherry compute attach NAME user@address --key FILE"
        )
    return split_host(text)


def _tags(fields: Mapping[str, Any], where: str) -> Dict[str, str]:
    tags = fields.get("tags") or {}
    if not isinstance(tags, dict):
        raise UserErrorException(f"{where}: tags is {tags!r}", hint="write it as tags: {team: a}")
    return {str(key): "" if value is None else str(value) for key, value in tags.items()}


def _whole(name: str, value: Any, where: str) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal():
        raise UserErrorException(
            f"{where}: {name} is {value!r}, which is not a whole number", hint=f"such as {name}: 4"
        )
    return int(text)


_KINDS: Dict[str, Tuple[Sequence[str], Callable[..., Dict[str, Any]]]] = {
    "cluster": (_CLUSTER, _cluster),
    "machine": (_MACHINE, _machine),
    "instance": (instance_file.FIELDS, instance_file.body),
}
