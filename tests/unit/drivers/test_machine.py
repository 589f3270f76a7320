from __future__ import annotations

import os
from pathlib import Path

import psutil

from wherry.drivers import machine


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def all_cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def test_without_limits_it_is_the_machine(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    assert machine.cpus(tmp_path, missing) == all_cpus()
    assert machine.memory_bytes(tmp_path, missing) == psutil.virtual_memory().total


def test_limits_of_version_two_hold_from_any_level(tmp_path: Path) -> None:
    groups = write(tmp_path / "cgroup", "0::/user.slice/job.scope\n")
    root = tmp_path / "fs"
    write(root / "user.slice/cpu.max", "50000 100000\n")
    write(root / "user.slice/job.scope/cpu.max", "max 100000\n")
    write(root / "user.slice/job.scope/memory.max", "1048576\n")
    write(root / "user.slice/memory.max", "max\n")
    assert machine.cpus(root, groups) == 0.5
    assert machine.memory_bytes(root, groups) == 1048576


def test_limits_of_version_one(tmp_path: Path) -> None:
    groups = write(tmp_path / "cgroup", "4:memory:/docker/1\n3:cpu,cpuacct:/docker/1\n0::/\n")
    root = tmp_path / "fs"
    write(root / "cpu/docker/1/cpu.cfs_quota_us", "25000\n")
    write(root / "cpu/docker/1/cpu.cfs_period_us", "100000\n")
    write(root / "memory/docker/1/memory.limit_in_bytes", "2097152\n")
    write(root / "memory/memory.limit_in_bytes", "9223372036854771712\n")
    assert machine.cpus(root, groups) == 0.25
    assert machine.memory_bytes(root, groups) == 2097152


def test_no_quota_in_version_one(tmp_path: Path) -> None:
    groups = write(tmp_path / "cgroup", "3:cpu:/\n")
    write(tmp_path / "fs/cpu/cpu.cfs_quota_us", "-1\n")
    write(tmp_path / "fs/cpu/cpu.cfs_period_us", "100000\n")
    assert machine.cpus(tmp_path / "fs", groups) == all_cpus()


def test_this_machine_has_something() -> None:
    assert machine.cpus() > 0
    assert machine.memory_bytes() > 0
