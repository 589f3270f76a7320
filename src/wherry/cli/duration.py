"""Lengths of time as people write and read them."""

from __future__ import annotations

import re
from datetime import datetime, timezone
from typing import Any, Optional

import click

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_LONGEST = 10.0**9
_LONGEST_RUN = 30 * _UNITS["d"]
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])", re.IGNORECASE)
_WHOLE = re.compile(r"(?:\d+(?:\.\d+)?[dhms]\s*)+\Z", re.IGNORECASE)


def duration_option(
    ctx: click.Context, param: click.Parameter, value: Optional[str]
) -> Optional[float]:
    """For ``callback=`` of an option: ``90``, ``45s``, ``30m``, ``2h``, ``1h30m``, ``1d``."""
    seconds = None if value is None else parse_duration(value)
    if value is not None and seconds is None:
        raise click.BadParameter(
            f"{value!r} is no length of time: write it like 45s, 30m, 2h or 1h30m", ctx, param
        )
    if seconds is not None and seconds > _LONGEST_RUN:
        raise click.BadParameter(f"{value!r} is longer than 30 days", ctx, param)
    return seconds


def parse_duration(value: Any) -> Optional[float]:
    """Seconds; a bare number is that many. None for what is no length of time."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(min(value, _LONGEST)) if value > 0 else None
    text = str(value).strip()
    try:
        return parse_duration(float(text))
    except ValueError:
        pass
    if not _WHOLE.match(text):
        return None
    return sum(float(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(text)) or None


def show_duration(seconds: float) -> str:
    """``0.4s``, ``12.3s``, ``4m10s``, ``2h05m``, ``3d04h``."""
    if seconds < 59.95:
        return f"{max(seconds, 0):.1f}s"
    whole = int(seconds + 0.5)
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d{whole % 86400 // 3600:02d}h"


def between(start: Optional[str], end: Optional[str]) -> Optional[float]:
    """Seconds from one time of the server to another, or to now."""
    if not start:
        return None
    until = parse_time(end) if end else datetime.now(timezone.utc)
    return (until - parse_time(start)).total_seconds()


def parse_time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def ago(text: Optional[str], now: Optional[datetime] = None) -> str:
    """A time of the server as one would say it: ``now``, ``3 min ago``, ``12:03``, ``yesterday``,
    ``2026-03-04``.
    """
    if not text:
        return ""
    at, now = parse_time(text).astimezone(), (now or datetime.now(timezone.utc)).astimezone()
    minutes = int((now - at).total_seconds() // 60)
    if minutes < 60:
        return f"{minutes} min ago" if minutes > 0 else "now"
    days = (now.date() - at.date()).days
    return at.strftime("%H:%M") if days < 1 else "yesterday" if days == 1 else str(at.date())


def show_time(text: Optional[str]) -> str:
    """A time of the server on the clock of this machine."""
    return parse_time(text).astimezone().strftime("%Y-%m-%d %H:%M:%S") if text else ""
