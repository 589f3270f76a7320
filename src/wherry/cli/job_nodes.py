"""How many nodes a job has, how they work together, and who waits for whom."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from ..core.errors import UserErrorException
from .command import guess
from .fields import check_fields

PRIORITIES = {"low": -1, "medium": 0, "high": 1}
_PER_INSTANCE = "process_count_per_instance"
_DISTRIBUTIONS: Dict[str, Any] = {
    "pytorch": (_PER_INSTANCE,),
    "mpi": (_PER_INSTANCE,),
    "tensorflow": ("worker_count", "parameter_server_count"),
}


def nodes(resources: Mapping[str, Any], where: str) -> int:
    return _whole("resources.instance_count", resources.get("instance_count", 1), where)


def priority(settings: Mapping[str, Any], where: str) -> Optional[int]:
    """Azure ML's three words, or a number."""
    hint = "its field is priority; a cluster's own tier says whether it is low_priority"
    check_fields(f"{where}: queue_settings", settings, ["priority"], hint)
    given = settings.get("priority")
    if given is None:
        return None
    found = parse_priority(given)
    if found is None:
        raise UserErrorException(
            f"{where}: queue_settings.priority is {given!r}{guess(str(given), list(PRIORITIES))}",
            hint=f"it is {', '.join(PRIORITIES)} or a whole number",
        )
    return found


def parse_priority(value: Any) -> Optional[int]:
    """None for what is no priority."""
    text = str(value).strip().lower()
    if text in PRIORITIES:
        return PRIORITIES[text]
    plain = text[1:] if text[:1] in ("-", "+") else text
    return int(text) if plain.isdecimal() and not isinstance(value, bool) else None


def distribution(fields: Mapping[str, Any], resources: Mapping[str, Any], where: str) -> Any:
    """The SDK's configuration of it; None for a job of one process on each node."""
    if not fields:
        return None
    kind = str(fields.get("type") or "").lower()
    if kind not in _DISTRIBUTIONS:
        near = guess(kind, list(_DISTRIBUTIONS))
        raise UserErrorException(
            f"{where}: distribution.type is {fields.get('type')!r}{near}",
            hint=f"it is {', '.join(_DISTRIBUTIONS)}",
        )
    known = _DISTRIBUTIONS[kind]
    hint = f"for {kind} they are type, {', '.join(known)}"
    check_fields(f"{where}: distribution", fields, ("type", *known), hint)
    counts = {
        name: _whole(f"distribution.{name}", fields[name], where, 0 if "server" in name else 1)
        for name in known
        if fields.get(name) is not None
    }
    return _configuration(kind, counts, nodes(resources, where))


def _configuration(kind: str, counts: Mapping[str, int], instances: int) -> Any:
    from ..sdk.run_config_sections import (
        MpiConfiguration,
        PyTorchConfiguration,
        TensorflowConfiguration,
    )

    each = counts.get(_PER_INSTANCE, 1)
    if kind == "pytorch":
        return PyTorchConfiguration(process_count=each * instances, node_count=instances)
    if kind == "mpi":
        return MpiConfiguration(process_count_per_node=each, node_count=instances)
    servers = counts.get("parameter_server_count", 0)
    return TensorflowConfiguration(counts.get("worker_count", max(instances - servers, 1)), servers)


def _whole(name: str, value: Any, where: str, least: int = 1) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not text.isdecimal() or int(text) < least:
        raise UserErrorException(
            f"{where}: {name} is {value!r}, not a whole number from {least} on",
            hint=f"such as {name}: 2",
        )
    return int(text)
