"""The logs of a run's attempts: what they are called, and where each lies in the log store."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from .plane import Plane

STD_LOG = "user_logs/std_log.txt"
BUILD_LOG = "azureml-logs/20_image_build_log.txt"
"""What was said while the environment was made. Azure ML's name, though not all are images."""

_KEYS = {STD_LOG: "", BUILD_LOG: ".build"}
_PROCESS = re.compile(r"user_logs/std_log_process_(0|[1-9][0-9]{0,5})\.txt\Z")


def known(name: str) -> bool:
    return name in _KEYS or _PROCESS.match(name) is not None


def key(run_id: str, attempt_id: str, name: str = STD_LOG) -> str:
    ending = _KEYS.get(name)
    if ending is None:
        found = _PROCESS.match(name)
        ending = f".process_{found.group(1) if found else ''}"
    return f"{run_id}/{attempt_id}{ending}"


def named(plane: Plane, run_id: str, attempts: Sequence[Any]) -> dict[str, str]:
    """The keys of a run's logs. Those of its last attempt have the plain names."""
    found: dict[str, str] = {}
    for number, group in groupby(attempts, key=lambda attempt: attempt.number):
        last = number == attempts[-1].number
        for name, where in _of_members(plane, run_id, list(group)):
            folder, _, file = name.partition("/")
            found[name if last else f"{folder}/attempt_{number}/{file}"] = where
    return found


def remove(plane: Plane, run_id: str, attempt_id: str) -> None:
    for name in _KEYS:
        plane.logs.remove(key(run_id, attempt_id, name))


def processes_of(members: Sequence[Any]) -> list[range]:
    """The ranks of the processes on each node, as far as the nodes have told."""
    found, first = [], 0
    for member in members:
        count = len(member.meeting) - 1 if member.meeting else 1
        found.append(range(first, first + count))
        first += count
    return found


def _of_members(plane: Plane, run_id: str, members: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """The first process of a node writes the attempt's own log, each other one its own."""
    distributed = len(members) > 1 or members[0].meeting is not None
    for member, ranks in zip(members, processes_of(members), strict=True):
        where = key(run_id, member.id)
        if member.rank == 0:
            yield STD_LOG, where
        if distributed:
            yield _of_process(ranks[0]), where
            for rank in ranks[1:]:
                yield _of_process(rank), key(run_id, member.id, _of_process(rank))
        build = key(run_id, member.id, BUILD_LOG)
        if plane.logs.size(build):
            folder, _, file = BUILD_LOG.partition("/")
            yield f"{folder}/node_{member.rank}/{file}" if member.rank else BUILD_LOG, build


def _of_process(rank: int) -> str:
    return f"user_logs/std_log_process_{rank}.txt"
