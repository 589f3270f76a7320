"""A run as people see it: in a list, by itself, and at its end."""

from __future__ import annotations

import re
import shlex
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .duration import ago, between, show_duration, show_time
from .session import Session
from .table import Column

_OURS = re.compile(r"_\d{9,11}_([0-9a-f]{8})\Z")
_STYLES = {
    "Completed": {"fg": "green"},
    "Failed": {"fg": "red"},
    "Canceled": {"fg": "yellow"},
    "CancelRequested": {"fg": "yellow"},
    "NotResponding": {"fg": "magenta"},
    "Running": {"fg": "blue"},
}
_TAIL_LINES = 15


def short_id(run_id: str) -> str:
    """The part of an id that a person needs to type: its random ending, or its beginning."""
    found = _OURS.search(run_id)
    return found.group(1) if found else run_id[:8]


def list_columns(*, archived: bool = False, exact: bool = False) -> List[Column]:
    """``exact``: times for programs, not for people."""
    when = show_time if exact else ago
    columns = [
        Column("ID", lambda run: str(run["id"]), short=lambda run: short_id(run["id"])),
        Column("NAME", lambda run: str(run.get("display_name") or ""), drops=2),
        Column("EXPERIMENT", lambda run: str(run["experiment"]), drops=3),
        Column("STATUS", status, style=status_style),
        Column("SUBMITTED", lambda run: when(run.get("submitted_at")), drops=4),
        Column("DURATION", duration, right=True, drops=1),
        Column("TARGET", lambda run: str(run.get("target") or ""), drops=5),
        Column("MESSAGE", lambda run: str(run.get("message") or ""), wraps=True),
    ]
    if archived:
        columns.insert(4, Column("ARCHIVED", lambda run: "yes" if run["archived_at"] else ""))
    return columns


def worth_showing(columns: List[Column], runs: List[Dict[str, Any]]) -> List[Column]:
    """Without the name column where no run has a name."""
    named = any(run.get("display_name") for run in runs)
    return [column for column in columns if named or column.title != "NAME"]


def status(run: Mapping[str, Any]) -> str:
    return str(run["status"])


def status_style(run: Mapping[str, Any]) -> Dict[str, Any]:
    return _STYLES.get(run["status"], {})


def duration(run: Mapping[str, Any]) -> str:
    seconds = between(run.get("started_at"), run.get("ended_at"))
    return "" if seconds is None else show_duration(seconds)


def facts(run: Mapping[str, Any]) -> List[Tuple[str, str]]:
    """What is worth knowing of one run, in the order in which one asks."""
    spec = run.get("spec") or {}
    found = [
        ("id", run["id"]),
        ("name", run.get("display_name")),
        ("description", run.get("description")),
        ("status", run["status"]),
        ("message", run.get("message")),
        ("workspace", run["workspace"]),
        ("experiment", run["experiment"]),
        ("parent", run.get("parent_id")),
        ("target", run.get("target")),
        ("command", command_of(spec)),
        ("environment", environment_of(spec)),
        ("interpreter", interpreter_of(run, spec)),
        ("variables", " ".join(spec.get("environment_variables") or {})),
        ("resources", resources_of(spec)),
        ("nodes", spec.get("node_count") if spec.get("node_count", 1) > 1 else ""),
        ("priority", spec.get("priority")),
        ("time limit", time_limit(spec)),
        ("submitted", show_time(run.get("submitted_at"))),
        ("started", show_time(run.get("started_at"))),
        ("ended", show_time(run.get("ended_at"))),
        ("duration", duration(run)),
        ("attempt", str(run["attempt"]) if run.get("attempt", 1) > 1 else ""),
        ("archived", show_time(run.get("archived_at"))),
        ("tags", pairs(run.get("tags"))),
        ("commit", commit_of(run)),
        ("snapshot", str(run.get("snapshot_id") or "")[:12]),
    ]
    return [(name, str(value)) for name, value in found if value]


def environment_of(spec: Mapping[str, Any]) -> str:
    """The environment that was made for it: its name and version."""
    wanted = spec.get("environment") or {}
    if not wanted.get("specification"):
        return ""
    name, version = wanted.get("name") or "unnamed", wanted.get("version")
    return f"{name}:{version}" if version else str(name)


def interpreter_of(run: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    """What was asked for; a machine elsewhere takes its own where nobody asked."""
    wanted = spec.get("environment") or {}
    path = str(wanted.get("interpreter_path") or "")
    elsewhere = wanted.get("interpreter_implied") and run.get("target") not in (None, "local")
    return f"{path}, or that of a node elsewhere" if path and elsewhere else path


def command_of(spec: Mapping[str, Any]) -> str:
    command = spec.get("command")
    words = (
        [command] if isinstance(command, str) and command else list(map(shlex.quote, command or []))
    )
    if spec.get("script"):
        words = [shlex.quote(spec["script"])]
    return " ".join([*words, *[shlex.quote(str(word)) for word in spec.get("arguments") or []]])


def resources_of(spec: Mapping[str, Any]) -> str:
    from ..core.resources import Resources

    wanted = spec.get("resources")
    return str(Resources.parse(wanted)) if wanted else ""


def time_limit(spec: Mapping[str, Any]) -> str:
    limit = spec.get("max_run_duration_s")
    return show_duration(limit) if limit else ""


def pairs(labels: Optional[Mapping[str, Any]]) -> str:
    return ", ".join(f"{key}={value}" if value else key for key, value in (labels or {}).items())


def commit_of(run: Mapping[str, Any]) -> str:
    properties = run.get("properties") or {}
    commit = str(properties.get("azureml.git.commit") or "")[:12]
    return f"{commit} (with changes)" if properties.get("azureml.git.dirty") == "True" else commit


def verdict(session: Session, run: Mapping[str, Any], *, tail: bool) -> str:
    """Why a run ended as it did. ``tail``: with the last lines that it printed."""
    if run["status"] == "Canceled":
        return f"run {run['id']} was canceled"
    return "\n".join([f"run {run['id']} failed: {why(run)}", *evidence(session, run, tail=tail)])


def why(run: Mapping[str, Any]) -> str:
    error = run.get("error") or {}
    return str(error.get("message") or run.get("message") or "no reason was given")


def evidence(session: Session, run: Mapping[str, Any], *, tail: bool) -> List[str]:
    """The line of their code that failed, and what was printed last."""
    error = run.get("error") or {}
    lines: List[str] = []
    source = str(error.get("source") or "").strip()
    if source and error.get("file"):
        place = session.style(f"{error['file']}:{error.get('line', '?')}:", bold=True)
        lines += ["", f"    {place} {source}"]
    printed = error.get("tail") or ""
    ended = printed.splitlines() if isinstance(printed, str) else [str(each) for each in printed]
    if tail and ended:
        lines += ["", "last lines:", *[f"    {line}" for line in ended[-_TAIL_LINES:]]]
    return lines
