"""A run on a machine over SSH, from submission to result, beside a bare ``ssh host python``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests import sshd

from benchmarks.measure import Row, medians_s, ratio_row, server_home
from wherry import Experiment, ScriptRunConfig, Workspace
from wherry.sdk.compute.machine import RemoteCompute

ROUNDS = 25


def rows() -> list[Row]:
    missing = sshd.missing()
    if missing:
        print(f"machines over SSH are not measured: {missing}", file=sys.stderr)
        return []
    with server_home() as folder, sshd.serving(folder / "sshd") as machine:
        source = folder / "src"
        source.mkdir()
        (source / "noop.py").write_text("pass\n")
        whole, alone = _times(source, machine)
    return [ratio_row("no-op run over SSH, warm", whole, "ssh host python noop.py", alone, 3)]


def _times(source: Path, machine: sshd.Sshd) -> tuple[float, float]:
    workspace = Workspace.create("bench", exist_ok=True)
    key = str(machine.folder / "key")
    RemoteCompute.attach(
        workspace,
        "lab",
        username=sshd.user(),
        address=machine.address,
        ssh_port=machine.port,
        private_key_file=key,
    ).wait_for_completion()
    experiment = Experiment(workspace, "noop")
    config = ScriptRunConfig(str(source), "noop.py", compute_target="lab")
    argv = _ssh(machine, "python3", str(source / "noop.py"))

    def run() -> None:
        result = experiment.submit(config)
        result.wait_for_completion()
        assert result.get_status() == "Completed"

    def bare() -> None:
        subprocess.run(argv, check=True, capture_output=True)

    for _ in range(3):
        run()
    return medians_s(run, bare, ROUNDS)


def _ssh(machine: sshd.Sshd, *words: str) -> list[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"]
    given = [word for option in options for word in ("-o", option)]
    place = ["-F", os.devnull, "-i", str(machine.folder / "key"), "-p", str(machine.port)]
    return ["ssh", *given, *place, f"{sshd.user()}@{machine.address}", *words]
