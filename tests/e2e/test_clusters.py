"""A cluster on this machine, with a real server: from no node to a run, and back to none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.homes import Home, wait_until
from wherry import MpiConfiguration, Workspace
from wherry.sdk.compute.amlcompute import AmlCompute
from wherry.sdk.compute.target import ComputeTarget

GREEDY = """\
import time
held = []
while True:
    held.append(bytearray(10 << 20))
    time.sleep(0.02)
"""


@pytest.fixture
def cluster(home: Home, monkeypatch: pytest.MonkeyPatch) -> AmlCompute:
    monkeypatch.setenv("WHERRY_LOCAL_CPUS", "2")
    monkeypatch.setenv("WHERRY_LOCAL_MEMORY", "600MB")
    workspace = Workspace.create("w", exist_ok=True)
    config = AmlCompute.provisioning_configuration(
        vm_size="local-1", max_nodes=2, idle_seconds_before_scaledown=2
    )
    made = ComputeTarget.create(workspace, "cpu", config)
    assert isinstance(made, AmlCompute)
    return made


def test_nodes_come_and_go_with_runs_also_when_the_server_dies(
    home: Home, cluster: AmlCompute
) -> None:
    script = "import os, time; print(len(os.sched_getaffinity(0)), flush=True); time.sleep(3)"
    made = [home.submit(script, compute_target="cpu") for _ in range(3)]
    wait_until(lambda: any(run.get_status() == "Running" for run in made))
    home.kill_server()
    for run in made:
        run.wait_for_completion()
        pieces: list[bytes] = []
        run.stream_logs(pieces.append, follow=False)
        assert b"".join(pieces) == b"1\n"
    wait_until(lambda: not cluster.list_nodes())
    assert _slots(home) == []
    cluster.delete()
    wait_until(lambda: "cpu" not in Workspace.get("w").compute_targets)


def test_a_run_that_takes_more_memory_than_its_node_has_is_ended_and_says_so(
    home: Home, cluster: AmlCompute
) -> None:
    run = home.submit(GREEDY, compute_target="cpu")
    run.wait_for_completion(raise_on_error=False)
    assert run.get_status() == "Failed"
    assert run.get_details()["error"]["error"]["code"] == "OutOfMemory"


def test_a_run_that_is_over_in_time_fills_a_gap_and_does_not_delay_the_larger_one(
    home: Home, cluster: AmlCompute, tmp_path: Path
) -> None:
    end = tmp_path / "end"
    waits = f"import os, time\nwhile not os.path.exists({str(end)!r}): time.sleep(0.05)"
    first = home.submit(waits, compute_target="cpu", max_run_duration_seconds=3600)
    wait_until(lambda: first.get_status() == "Running")
    two = MpiConfiguration(node_count=2)
    large = home.submit("", compute_target="cpu", distributed_job_config=two)
    open_ended = home.submit("", compute_target="cpu")
    short = home.submit("", compute_target="cpu", max_run_duration_seconds=60)
    short.wait_for_completion()
    assert [run.get_status() for run in (first, large, open_ended)] == ["Running"] + ["Queued"] * 2
    end.touch()
    large.wait_for_completion()
    open_ended.wait_for_completion()
    assert short.get_details()["endTimeUtc"] < first.get_details()["endTimeUtc"]


def _slots(home: Home) -> list[str]:
    nodes = Path(home.home) / "nodes"
    return [name for name in os.listdir(nodes) if name not in ("local", ".slots.lock")]
