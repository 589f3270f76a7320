"""What an agent answers, made into what the rest may rely on.

Runs on a machine are that user's own processes, and so is the agent: what comes from there is
believed about that machine's attempts, and has no more power than that, whatever it looks like.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wherry.core.errors import LaunchRefusedError, TargetUnavailableError, WherryError
from wherry.core.lifecycle import ExitRecord, Observation, Phase
from wherry.core.resources import Resources
from wherry.core.text import clean

from .base import Node
from .places import Place

_LONGEST = 4000
_MOST = 10_000


@contextmanager
def making_sense(place: Place) -> Iterator[None]:
    """What is missing in an answer or of the wrong kind is the machine's trouble."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise TargetUnavailableError(
            f"{place} gives answers that make no sense ({type(error).__name__})",
            hint="another program may answer in place of the agent: look at its Python, and at "
            "~/.wherry-node there",
            cause="nonsense",
        ) from None


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return clean(value, _LONGEST)


def number(value: Any, most: float = 2**62) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    if not math.isfinite(value) or not 0 <= value <= most:
        raise ValueError("not an amount")
    return value


def resources(fields: Mapping[str, Any]) -> Resources:
    return Resources(
        float(number(fields["cpu"], _MOST)),
        int(number(fields["memory_bytes"])),
        int(number(fields["gpu"], _MOST)),
    )


def nodes(answer: Mapping[str, Any]) -> list[Node]:
    found = [
        Node(text(each["name"]), resources(each["resources"]), tuple(map(text, each["gpus"])))
        for each in answer["nodes"]
    ]
    if len(found) != 1:
        raise ValueError("a machine is one node")
    return found


def observations(answer: Mapping[str, Any], count: int) -> list[Observation]:
    seen: Sequence[Any] = answer["seen"]
    if len(seen) != count:
        raise ValueError("another number than was asked for")
    return [_observation(each) for each in seen]


def error(place: Place, problem: Any) -> WherryError:
    """What the agent says went wrong, with the machine in front: it speaks of itself."""
    fields = problem if isinstance(problem, Mapping) else {}
    told = clean(str(fields.get("detail") or "it does not say what is wrong"), _LONGEST)
    hint = clean(str(fields["hint"]), _LONGEST) if fields.get("hint") else None
    more = _known_fields(fields.get("fields"))
    if fields.get("code") == LaunchRefusedError.code:
        return LaunchRefusedError(told, hint=hint, **more)
    return TargetUnavailableError(f"{place}: {told}", hint=hint, **more)


def _known_fields(given: Any) -> dict[str, Any]:
    """That it has not started something, and why: nobody but the agent can know."""
    said = given if isinstance(given, Mapping) else {}
    found: dict[str, Any] = {name: True for name in ("refused", "node") if said.get(name) is True}
    cause = said.get("cause")
    return {**found, "cause": cause} if cause in ("disk_full", "home", "start") else found


def _observation(fields: Mapping[str, Any]) -> Observation:
    exit = None if fields["exit"] is None else ExitRecord.parse(fields["exit"])
    return Observation(Phase(fields["phase"]), exit, text(fields["detail"]))
