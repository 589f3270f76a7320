"""The logs of a run's attempts: what they are called, and where each lies in the log store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .plane import Plane

STD_LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
"""What was said while the environment was made. Azure ML's name, though not all are images."""

_KEYS = {STD_LOG: "", BUILD_LOG: ".build"}


def known(name: str) -> bool:
    return name in _KEYS


def key(run_id: str, attempt_id: str, name: str = STD_LOG) -> str:
    return f"{run_id}/{attempt_id}{_KEYS[name]}"


def named(plane: Plane, run_id: str, attempts: Sequence[Any]) -> dict[str, str]:
    """The keys of a run's logs. Those of its last attempt have the plain names."""
    found: dict[str, str] = {}
    for attempt in attempts:
        last = attempt is attempts[-1]
        for name in _KEYS:
            where = key(run_id, attempt.id, name)
            if name == STD_LOG or plane.logs.size(where):
                folder, _, file = name.partition("/")
                found[name if last else f"{folder}/attempt_{attempt.number}/{file}"] = where
    return found


def remove(plane: Plane, run_id: str, attempt_id: str) -> None:
    for name in _KEYS:
        plane.logs.remove(key(run_id, attempt_id, name))
