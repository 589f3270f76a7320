"""Compute targets, nodes, sizes and costs as people see them."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

from ..core.sizes import format_bytes
from . import instance_view
from .duration import between, show_duration, show_time
from .run_view import pairs
from .session import Session
from .table import Column, layout, terminal_width

_STYLES = {
    "idle": {"fg": "green"},
    "running": {"fg": "blue"},
    "preparing": {"fg": "cyan"},
    "unusable": {"fg": "red"},
    "preempted": {"fg": "yellow"},
    "Failed": {"fg": "red"},
    "Running": {"fg": "green"},
    "JobRunning": {"fg": "blue"},
    "CreateFailed": {"fg": "red"},
    "SetupFailed": {"fg": "red"},
    "UserSetupFailed": {"fg": "red"},
    "Unusable": {"fg": "red"},
    "Unavailable": {"fg": "red"},
}


def target_columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("TYPE", lambda row: str(row["type"]), drops=3),
        Column("LOCATION", lambda row: str(row.get("location") or ""), drops=5),
        Column("STATE", state_of, style=lambda row: _STYLES.get(state_of(row), {})),
        Column("NODES", nodes_of, right=True, drops=1),
        Column("FREE CPUS", lambda row: free_of(row, "cpu"), right=True, drops=4),
        Column("FREE MEMORY", lambda row: free_of(row, "memory_bytes"), right=True, drops=6),
        Column("FREE GPUS", lambda row: free_of(row, "gpu"), right=True, drops=4),
        Column("RUNS", lambda row: str(row.get("active", "")), right=True, drops=2),
        Column("WAITING", lambda row: str(row.get("waiting", "")), right=True, drops=2),
        Column("PROBLEM", _problem, wraps=True),
    ]


def node_columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row.get("name") or row.get("id"))),
        Column("STATE", _state, style=lambda row: _STYLES.get(_state(row), {})),
        Column("RUN", lambda row: str(row.get("run_id") or "")),
        Column("CPUS", lambda row: _count(row.get("cpu")), right=True, drops=3),
        Column("MEMORY", lambda row: _bytes(row.get("memory_bytes")), right=True, drops=4),
        Column("GPUS", lambda row: _count(row.get("gpu")), right=True, drops=3),
        Column("ADDRESS", address_of, drops=2),
        Column("AGE", _age, right=True, drops=5),
        Column("REASON", lambda row: str(row.get("reason") or ""), wraps=True),
    ]


def size_columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("CPUS", lambda row: _count(row.get("cpu")), right=True),
        Column("MEMORY", lambda row: _bytes(row.get("memory_bytes")), right=True),
        Column("GPUS", lambda row: _count(row.get("gpu")), right=True),
        Column("PRICE PER HOUR", lambda row: _count(row.get("price_per_hour")), right=True),
    ]


def cost_columns(by: str) -> List[Column]:
    columns = [
        Column("NODE TIME", lambda row: show_duration(row.get("node_seconds") or 0), right=True),
        Column("IDLE", lambda row: show_duration(row.get("idle_seconds") or 0), right=True),
        Column("COST", lambda row: f"{row.get('cost') or 0:.2f}", right=True),
    ]
    if by == "run":
        del columns[1]  # a run has its nodes at work
    if by != "target":
        key = "run_id" if by == "run" else by
        columns.insert(0, Column(by.upper(), lambda row: str(row.get(key) or "")))
    return [Column("TARGET", lambda row: str(row.get("target") or "")), *columns]


def shown(session: Session, record: Mapping[str, Any]) -> str:
    """One target: what it is, how it is, and its nodes."""
    lines = [f"{name:<13}{value}" for name, value in _facts(record) if value]
    if record.get("nodes"):
        table = layout(record["nodes"], node_columns(), session, terminal_width())
        lines += ["", *table]
    return "\n".join(lines)


def state_of(record: Mapping[str, Any]) -> str:
    """Provisioning, then whether it was stopped, then whether it grows or shrinks."""
    if record.get("instance"):
        return str(record["instance"]["state"])
    provisioning = str(record.get("provisioning_state") or "Succeeded")
    if provisioning != "Succeeded":
        return provisioning
    if record.get("state") == "Stopped":
        return "Stopped"
    status = record.get("status") or {}
    otherwise = "Unavailable" if record.get("problem") else "Ready"
    return str(status.get("allocation_state") or otherwise)


def nodes_of(record: Mapping[str, Any]) -> str:
    """``2 of 0-4``: how many there are, between how many there may be."""
    status = record.get("status")
    if not status:
        return "1"
    scale = status.get("scale_settings") or {}
    least, most = scale.get("min_nodes", 0), scale.get("max_nodes", 0)
    limits = str(most) if least == most else f"{least}-{most}"
    return f"{status.get('current_node_count', 0)} of {limits}"


def free_of(record: Mapping[str, Any], what: str) -> str:
    free, nodes = record.get("free"), record.get("nodes")
    if not free or not nodes:
        return ""
    total = sum(node.get(what) or 0 for node in nodes)
    show = _bytes if what == "memory_bytes" else _count
    return f"{show(free.get(what))} of {show(total)}"


def address_of(node: Mapping[str, Any]) -> str:
    if not node.get("address"):
        return ""
    port = node.get("port")
    return str(node["address"]) if port in (None, 22) else f"{node['address']}:{port}"


def _facts(record: Mapping[str, Any]) -> List[Tuple[str, str]]:
    config: Mapping[str, Any] = record.get("config") or {}
    return [
        ("name", str(record["name"])),
        ("type", str(record["type"])),
        ("state", state_of(record)),
        ("problem", str(record.get("problem") or "")),
        ("doing", str(record.get("doing") or "")),
        ("errors", _errors(record)),
        ("location", str(record.get("location") or "")),
        ("size", str(config.get("vm_size") or record.get("node_size") or "")),
        ("priority", str(config.get("vm_priority") or "")),
        ("nodes", _node_facts(record)),
        ("idle time", _idle(config)),
        *instance_view.facts(record),
        ("address", _machine(config) or _made_machine(record)),
        ("host key", str(config.get("host_key") or "")),
        ("jump host", str(config.get("jump") or "")),
        ("description", str(record.get("description") or "")),
        ("tags", pairs(record.get("tags"))),
        ("created", show_time(record.get("created_at"))),
        ("created by", str(record.get("created_by") or "")),
        ("notice", "; ".join(record.get("notices") or [])),
    ]


def _node_facts(record: Mapping[str, Any]) -> str:
    counts: Dict[str, int] = (record.get("status") or {}).get("node_state_counts") or {}
    told = ", ".join(f"{number} {state}" for state, number in counts.items() if number)
    return nodes_of(record) + (f" ({told})" if told else "")


def _idle(config: Mapping[str, Any]) -> str:
    seconds = config.get("idle_seconds")
    return "" if seconds is None else show_duration(float(seconds))


def _machine(config: Mapping[str, Any]) -> str:
    if not config.get("address"):
        return ""
    user = f"{config['username']}@" if config.get("username") else ""
    return user + address_of(config)


def _made_machine(record: Mapping[str, Any]) -> str:
    """Where the one node of a machine that was made is reached, if by SSH."""
    nodes = record.get("nodes") or []
    made = record.get("type") == "VirtualMachine" and len(nodes) == 1 and nodes[0].get("port")
    return _machine(nodes[0]) if made else ""


def _problem(record: Mapping[str, Any]) -> str:
    """In a list the first line will do; ``show`` has the others."""
    told = record.get("problem") or "; ".join(map(_sentence, instance_view.errors(record)))
    return str(told).partition("\n")[0]


def _errors(record: Mapping[str, Any]) -> str:
    """Those that are not its problem."""
    told = map(_sentence, record.get("provisioning_errors") or instance_view.errors(record))
    return "; ".join(each for each in told if each != record.get("problem"))


def _sentence(error: Any) -> str:
    return str(error.get("message") or error) if isinstance(error, Mapping) else str(error)


def _state(node: Mapping[str, Any]) -> str:
    return str(node.get("state") or "")


def _age(node: Mapping[str, Any]) -> str:
    seconds = between(node.get("created_at"), None)
    return "" if seconds is None else show_duration(seconds)


def _count(amount: Any) -> str:
    return "" if amount is None else f"{amount:g}"


def _bytes(amount: Any) -> str:
    return "" if amount is None else format_bytes(amount)
