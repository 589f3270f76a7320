"""Recurrences: every so many minutes, hours, days, weeks or months.

Minutes and hours are counted by the clock that never jumps, from the start time. Days, weeks and
months are those of the calendar, at the hours and minutes of the pattern.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Dict, FrozenSet, List, Mapping, Optional, Sequence, Tuple

from .cron import WEEK_DAYS
from .errors import UserErrorException
from .nearest import suggest
from .text import shown

FREQUENCIES = MINUTE, HOUR, DAY, WEEK, MONTH = "minute", "hour", "day", "week", "month"
PATTERN = ("hours", "minutes", "week_days", "month_days")
_LIMITS = {"hours": (0, 23), "minutes": (0, 59), "month_days": (1, 31)}
_MOST = 1000
_ORIGIN = datetime(2000, 1, 1)  # noqa: DTZ001 - where one counts from without a start time


@dataclass(frozen=True)
class Recurrence:
    """``origin`` is what is counted from, by the clock on the wall of the time zone."""

    frequency: str
    interval: int
    hours: Sequence[int] = ()
    minutes: Sequence[int] = ()
    week_days: FrozenSet[int] = frozenset()
    month_days: FrozenSet[int] = frozenset()
    origin: datetime = _ORIGIN

    @classmethod
    def of(cls, trigger: Mapping[str, Any], start: Optional[datetime]) -> Recurrence:
        """What a checked trigger says."""
        pattern = trigger["schedule"]
        return cls(
            trigger["frequency"],
            trigger["interval"],
            pattern["hours"],
            pattern["minutes"],
            frozenset(WEEK_DAYS.index(name) for name in pattern["week_days"]),
            frozenset(pattern["month_days"]),
            start or _ORIGIN,
        )

    @property
    def step(self) -> Optional[timedelta]:
        """How long it is from one to the next, where that is always the same."""
        unit = {MINUTE: timedelta(minutes=1), HOUR: timedelta(hours=1)}.get(self.frequency)
        return unit * self.interval if unit else None

    def falls_on(self, day: date) -> bool:
        first = self.origin.date()
        if self.frequency == DAY:
            return (day - first).days % self.interval == 0
        if self.frequency == WEEK:
            weeks = (_monday(day) - _monday(first)).days // 7
            return weeks % self.interval == 0 and day.weekday() in self.week_days
        months = (day.year - first.year) * 12 + day.month - first.month
        return months % self.interval == 0 and day.day in self.month_days

    @property
    def times(self) -> List[Tuple[int, int]]:
        return [(hour, minute) for hour in self.hours for minute in self.minutes]


def parse_recurrence(fields: Mapping[str, Any], start: Optional[datetime]) -> Dict[str, Any]:
    """The fields of a trigger that recurs, whole: what the start time says is filled in."""
    frequency = _frequency(fields.get("frequency"))
    given = fields.get("schedule") or {}
    if not isinstance(given, Mapping):
        raise UserErrorException(
            f"schedule is {shown(given)}, not a table of fields",
            hint="such as {hours: [18], minutes: [0]}",
        )
    for name in given:
        if name not in PATTERN:
            raise UserErrorException(
                f"the schedule of a recurrence has no field {name!r}{suggest(str(name), PATTERN)}",
                hint=f"the fields are {', '.join(PATTERN)}",
            )
    pattern = {name: _listed(name, given.get(name)) for name in PATTERN}
    _fits(frequency, pattern)
    return {
        "frequency": frequency,
        "interval": _interval(fields.get("interval", 1)),
        "schedule": _filled(frequency, pattern, start),
    }


def _fits(frequency: str, pattern: Mapping[str, Sequence[Any]]) -> None:
    if frequency in (MINUTE, HOUR) and any(pattern.values()):
        raise UserErrorException(
            f"a recurrence by the {frequency} has no schedule: it is counted from start_time",
            hint='for certain minutes of each hour use a cron trigger: "15,45 * * * *"',
        )
    for name, needed in (("week_days", WEEK), ("month_days", MONTH)):
        if pattern[name] and frequency != needed:
            raise UserErrorException(
                f"{name} is for frequency {needed}, and the frequency is {frequency}",
                hint=f"say frequency: {needed}",
            )


def _filled(
    frequency: str, pattern: Mapping[str, List[Any]], start: Optional[datetime]
) -> Dict[str, List[Any]]:
    found = dict(pattern)
    if frequency in (MINUTE, HOUR):
        return found
    needed = {WEEK: ["hours", "week_days"], MONTH: ["hours", "month_days"]}
    for name in needed.get(frequency, ["hours"]):
        if not found[name] and start is None:
            raise UserErrorException(
                f"a recurrence by the {frequency} needs {name}, or a start_time to take them from",
                hint=f"such as schedule: {{{_EXAMPLES[frequency]}}}",
            )
    if start is None:
        found["minutes"] = found["minutes"] or [0]
        return found
    found["hours"] = found["hours"] or [start.hour]
    found["minutes"] = found["minutes"] or [start.minute]
    if frequency == WEEK:
        found["week_days"] = found["week_days"] or [WEEK_DAYS[start.weekday()]]
    if frequency == MONTH:
        found["month_days"] = found["month_days"] or [start.day]
    return found


_EXAMPLES = {
    DAY: "hours: [18], minutes: [0]",
    WEEK: "week_days: [monday], hours: [18], minutes: [0]",
    MONTH: "month_days: [1], hours: [18], minutes: [0]",
}


def _frequency(value: object) -> str:
    text = value.strip().lower() if isinstance(value, str) else ""
    if text in FREQUENCIES:
        return text
    raise UserErrorException(
        f"frequency is {shown(value)}{suggest(text, FREQUENCIES)}",
        hint=f"it is one of {', '.join(FREQUENCIES)}",
    )


def _interval(value: object) -> int:
    number = _whole(value)
    if number is None or not 1 <= number <= _MOST:
        raise UserErrorException(
            f"interval is {shown(value)}, not a whole number from 1 to {_MOST}",
            hint="interval: 2 with frequency: week is every other week",
        )
    return number


def _listed(name: str, value: object) -> List[Any]:
    """Sorted, each once; one alone need not be a list."""
    each = list(value) if isinstance(value, (list, tuple)) else [value] if value is not None else []
    if name == "week_days":
        return sorted({_week_day(one) for one in each}, key=WEEK_DAYS.index)
    return sorted({_within(name, one) for one in each})


def _week_day(value: object) -> str:
    text = value.strip().lower() if isinstance(value, str) else ""
    for name in WEEK_DAYS:
        if text in (name, name[:3]):
            return name
    raise UserErrorException(
        f"week_days has {shown(value)}{suggest(text, WEEK_DAYS)}",
        hint=f"the days are {', '.join(WEEK_DAYS)}",
    )


def _within(name: str, value: object) -> int:
    least, most = _LIMITS[name]
    number = _whole(value)
    if number is None or not least <= number <= most:
        raise UserErrorException(
            f"{name} has {shown(value)}, not a whole number from {least} to {most}"
        )
    return number


def _whole(value: object) -> Optional[int]:
    if isinstance(value, str) and value.strip().isdigit() and value.isascii():
        value = int(value[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())
