"""A run on a machine over SSH beside a bare ``ssh host python``, and a server of many at rest."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import psutil
from tests import sshd

from benchmarks.measure import Row, medians_s, pss_mb, ratio_row, server_home
from wherry import Experiment, ScriptRunConfig, Workspace
from wherry.compute import AmlCompute, ComputeTarget, RemoteCompute

ROUNDS = 25
_SETTLE_S, _REST_S = 5.0, 20.0


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
    warm = ratio_row("no-op run over SSH, warm", whole, "ssh host python noop.py", alone, 3)
    return [warm, *_at_rest()]


def _at_rest() -> list[Row]:
    """A server with connections to eight machines and nothing to do."""
    with server_home() as folder, ExitStack() as stack:
        places = [(folder / f"sshd{number}", f"127.0.0.{number}") for number in range(20, 28)]
        machines = [stack.enter_context(sshd.serving(*place)) for place in places]
        for each in machines[1:]:
            shutil.copy(machines[0].folder / "key.pub", each.folder / "authorized_keys")
        _take_all(folder, machines)
        server = psutil.Process(json.loads((folder / "home" / "server.json").read_text())["pid"])
        time.sleep(_SETTLE_S)
        before = server.cpu_times()
        time.sleep(_REST_S)
        after, memory = server.cpu_times(), pss_mb(server.pid)
    share = (after.user + after.system - before.user - before.system) / _REST_S
    what = "server at rest, 3 machines and 5 idle nodes over SSH"
    return [
        Row(f"{what}: memory (PSS)", f"{memory:.0f} MB", "", "", "<= 150 MB", memory <= 150),
        Row(f"{what}: CPU", f"{share:.2%}", "", "", "<= 2%", share <= 0.02),
    ]


def _take_all(folder: Path, machines: Sequence[sshd.Sshd]) -> None:
    """Three are attached, five are nodes of a cluster that keeps them."""
    workspace = Workspace.create("bench", exist_ok=True)
    key = str(machines[0].folder / "key")
    for number, each in enumerate(machines[:3]):
        _attach(workspace, f"lab{number}", each, key).wait_for_completion()
    hosts = [{"address": each.address, "port": each.port} for each in machines[3:]]
    site = {
        "kind": "ssh",
        "config": {"hosts": hosts, "username": sshd.user()},
        "secrets": {"private_key": machines[0].key},
    }
    workspace._client.request("PUT", "/sites/pool", json=site)
    made = AmlCompute.provisioning_configuration(location="pool", min_nodes=5, max_nodes=5)
    ComputeTarget.create(workspace, "pool", made)
    source = folder / "src"
    source.mkdir()
    (source / "noop.py").write_text("pass\n")
    config = ScriptRunConfig(str(source), "noop.py", compute_target="pool")
    config.run_config.node_count = 5
    Experiment(workspace, "all").submit(config).wait_for_completion()


def _times(source: Path, machine: sshd.Sshd) -> tuple[float, float]:
    workspace = Workspace.create("bench", exist_ok=True)
    _attach(workspace, "lab", machine, str(machine.folder / "key")).wait_for_completion()
    experiment = Experiment(workspace, "noop")
    config = ScriptRunConfig(str(source), "noop.py", compute_target="lab")
    argv = ssh_command(machine, "python3", str(source / "noop.py"))

    def run() -> None:
        result = experiment.submit(config)
        result.wait_for_completion()
        assert result.get_status() == "Completed"

    def bare() -> None:
        subprocess.run(argv, check=True, capture_output=True)

    for _ in range(3):
        run()
    return medians_s(run, bare, ROUNDS)


def _attach(workspace: Workspace, name: str, machine: sshd.Sshd, key: str) -> RemoteCompute:
    return RemoteCompute.attach(
        workspace,
        name,
        username=sshd.user(),
        address=machine.address,
        ssh_port=machine.port,
        private_key_file=key,
    )


def ssh_command(machine: sshd.Sshd, *words: str) -> list[str]:
    options = ["StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "BatchMode=yes"]
    given = [word for option in options for word in ("-o", option)]
    place = ["-F", os.devnull, "-i", str(machine.folder / "key"), "-p", str(machine.port)]
    return ["ssh", *given, *place, f"{sshd.user()}@{machine.address}", *words]
