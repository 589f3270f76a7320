"""Compute instances as people see them."""

from __future__ import annotations

from typing import Any, List, Mapping, Tuple

from .duration import show_time


def facts(record: Mapping[str, Any]) -> List[Tuple[str, str]]:
    """What there is to say of an instance, and of no other target."""
    told = record.get("instance")
    if not told:
        return []
    config = record.get("config") or {}
    return [
        ("JupyterLab", f"wherry compute open {record['name']}" if told.get("url") else ""),
        ("last", _operation(told.get("last_operation"))),
        ("idle since", show_time(told.get("idle_since"))),
        ("stops at", show_time(told.get("idle_stop_at"))),
        ("next", _next(told.get("next_schedule"))),
        *(("schedule", schedule(each)) for each in config.get("schedules") or []),
        ("kernels", ", ".join(config.get("environments") or [])),
    ]


def errors(record: Mapping[str, Any]) -> List[Any]:
    return list((record.get("instance") or {}).get("errors") or [])


def schedule(fields: Mapping[str, Any]) -> str:
    """One schedule in a line."""
    trigger = fields["trigger"]
    when = f"cron {trigger['expression']}" if trigger["type"] == "cron" else _recurrence(trigger)
    off = ", disabled" if fields.get("state") == "disabled" else ""
    return f"{fields['action']}: {when} ({trigger['time_zone']}{off})"


def _recurrence(trigger: Mapping[str, Any]) -> str:
    number, unit = trigger["interval"], trigger["frequency"]
    every = f"every {unit}" if number == 1 else f"every {number} {unit}s"
    pattern = trigger["schedule"]
    days = [*pattern["week_days"], *map(str, pattern["month_days"])]
    times = [
        f"{hour:02d}:{minute:02d}" for hour in pattern["hours"] for minute in pattern["minutes"]
    ]
    on = f" on {', '.join(days)}" if days else ""
    return every + on + (f" at {', '.join(times)}" if times else "")


def _next(coming: Any) -> str:
    return f"{coming['action']} at {show_time(coming['at'])}" if coming else ""


def _operation(told: Any) -> str:
    if not told:
        return ""
    by = f" by {told['operation_trigger']}" if told.get("operation_trigger") else ""
    return f"{told.get('operation_name')}{by} at {show_time(told.get('operation_time'))}"
