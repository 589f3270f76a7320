"""Cron expressions of five fields: minutes, hours, days of the month, months, days of the week.

As in NCronTab, which Azure uses, a day must fit both of its fields: ``0 18 1-7 * FRI`` is the
first Friday of each month. Sunday is 0 or 7.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import FrozenSet, List, Sequence, Tuple

from .errors import UserErrorException
from .text import shown

WEEK_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST = 1000


@dataclass(frozen=True)
class Cron:
    minutes: FrozenSet[int]
    hours: FrozenSet[int]
    days: FrozenSet[int]
    months: FrozenSet[int]
    week_days: FrozenSet[int]  # Monday is 0, as Python has it

    def falls_on(self, day: date) -> bool:
        return day.month in self.months and day.day in self.days and day.weekday() in self.week_days

    @property
    def times(self) -> List[Tuple[int, int]]:
        """Hours and minutes of a day, in order."""
        return [(hour, minute) for hour in sorted(self.hours) for minute in sorted(self.minutes)]


@dataclass(frozen=True)
class _Field:
    name: str
    least: int
    most: int
    words: Sequence[str] = ()


_FIELDS = (
    _Field("minutes", 0, 59),
    _Field("hours", 0, 23),
    _Field("days of the month", 1, 31),
    _Field("months", 1, 12, _MONTHS),
    _Field("days of the week", 0, 7, _DAYS),
)


def parse_cron(text: object) -> Cron:
    """What an expression says, or a sentence about what is wrong with it."""
    if not isinstance(text, str) or not text.strip() or len(text) > _LONGEST:
        raise UserErrorException(
            f"the cron expression is {shown(text)}", hint='such as "0 18 * * *": daily at 18:00'
        )
    parts = text.split()
    if len(parts) != len(_FIELDS):
        raise UserErrorException(
            f"the cron expression {shown(text)} has {len(parts)} fields, not {len(_FIELDS)}",
            hint="minutes hours days-of-the-month months days-of-the-week, without seconds: "
            '"0 18 * * *" is daily at 18:00',
        )
    found = [_values(part, field) for part, field in zip(parts, _FIELDS)]
    week_days = frozenset((day - 1) % 7 for day in found[4])
    return Cron(found[0], found[1], found[2], found[3], week_days)


def _values(text: str, field: _Field) -> FrozenSet[int]:
    return frozenset(value for each in text.split(",") for value in _range(each, field))


def _range(text: str, field: _Field) -> Sequence[int]:
    """``*``, ``5``, ``1-5``, and each with a step: ``*/15``, ``5/10``, ``1-30/5``."""
    whole, slash, step_text = text.partition("/")
    step = _step(text, step_text, field) if slash else 1
    if whole == "*":
        # A week has seven days, though Sunday has two numbers.
        return range(field.least, min(field.most, 6 if field.words is _DAYS else 99) + 1, step)
    first_text, dash, last_text = whole.partition("-")
    first = _number(text, first_text, field)
    if not dash:
        return range(first, (field.most if slash else first) + 1, step)
    last = _number(text, last_text, field)
    if field.words is _DAYS and last == 0 < first:
        last = 7
    if last < first:
        raise UserErrorException(
            f"{shown(text)} in the {field.name} of a cron expression goes backwards",
            hint=f"write it in two: {first_text}-{field.most},{field.least}-{last_text}",
        )
    return range(first, last + 1, step)


def _step(text: str, step: str, field: _Field) -> int:
    if not _digits(step) or not int(step):
        raise UserErrorException(
            f"{shown(text)} in the {field.name} of a cron expression has no step after '/'",
            hint="a step is a whole number from 1: */15 is every 15",
        )
    return int(step)


def _number(text: str, value: str, field: _Field) -> int:
    word = value.lower()
    if word in field.words:
        return field.words.index(word) + field.least
    if _digits(value) and field.least <= int(value) <= field.most:
        return int(value)
    raise UserErrorException(
        f"{shown(text)} in the {field.name} of a cron expression is not understood",
        hint=f"{field.name} are {field.least} to {field.most}"
        + (f" or {', '.join(field.words).upper()}" if field.words else "")
        + ": one, a list 1,2, a range 1-5, a step */2, or * for all",
    )


def _digits(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 4
