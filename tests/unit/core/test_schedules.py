"""When schedules are due, against a clock that is looked at minute by minute."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.core.cron import WEEK_DAYS, Cron, parse_cron
from wherry.core.errors import UserErrorException
from wherry.core.schedules import MOST, following, last_due, parse, parse_all
from wherry.core.time_zones import WINDOWS, zone
from wherry.core.triggers import next_due, parse_trigger

MINUTE = timedelta(minutes=1)
# Around the days on which their clocks jump, by an hour, by half an hour and by a day.
JUMPS = [
    ("Europe/Berlin", datetime(2026, 3, 28, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2026, 10, 24, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 3, 7, tzinfo=UTC)),
    ("America/New_York", datetime(2026, 10, 31, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 4, 3, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2026, 10, 2, tzinfo=UTC)),
    ("Pacific/Apia", datetime(2011, 12, 28, tzinfo=UTC)),
    ("Asia/Kathmandu", datetime(2026, 2, 27, tzinfo=UTC)),
    ("UTC", datetime(2024, 2, 27, tzinfo=UTC)),
]


def stop(**trigger: Any) -> dict[str, Any]:
    return parse({"action": "stop", "trigger": trigger})


def times(schedule: dict[str, Any], after: datetime, count: int) -> list[str]:
    found = []
    for _ in range(count):
        moment = following(schedule, after)
        if moment is None:
            break
        found.append(moment.strftime("%Y-%m-%d %H:%M"))
        after = moment
    return found


def numbers(least: int, most: int) -> st.SearchStrategy[str]:
    """A field of a cron expression."""
    one = st.integers(least, most)
    ends = st.tuples(one, one).map(sorted)
    return st.one_of(
        st.just("*"),
        st.lists(one, min_size=1, max_size=3).map(lambda found: ",".join(map(str, found))),
        ends.map(lambda pair: f"{pair[0]}-{pair[1]}"),
        st.integers(1, most).map(lambda step: f"*/{step}"),
        st.tuples(ends, st.integers(1, 9)).map(lambda it: f"{it[0][0]}-{it[0][1]}/{it[1]}"),
    )


def fits(text: str, value: int, least: int) -> bool:
    """What a field says, read another way than the program does."""
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, last = (least, 99) if span == "*" else map(int, (span.split("-") * 2)[:2])
        if first <= value <= last and (value - first) % int(step or 1) == 0:
            return True
    return False


def due(expression: str, wall: datetime) -> bool:
    minute, hour, day, month, week_day = expression.split()
    sunday_first = (wall.weekday() + 1) % 7
    return (
        fits(minute, wall.minute, 0)
        and fits(hour, wall.hour, 0)
        and fits(day, wall.day, 1)
        and fits(month, wall.month, 1)
        and fits(week_day, sunday_first, 0)
    )


def looked_at(expression: str, place: ZoneInfo, after: datetime, until: datetime) -> Any:
    """Minute by minute: what the clock shows, what it skips, and not what it shows again."""
    moment = after.replace(second=0) + MINUTE
    while moment <= until:
        wall = moment.astimezone(place)
        before = (moment - MINUTE).astimezone(place).replace(tzinfo=None) + MINUTE
        shown = wall.replace(tzinfo=None)
        while before < shown:  # the clock jumped ahead to this minute
            if due(expression, before):
                return moment
            before += MINUTE
        if not wall.fold and due(expression, shown):
            return moment
        moment += MINUTE
    return None


@given(
    fields=st.tuples(numbers(0, 59), numbers(0, 23), numbers(1, 31), numbers(1, 12), numbers(0, 6)),
    jump=st.sampled_from(JUMPS),
    seconds=st.integers(0, 3 * 24 * 3600),
)
@settings(max_examples=100, deadline=None)
def test_cron_is_due_when_the_clock_says_so(
    fields: tuple[str, ...], jump: tuple[str, datetime], seconds: int
) -> None:
    expression, (name, day) = " ".join(fields), jump
    after = day + timedelta(seconds=seconds)
    until = day + timedelta(days=4)
    try:
        schedule = stop(type="cron", expression=expression, time_zone=name)
    except UserErrorException:  # such as 30 February
        assert looked_at(expression, ZoneInfo(name), after, until) is None
        return
    found = following(schedule, after)
    expected = looked_at(expression, ZoneInfo(name), after, until)
    assert found is not None
    assert found > after
    assert found == expected if expected else found > until


@given(
    frequency=st.sampled_from(["day", "week", "month"]),
    interval=st.integers(1, 5),
    first=st.dates(date(2020, 1, 1), date(2021, 12, 31)),
    at=st.integers(0, 24 * 60 - 1),
    hours=st.lists(st.integers(0, 23), max_size=3),
    minutes=st.lists(st.integers(0, 59), max_size=3),
    week_days=st.lists(st.sampled_from(WEEK_DAYS), max_size=3),
    month_days=st.lists(st.integers(1, 28), max_size=3),
    ahead=st.integers(0, 200 * 24 * 60),
)
@settings(max_examples=100, deadline=None)
def test_recurrences_come_on_the_days_one_counts_to(
    frequency: str,
    interval: int,
    first: date,
    at: int,
    hours: list[int],
    minutes: list[int],
    week_days: list[str],
    month_days: list[int],
    ahead: int,
) -> None:
    first = first.replace(day=min(first.day, 28))
    start = datetime(first.year, first.month, first.day, at // 60, at % 60, tzinfo=UTC)
    pattern: dict[str, Any] = {"hours": hours, "minutes": minutes}
    if frequency == "week":
        pattern["week_days"] = week_days
    if frequency == "month":
        pattern["month_days"] = month_days
    schedule = stop(
        type="recurrence",
        frequency=frequency,
        interval=interval,
        schedule=pattern,
        start_time=start,
    )
    after = start + ahead * MINUTE
    found = following(schedule, after)
    days = counted(frequency, interval, first, week_days, month_days)
    all_times = sorted(
        datetime(day.year, day.month, day.day, hour, minute, tzinfo=UTC)
        for day in days
        for hour in hours or [start.hour]
        for minute in minutes or [start.minute]
    )
    assert found == next(each for each in all_times if each > after)


def counted(
    frequency: str, interval: int, first: date, week_days: list[str], month_days: list[int]
) -> list[date]:
    """The days of some years, one after the other."""
    found = []
    day = first
    for number in range(0, 900, interval):
        if frequency == "day":
            found.append(first + timedelta(days=number))
        elif frequency == "week":
            monday = first - timedelta(days=first.weekday()) + timedelta(weeks=number)
            chosen = [WEEK_DAYS.index(each) for each in week_days] or [first.weekday()]
            found += [monday + timedelta(days=each) for each in chosen]
        else:
            years, month = divmod(first.month - 1 + number, 12)
            day = date(first.year + years, month + 1, 1)
            found += [day.replace(day=each) for each in month_days or [first.day]]
    return found


@given(
    frequency=st.sampled_from(["minute", "hour"]),
    interval=st.integers(1, 1000),
    jump=st.sampled_from(JUMPS),
    seconds=st.integers(0, 4 * 24 * 3600),
)
@settings(max_examples=100, deadline=None)
def test_minutes_and_hours_are_counted_evenly(
    frequency: str, interval: int, jump: tuple[str, datetime], seconds: int
) -> None:
    name, day = jump
    schedule = stop(
        type="recurrence", frequency=frequency, interval=interval, time_zone=name, start_time=day
    )
    step = timedelta(minutes=interval * (60 if frequency == "hour" else 1))
    after = day + timedelta(seconds=seconds)
    found = following(schedule, after)
    assert found is not None
    assert timedelta(0) < found - after <= step
    assert (found - day) % step == timedelta(0)


@given(
    trigger=st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from(["cron", "Recurrence", "x", 1]),
            "expression": st.text("0123456789*/,- abcMONjan", max_size=12) | st.integers(),
            "frequency": st.sampled_from(["day", "Week", "month", "minute", "hour", "year"]),
            "interval": st.integers(-2, 2000) | st.text(max_size=2),
            "schedule": st.dictionaries(
                st.sampled_from(["hours", "minutes", "week_days", "month_days", "days"]),
                st.lists(st.integers(-1, 70) | st.sampled_from(["mon", "Friday", "x"])),
                max_size=3,
            )
            | st.text(max_size=2),
            "start_time": st.datetimes() | st.text(max_size=3) | st.datetimes().map(str),
            "end_time": st.datetimes() | st.dates() | st.none(),
            "time_zone": st.sampled_from(["UTC", *WINDOWS]) | st.text(max_size=5) | st.integers(),
        },
    )
)
@settings(max_examples=200, deadline=None)
def test_whatever_is_given_is_a_schedule_or_a_sentence(trigger: dict[str, Any]) -> None:
    try:
        found = parse({"action": "start", "trigger": trigger})
    except UserErrorException:
        return
    assert parse(found) == found
    after = datetime(2026, 1, 1, tzinfo=UTC)
    moment = following(found, after)
    assert moment is None or moment > after


def test_a_time_that_the_clock_skips_is_the_next_that_it_shows() -> None:
    schedule = stop(type="cron", expression="30 2 * * *", time_zone="W. Europe Standard Time")
    after = datetime(2026, 3, 28, 12, tzinfo=UTC)
    assert times(schedule, after, 2) == ["2026-03-29 01:00", "2026-03-30 00:30"]


def test_a_time_that_the_clock_shows_twice_comes_once() -> None:
    schedule = stop(type="cron", expression="30 2 * * *", time_zone="W. Europe Standard Time")
    after = datetime(2026, 10, 24, 12, tzinfo=UTC)
    assert times(schedule, after, 2) == ["2026-10-25 00:30", "2026-10-26 01:30"]


def test_a_day_fits_both_of_its_fields() -> None:
    schedule = stop(type="cron", expression="0 18 1-7 * FRI")
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert times(schedule, after, 2) == ["2026-01-02 18:00", "2026-02-06 18:00"]


@pytest.mark.parametrize("expression", ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * sun-sun"])
def test_sunday_has_two_numbers_and_a_name(expression: str) -> None:
    assert parse_cron(expression).week_days == {6}


@pytest.mark.parametrize(
    ("expression", "days"),
    [("0 0 * * FRI-SUN", {4, 5, 6}), ("0 0 * * */2", {6, 1, 3, 5}), ("0 0 * * 5/2", {4, 6})],
)
def test_days_of_the_week_in_ranges_and_steps(expression: str, days: set[int]) -> None:
    assert parse_cron(expression).week_days == days


def test_fields_of_an_expression() -> None:
    found = parse_cron(" 5/20,0 9-17/4  * JAN,dec 1-5 ")
    assert found == Cron(
        frozenset({0, 5, 25, 45}),
        frozenset({9, 13, 17}),
        frozenset(range(1, 32)),
        frozenset({1, 12}),
        frozenset(range(5)),
    )


def test_a_start_and_an_end() -> None:
    schedule = stop(
        type="cron",
        expression="0 18 * * *",
        start_time="2026-05-03T18:00:30",
        end_time="2026-05-05T18:00",
        time_zone="Pacific Standard Time",
    )
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert times(schedule, after, 9) == ["2026-05-04 01:00", "2026-05-05 01:00", "2026-05-06 01:00"]


def test_a_start_with_an_offset_is_a_moment() -> None:
    schedule = stop(
        type="recurrence",
        frequency="week",
        interval=2,
        start_time="2026-05-03T22:30:00Z",
        time_zone="Europe/Berlin",
    )
    trigger = schedule["trigger"]
    assert trigger["start_time"] == "2026-05-04T00:30:00"
    assert trigger["schedule"] == {
        "hours": [0],
        "minutes": [30],
        "week_days": ["monday"],
        "month_days": [],
    }
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert times(schedule, after, 2) == ["2026-05-03 22:30", "2026-05-17 22:30"]


def test_months_without_that_day_are_passed_over() -> None:
    schedule = stop(
        type="recurrence",
        frequency="month",
        schedule={"month_days": [31], "hours": 9},
    )
    after = datetime(2026, 1, 1, tzinfo=UTC)
    assert times(schedule, after, 3) == [
        "2026-01-31 09:00",
        "2026-03-31 09:00",
        "2026-05-31 09:00",
    ]


@given(
    expression=st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 9-17 * * MON-FRI", "5 4 1 * *"]),
    since=st.integers(0, 360 * 24 * 3600),
    minutes=st.integers(0, 3000),
)
@settings(max_examples=60, deadline=None)
def test_the_last_of_those_that_have_passed(expression: str, since: int, minutes: int) -> None:
    schedule = stop(type="cron", expression=expression, time_zone="Europe/Berlin")
    begun = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=since)
    until = begun + minutes * MINUTE
    last, moment = None, following(schedule, begun)
    while moment is not None and moment <= until:
        last, moment = moment, following(schedule, moment)
    assert last_due(schedule, begun, until) == last


def test_the_last_of_years_is_found_as_quickly() -> None:
    schedule = stop(type="cron", expression="* * * * *", end_time="2025-05-05T05:05")
    years = datetime(2005, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)
    assert last_due(schedule, *years) == datetime(2025, 5, 5, 5, 5, tzinfo=UTC)


def test_what_is_disabled_never_comes() -> None:
    trigger = {"type": "cron", "expression": "* * * * *"}
    schedule = parse({"action": "Start", "state": "Disabled", "trigger": trigger})
    assert schedule["action"] == "start"
    assert following(schedule, datetime(2026, 1, 1, tzinfo=UTC)) is None


def test_other_spellings_of_a_trigger() -> None:
    trigger = parse_trigger(
        {"frequency": "Day", "interval": "1", "pattern": {"hours": 10}, "timezone": "utc"}
    )
    assert trigger["type"] == "recurrence"
    assert next_due(trigger, datetime(2026, 1, 1, tzinfo=UTC)) == datetime(
        2026, 1, 1, 10, tzinfo=UTC
    )


def test_every_zone_of_windows_is_known() -> None:
    for name in WINDOWS:
        assert zone(name) is zone(name.lower()) or zone(name) == zone(name.lower())


@pytest.mark.parametrize(
    ("trigger", "sentence"),
    [
        ({"type": "cron"}, "the cron expression is None"),
        ({"expression": "0 18 * *"}, "has 4 fields, not 5"),
        ({"expression": "0 0 18 * * *"}, "has 6 fields, not 5"),
        ({"expression": "60 * * * *"}, "'60' in the minutes of a cron expression"),
        ({"expression": "* * * * MUN"}, "'MUN' in the days of the week"),
        ({"expression": "*/0 * * * *"}, "'*/0' in the minutes of a cron expression has no step"),
        ({"expression": "* 22-6 * * *"}, "'22-6' in the hours of a cron expression goes backwards"),
        ({"expression": "0 0 30 2 *"}, "the cron trigger never comes"),
        (
            {"expression": "* * * * *", "frequency": "day"},
            "a cron trigger has no field",
        ),
        ({"expression": "* * * * *", "time_zone": "W Europe Standard Time"}, "did you mean 'W. Eu"),
        ({"expression": "* * * * *", "time_zone": "../UTC"}, "there is no time zone '../UTC'"),
        ({"expression": "* * * * *", "start_time": "soon"}, "start_time is 'soon', not a date"),
        (
            {"expression": "* * * * *", "start_time": "2030-01-02", "end_time": "2030-01-01"},
            "never comes: no time from 2030-01-02T00:00:00 to 2030-01-01T00:00:00 fits it",
        ),
        ({"type": "crom"}, "the type of a trigger is 'crom'; did you mean 'cron'?"),
        ({}, "the type of a trigger is None"),
        ("daily", "trigger is 'daily', not a table of fields"),
        ({"frequency": "daily"}, "frequency is 'daily'"),
        ({"frequency": "day"}, "a recurrence by the day needs hours"),
        ({"frequency": "week", "schedule": {"hours": 1}}, "needs week_days"),
        ({"frequency": "month", "schedule": {"hours": 1}}, "needs month_days"),
        ({"frequency": "day", "interval": 0}, "interval is 0, not a whole number from 1 to 1000"),
        ({"frequency": "day", "schedule": {"hours": [24]}}, "hours has 24, not a whole number"),
        ({"frequency": "day", "schedule": {"hour": 1}}, "did you mean 'hours'?"),
        ({"frequency": "day", "schedule": "18:00"}, "schedule is '18:00', not a table"),
        ({"frequency": "week", "schedule": {"week_days": ["moonday"]}}, "did you mean 'monday'?"),
        (
            {"frequency": "day", "schedule": {"week_days": ["mon"]}},
            "is for frequency week",
        ),
        ({"frequency": "hour", "schedule": {"minutes": [5]}}, "by the hour has no schedule"),
    ],
)
def test_what_is_wrong_is_said(trigger: Any, sentence: str) -> None:
    with pytest.raises(UserErrorException) as refused:
        parse({"action": "stop", "trigger": trigger})
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    ("schedules", "sentence"),
    [
        ({"action": "stop"}, "not a list of schedules"),
        (["stop"], "a schedule is 'stop', not a table"),
        ([{"action": "halt"}], "the action of a schedule is 'halt'"),
        ([{"action": "stop", "state": "on"}], "the state of a schedule is 'on'"),
        ([{"action": "stop", "triger": {}}], "did you mean 'trigger'?"),
        ([{}] * 5, "there are 5 schedules, and a compute instance has at most 4"),
    ],
)
def test_what_is_wrong_with_schedules_is_said(schedules: Any, sentence: str) -> None:
    with pytest.raises(UserErrorException) as refused:
        parse_all(schedules)
    assert sentence in refused.value.message


def test_as_many_schedules_as_azure_has() -> None:
    one = {"action": "stop", "trigger": {"expression": "0 18 * * *"}}
    assert len(parse_all([one] * MOST)) == MOST
    assert parse_all(None) == []
