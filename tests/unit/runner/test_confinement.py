"""A command is held to what its node's folder says: CPUs, and memory by a group or by looking."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.runner.test_attempt import Attempt, attempt, python, server
from wherry.drivers import groups

__all__ = ["attempt", "server"]

GREEDY = """\
import time
held = []
while True:
    held.append(bytearray(10 << 20))
    time.sleep(0.02)
"""


def limit(attempt: Attempt, **limits: Any) -> None:
    (attempt.folder.parent / ".limits.json").write_text(json.dumps(limits))


def test_a_command_stays_on_the_cpus_of_its_node(attempt: Attempt, tmp_path: Path) -> None:
    one = min(os.sched_getaffinity(0))
    limit(attempt, cpus=[one])
    code = f"import os; open({str(tmp_path / 'cpus')!r}, 'w').write(str(os.sched_getaffinity(0)))"
    attempt.start(python(code))
    assert attempt.finish()["exit_code"] == 0
    assert (tmp_path / "cpus").read_text() == f"{{{one}}}"


def test_without_a_group_memory_is_looked_at(attempt: Attempt) -> None:
    limit(attempt, memory_bytes=120 << 20)
    attempt.start(python(GREEDY))
    record = attempt.finish()
    assert record["out_of_memory"]
    assert record["exit_code"] is None


def test_a_group_holds_the_command_and_not_its_runner(attempt: Attempt) -> None:
    made = groups.make(f"wherry-test-{os.getpid()}", 120 << 20)
    if not made:
        pytest.skip("control groups cannot be made here")
    try:
        limit(attempt, memory_bytes=120 << 20, groups=made)
        attempt.start(python(GREEDY))
        record = attempt.finish()
    finally:
        groups.remove(made)
    assert record["out_of_memory"]
    assert not Path(made[0]).exists()


def test_limits_that_cannot_be_read_or_kept_hinder_nothing(attempt: Attempt) -> None:
    limit(attempt, cpus=[100_000], groups=["/nowhere"])
    attempt.start(["/bin/echo", "hello"])
    assert attempt.finish()["exit_code"] == 0
