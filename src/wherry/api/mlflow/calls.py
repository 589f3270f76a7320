"""What can be called: a method and a path, and the function that answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, TypeVar

from sqlalchemy import Connection

from wherry.api.callers import Caller
from wherry.control.plane import Plane
from wherry.core.errors import ForbiddenError, NotFoundError, UserErrorException
from wherry.core.records import Workspace
from wherry.store import families, runs, workspaces

Answer = Callable[["Call"], Mapping[str, Any]]
A = TypeVar("A", bound=Answer)
_SHOWN = 200


@dataclass
class Call:
    """One request, with what it was given: the fields of its body, or of its address."""

    plane: Plane
    caller: Caller
    workspace_name: str
    given: Mapping[str, Any]
    parts: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def workspace(self) -> Workspace:
        with self.plane.database.read() as connection:
            return workspaces.get(connection, self.workspace_name)

    def text(self, *names: str) -> str:
        """Required; the first of the names that is given."""
        for name in names:
            value = self.given.get(name)
            if value is not None and value != "":
                return _text(name, value)
        raise missing(names[0])

    def maybe(self, name: str) -> str | None:
        value = self.given.get(name)
        return None if value is None else _text(name, value)

    def number(self, name: str, otherwise: int, least: int = 0, most: int = 2**62) -> int:
        value = self.given.get(name)
        if value is None or value == "":
            return otherwise
        found = whole(name, value)
        if not least <= found <= most:
            raise wrong(name, found, f"it is {least} to {most}")
        return found

    def moment(self, name: str) -> datetime | None:
        """Given in milliseconds since 1970."""
        value = self.given.get(name)
        if value is None or value == "":
            return None
        try:
            return datetime.fromtimestamp(whole(name, value) / 1000, UTC)
        except (OverflowError, OSError, ValueError):
            raise wrong(name, value) from None

    def several(self, name: str) -> list[Any]:
        value = self.given.get(name)
        if value is None:
            return []
        return value if isinstance(value, list) else [value]

    def pairs(self, name: str) -> dict[str, str]:
        """Of ``[{"key": ..., "value": ...}]``."""
        found = {}
        for place, each in enumerate(self.objects(name)):
            if not isinstance(each.get("key"), str):
                raise missing(f"{name}[{place}].key")
            found[each["key"]] = _text(f"{name}[{place}].value", each.get("value", ""))
        return found

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        value = self.given.get(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
            raise wrong(name, value)
        return value

    def run(self, *, write: bool = False) -> Any:
        """The row of the run that is named, if this caller may do that with it."""
        with self.plane.database.read() as connection:
            row = runs.find(connection, self.run_id)
            self.check(connection, row, write=write)
        return row

    @property
    def run_id(self) -> str:
        return self.text("run_id", "run_uuid")

    def check(self, connection: Connection, row: Any, *, write: bool = True) -> None:
        """That it is a run of the workspace, and one that this caller may change."""
        if row is None or row.workspace != self.workspace_name:
            raise NotFoundError(f"Run with id={self.run_id} not found")
        own = self.caller.run_id
        if write and own and not families.descends_from(connection, row.id, own):
            raise ForbiddenError(f"the token of run {own} does not reach run {row.id}")

    def only_people(self, what: str) -> None:
        if self.caller.run_id is not None:
            raise ForbiddenError(f"the token of a run does not allow to {what}")


@dataclass(frozen=True)
class Endpoint:
    method: str
    path: str
    answer: Answer
    of_run: bool = False  # a run and nothing else: it is in the workspace, or there is none

    def carry_out(self, call: Call) -> Mapping[str, Any]:
        """The workspace is looked up before any transaction begins, which needs a connection."""
        if not self.of_run:
            _ = call.workspace
        return self.answer(call)


_exact: dict[tuple[str, str], Endpoint] = {}
_patterns: list[tuple[str, re.Pattern[str], Endpoint]] = []


def endpoint(method: str, path: str, *, of_run: bool = False) -> Callable[[A], A]:
    """For a function that answers what is below ``/api/2.0/mlflow/``; ``{name}`` in the path is
    told in ``call.parts``.
    """

    def note(answer: A) -> A:
        made = Endpoint(method, path, answer, of_run)
        if "{" in path:
            pattern = re.compile(re.sub(r"{(\w+)}", r"(?P<\1>[^/]+)", path))
            _patterns.append((method, pattern, made))
        else:
            _exact[method, path] = made
        return answer

    return note


def find(method: str, path: str) -> tuple[Endpoint, dict[str, str]] | None:
    made = _exact.get((method, path))
    if made is not None:
        return made, {}
    for each, pattern, made in _patterns:
        match = pattern.fullmatch(path) if each == method else None
        if match:
            return made, match.groupdict()
    return None


def every() -> list[Endpoint]:
    return [*_exact.values(), *[made for _, _, made in _patterns]]


def whole(name: str, value: Any) -> int:
    try:
        return int(value)
    except (ValueError, TypeError, OverflowError):
        raise wrong(name, value) from None


def real(name: str, value: Any) -> float:
    """Protocol buffers write what JSON has no number for as a word."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise wrong(name, value)
    try:
        return float(value)
    except (ValueError, OverflowError):
        raise wrong(name, value) from None


def as_real(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def tags_of(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"key": key, "value": value} for key, value in values.items()]


def missing(name: str) -> UserErrorException:
    return UserErrorException(f"Missing value for required parameter {name!r}.")


def wrong(name: str, value: Any, why: str = "") -> UserErrorException:
    shown = json.dumps(value)[:_SHOWN]
    more = f": {why}" if why else ""
    return UserErrorException(f"Invalid value {shown} for parameter {name!r} supplied{more}.")


def _text(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    raise wrong(name, value, "it is a text")
