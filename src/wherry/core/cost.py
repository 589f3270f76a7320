"""What nodes cost: their seconds times their price, by run, by target and by day."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from math import floor, fsum
from typing import Callable, Dict, Iterable, Iterator, List, Optional, Tuple

DAY_S = 86400.0


@dataclass(frozen=True)
class Use:
    """One stretch of a node's time. ``run_id`` is None while it was held for nobody."""

    target: str
    node: str
    start: float
    end: float
    price_per_hour: float = 0.0
    run_id: Optional[str] = None

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.start)

    @property
    def cost(self) -> float:
        return self.seconds * self.price_per_hour / 3600


@dataclass(frozen=True)
class Line:
    """``key``: a run, a target or a day; ``idle_seconds`` are those that no run had."""

    key: str
    node_seconds: float
    idle_seconds: float
    cost: float


def by_run(uses: Iterable[Use]) -> List[Line]:
    """Idle time is nobody's and is left out."""
    return _lines((each.run_id, each) for each in uses if each.run_id is not None)


def by_target(uses: Iterable[Use]) -> List[Line]:
    return _lines((each.target, each) for each in uses)


def by_day(uses: Iterable[Use]) -> List[Line]:
    """Days of UTC, first to last; a stretch over midnight counts for both."""
    return _lines((day, part) for each in uses for day, part in days(each))


BY: Dict[str, Callable[[Iterable[Use]], List[Line]]] = {
    "run": by_run,
    "target": by_target,
    "day": by_day,
}


def days(use: Use) -> Iterator[Tuple[str, Use]]:
    """The stretch in pieces that each lie within one day of UTC."""
    start = use.start
    while start < use.end:
        number = floor(start / DAY_S)
        end = min(use.end, (number + 1) * DAY_S)
        day = datetime.fromtimestamp(number * DAY_S, timezone.utc).strftime("%Y-%m-%d")
        yield day, Use(use.target, use.node, start, end, use.price_per_hour, use.run_id)
        start = end


def idle_between(life: Use, runs: Iterable[Use]) -> Iterator[Use]:
    """The stretches of a node's life in which no run had it."""
    start = life.start
    for each in sorted(runs, key=lambda use: use.start):
        if min(each.start, life.end) > start:
            yield _idle(life, start, min(each.start, life.end))
        start = max(start, each.end)
    if start < life.end:
        yield _idle(life, start, life.end)


def _idle(life: Use, start: float, end: float) -> Use:
    return Use(life.target, life.node, start, end, life.price_per_hour)


def _lines(keyed: Iterable[Tuple[str, Use]]) -> List[Line]:
    found: Dict[str, List[Use]] = {}
    for key, use in keyed:
        found.setdefault(key, []).append(use)
    return [
        Line(
            key,
            fsum(each.seconds for each in uses),
            fsum(each.seconds for each in uses if each.run_id is None),
            fsum(each.cost for each in uses),
        )
        for key, uses in sorted(found.items())
    ]
