"""Schedules of a compute instance: when it is started and when it is stopped."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .errors import UserErrorException
from .nearest import suggest
from .text import shown
from .triggers import next_due, parse_trigger

ACTIONS = START, STOP = "start", "stop"
STATES = ENABLED, DISABLED = "enabled", "disabled"
MOST = 4
_SECOND = timedelta(seconds=1)
_FIELDS = ("action", "state", "trigger")


def parse_all(value: object) -> List[Dict[str, Any]]:
    """All schedules of an instance, whole and checked."""
    if value is None:
        return []
    if not isinstance(value, (list, tuple)):
        raise UserErrorException(
            f"schedules is {shown(value)}, not a list of schedules",
            hint='such as [{action: stop, trigger: {type: cron, expression: "0 18 * * *"}}]',
        )
    if len(value) > MOST:
        raise UserErrorException(
            f"there are {len(value)} schedules, and a compute instance has at most {MOST}"
        )
    return [parse(each) for each in value]


def parse(fields: object) -> Dict[str, Any]:
    """One schedule, whole and checked. Parsing it again changes nothing."""
    if not isinstance(fields, Mapping):
        raise UserErrorException(f"a schedule is {shown(fields)}, not a table of fields")
    for name in fields:
        if name not in _FIELDS:
            raise UserErrorException(
                f"a schedule has no field {name!r}{suggest(str(name), _FIELDS)}",
                hint=f"the fields are {', '.join(_FIELDS)}",
            )
    return {
        "action": _one_of("action", fields.get("action"), ACTIONS),
        "state": _one_of("state", fields.get("state") or ENABLED, STATES),
        "trigger": parse_trigger(fields.get("trigger")),
    }


def following(schedule: Mapping[str, Any], after: datetime) -> Optional[datetime]:
    """The first time after that one when a checked schedule is due, in UTC. None: never again."""
    return next_due(schedule["trigger"], after) if schedule["state"] == ENABLED else None


def last_due(schedule: Mapping[str, Any], since: datetime, now: datetime) -> Optional[datetime]:
    """The last time when it was due after the one and not after the other, if there was any."""
    due = following(schedule, since)
    if due is None or due > now:
        return None
    before, after = since, now
    while after - before > _SECOND:
        middle = before + (after - before) / 2
        found = following(schedule, middle)
        if found is not None and found <= now:
            before, due = middle, found
        else:
            after = middle
    return due


def _one_of(name: str, value: object, known: Sequence[str]) -> str:
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in known:
        return text
    raise UserErrorException(
        f"the {name} of a schedule is {shown(value)}{suggest(text, known)}",
        hint=f"it is {' or '.join(known)}",
    )
