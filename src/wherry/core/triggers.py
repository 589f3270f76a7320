"""When something is due: a cron expression or a recurrence, in a time zone, between two times.

Times are of the clock on the wall there, to the minute. A time that the clock skips in spring is
due at the next that there is; one that it shows twice in autumn is due the first time alone.
"""

from __future__ import annotations

from datetime import date, datetime, timedelta, timezone, tzinfo
from typing import Any, Dict, Mapping, Optional, Union

from .cron import Cron, parse_cron
from .errors import UserErrorException
from .nearest import suggest
from .recurrence import Recurrence, parse_recurrence
from .text import shown
from .time_zones import UTC, zone

CRON, RECURRENCE = "cron", "recurrence"
_COMMON = ("type", "start_time", "end_time", "time_zone")
_FIELDS = {
    CRON: (*_COMMON, "expression"),
    RECURRENCE: (*_COMMON, "frequency", "interval", "schedule"),
}
_ALSO = {"timezone": "time_zone", "pattern": "schedule"}  # as the files of jobs' schedules say
_YEARS = 100
_MINUTE = timedelta(minutes=1)


def parse_trigger(fields: object) -> Dict[str, Any]:
    """A trigger, whole and checked. Parsing it again changes nothing."""
    if not isinstance(fields, Mapping):
        raise UserErrorException(
            f"trigger is {shown(fields)}, not a table of fields",
            hint='such as {type: cron, expression: "0 18 * * *", time_zone: UTC}',
        )
    given: Dict[str, Any] = {_ALSO.get(name) or name: value for name, value in fields.items()}
    type = _type(given)
    for name in given:
        if name not in _FIELDS[type]:
            raise UserErrorException(
                f"a {type} trigger has no field {name!r}{suggest(str(name), _FIELDS[type])}",
                hint=f"the fields are {', '.join(_FIELDS[type])}",
            )
    place = given.get("time_zone") or UTC
    start = _time("start_time", given.get("start_time"), zone(place))
    end = _time("end_time", given.get("end_time"), zone(place))
    trigger = {
        "type": type,
        **(_expression(given) if type == CRON else parse_recurrence(given, start)),
        "start_time": start.isoformat() if start else "",
        "end_time": end.isoformat() if end else "",
        "time_zone": place.strip(),
    }
    if _first(trigger) is None:
        raise UserErrorException(
            f"the {type} trigger never comes: no time {_bounds(start, end)}fits it",
            hint="30 February is no day; look at expression, start_time and end_time",
        )
    return trigger


def next_due(trigger: Mapping[str, Any], after: datetime) -> Optional[datetime]:
    """The first time after that one when a checked trigger is due, in UTC, or None."""
    place = zone(trigger["time_zone"])
    start, end = (_read(trigger[name]) for name in ("start_time", "end_time"))
    if start:
        after = max(after, _instant(start, place) - timedelta.resolution)
    found = _search(_rule(trigger, start), after, place)
    return None if found and end and found > _instant(end, place) else found


def _first(trigger: Mapping[str, Any]) -> Optional[datetime]:
    start = _read(trigger["start_time"])
    zero = (start or datetime(2000, 1, 1)) - timedelta(days=2)  # noqa: DTZ001
    return next_due(trigger, zero.replace(tzinfo=timezone.utc))


def _rule(trigger: Mapping[str, Any], start: Optional[datetime]) -> Union[Cron, Recurrence]:
    if trigger["type"] == CRON:
        return parse_cron(trigger["expression"])
    return Recurrence.of(trigger, start)


def _search(rule: Union[Cron, Recurrence], after: datetime, place: tzinfo) -> Optional[datetime]:
    if isinstance(rule, Recurrence) and rule.step:
        origin = _instant(rule.origin, place)
        return origin + ((after - origin) // rule.step + 1) * rule.step
    wall = after.astimezone(place).replace(tzinfo=None, second=0, microsecond=0)
    day = wall.date()
    for _ in range(_YEARS * 366):
        if rule.falls_on(day):
            for each in (_at(day, hour, minute) for hour, minute in rule.times):
                if each >= wall and _instant(each, place) > after:
                    return _instant(each, place)
        day += timedelta(days=1)
    return None


def _at(day: date, hour: int, minute: int) -> datetime:
    return datetime(day.year, day.month, day.day, hour, minute)  # noqa: DTZ001


def _instant(wall: datetime, place: tzinfo) -> datetime:
    """When the clock there shows that; the next that it does show, the first of two."""
    while True:
        moment = wall.replace(tzinfo=place).astimezone(timezone.utc)
        if moment.astimezone(place).replace(tzinfo=None) == wall:
            return moment
        wall += _MINUTE


def _type(fields: Mapping[str, Any]) -> str:
    given = fields.get("type")
    if given is None:
        given = CRON if "expression" in fields else RECURRENCE if "frequency" in fields else None
    text = given.strip().lower() if isinstance(given, str) else ""
    if text in _FIELDS:
        return text
    raise UserErrorException(
        f"the type of a trigger is {shown(given)}{suggest(text, _FIELDS)}",
        hint=f"it is {CRON} or {RECURRENCE}",
    )


def _expression(fields: Mapping[str, Any]) -> Dict[str, Any]:
    parse_cron(fields.get("expression"))
    return {"expression": " ".join(fields["expression"].split())}


def _time(name: str, value: object, place: tzinfo) -> Optional[datetime]:
    """By the clock on the wall there, to the minute."""
    if value is None or value == "":
        return None
    text = value.isoformat() if isinstance(value, date) else value
    try:
        found = _read(str(text).strip().replace("Z", "+00:00"))
    except ValueError:
        found = None
    if found is None or not isinstance(text, str) or not 1970 <= found.year < 3000:
        raise UserErrorException(
            f"{name} is {shown(value)}, not a date and a time", hint="such as 2030-01-31T18:00:00"
        )
    if found.tzinfo:
        found = found.astimezone(place).replace(tzinfo=None)
    return found.replace(second=0, microsecond=0, fold=0)


def _read(text: str) -> Optional[datetime]:
    return datetime.fromisoformat(text) if text else None


def _bounds(start: Optional[datetime], end: Optional[datetime]) -> str:
    since = f"from {start.isoformat()} " if start else ""
    return since + (f"to {end.isoformat()} " if end else "")
