"""The page in a real browser: a run with its curve, picture, log and files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.homes import Home, wait_until
from wherry import Experiment, Run, Workspace
from wherry.compute import AmlCompute, ComputeInstance, ComputeTarget

SCRIPT = """
from wherry import Experiment, Run, Workspace
run = Run.get_context()
for value in (3, 1, 2, float("nan"), 5):
    run.log("curve", value)
with open("dot.svg", "w") as file:
    file.write('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><circle r="9"/></svg>')
run.upload_file("dot.svg", "dot.svg")
run.log_table("table", {"animal": ["cat", "dog"], "count": [41, 42]})
run.child_run("fold").complete()
print("overwritten\\rkept \\x1b[31mred\\x1b[0m")
print("<b>not markup</b>")
"""


@pytest.fixture
def run(home: Home) -> Run:
    run = home.submit(SCRIPT)
    run.wait_for_completion()
    return run


def browse(address: str, folder: Path, until: str) -> str:
    """What the page has become after its scripts have run; a slow machine gets another look."""
    page = ""
    for _ in range(5):
        page = look(address, folder)
        if until in page:
            break
    return page


def look(address: str, folder: Path) -> str:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("chromium is not installed")
    flags = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--no-first-run",
        "--virtual-time-budget=8000",
        f"--user-data-dir={folder / 'profile'}",
        "--dump-dom",
    ]
    done = subprocess.run([browser, *flags, address], capture_output=True, text=True, timeout=120)
    return done.stdout


def test_a_run_is_shown(home: Home, run: Run) -> None:
    token = (home.home / "token").read_text().strip()
    text = "&lt;b&gt;not markup&lt;/b&gt;"
    page = browse(f"{run.get_portal_url()}&token={token}", home.folder, until=text)
    assert run.id in page
    assert "Completed" in page
    assert '<path d="M0.00' in page
    assert "from 1 to 5" in page
    assert text in page
    assert "\nkept red\n" in page.replace('tabindex="0">', "\n")
    assert "overwritten" not in page
    assert '<td class="number">42</td>' in page
    assert "Child runs" in page
    assert "dot.svg" in page
    assert 'src="blob:' in page
    assert token not in page


def test_the_list_names_the_run(home: Home, run: Run) -> None:
    token = (home.home / "token").read_text().strip()
    address = run.get_portal_url().split("#")[0]
    link = f"#/runs/{run.id}"
    page = browse(f"{address}#/?workspace=w&token={token}", home.folder, until=link)
    assert link in page
    other = browse(f"{address}#/?workspace=w&experiment=none&token={token}", home.folder, "No runs")
    assert "No runs here" in other
    assert link not in other


def test_runs_are_found_and_compared(home: Home) -> None:
    experiment = Experiment(Workspace.create("w", exist_ok=True), "churn")
    ids = []
    for number in range(3):
        name = f"try-{number}"
        with experiment.start_logging(snapshot_directory=None, display_name=name) as run:
            for step in range(4):
                run.log("auc", number / 10 + step / 100, step=step)
        ids.append(run.id)
    token = (home.home / "token").read_text().strip()
    address = f"{run.get_portal_url().split('#')[0]}#/{{}}&workspace=w&token={token}"
    wanted = "?filter=metrics.auc%20%3E%200.05&order=-metrics.auc"
    listed = browse(address.format(wanted), home.folder, until="try-1")
    assert listed.index("try-2") < listed.index("try-1")
    assert "try-0" not in listed
    assert "auc ▼" in listed
    assert '<td class="number metric" title="auc">0.23</td>' in listed
    wrong = browse(address.format("?filter=auc"), home.folder, until="ends too soon")
    assert "the filter 'auc' is not understood" in wrong
    shown = browse(address.format(f"compare?runs={','.join(ids[1:])}"), home.folder, until="<path")
    assert "2 runs compared" in shown
    assert "<th>auc</th><td>0.13</td><td>0.23</td>" in shown
    assert 'class="c1"></path>' in shown
    assert "steps 0 to 3, values from 0.1 to 0.23" in shown


def test_without_a_token_nothing_is_shown(home: Home, run: Run) -> None:
    page = browse(run.get_portal_url(), home.folder, until="Paste the server's token")
    assert "Paste the server's token" in page
    assert "curve" not in page


def test_compute_targets_are_shown_with_what_waits_for_them(home: Home, run: Run) -> None:
    config = AmlCompute.provisioning_configuration(vm_size="local-1", max_nodes=1)
    ComputeTarget.create(run.experiment.workspace, "cpu", config)
    busy, waiting = (
        home.submit("import time; time.sleep(600)", compute_target="cpu") for _ in "ab"
    )
    wait_until(lambda: busy.get_status() == "Running")
    token = (home.home / "token").read_text().strip()
    address = f"{run.get_portal_url().split('#')[0]}#/compute{{}}?workspace=w&token={token}"
    listed = browse(address.format(""), home.folder, until="1 on it, 1 waiting")
    assert "1 of 0-1: 1 running" in listed
    assert "1 on it, 1 waiting" in listed
    reason = "1 busy until run"
    shown = browse(address.format("/cpu"), home.folder, until=reason)
    assert '<span class="status running">running</span>' in shown
    assert f"#/runs/{busy.id}" in shown
    assert f"#/runs/{waiting.id}" in shown
    assert reason in shown
    for each in (waiting, busy):
        each.cancel()
    for each in (waiting, busy):
        each.wait_for_completion(raise_on_error=False)


def test_a_compute_instance_is_shown_with_what_can_be_done(home: Home, run: Run) -> None:
    workspace = run.experiment.workspace
    host = {"address": "127.0.0.1", "port": 1}  # where nobody answers: it is never made
    body = {"kind": "ssh", "config": {"hosts": [host]}}
    workspace._client.request("PUT", "/sites/nowhere", json=body)
    stop = {"expression": "0 18 * * *", "time_zone": "Europe/Berlin"}
    config = ComputeInstance.provisioning_configuration(
        location="nowhere", schedules=[{"action": "stop", "trigger": stop}]
    )
    instance = ComputeTarget.create(workspace, "nb", config)
    token = (home.home / "token").read_text().strip()
    address = f"{run.get_portal_url().split('#')[0]}#/compute{{}}?workspace=w&token={token}"
    assert "ComputeInstance" in browse(address.format(""), home.folder, until="ComputeInstance")
    shown = browse(address.format("/nb"), home.folder, until="Restart</button>")
    assert "next by schedule" in shown
    assert ">Stop</button>" in shown
    assert ">Open JupyterLab</button>" not in shown
    assert isinstance(instance, ComputeInstance)
    instance.stop(wait_for_completion=True)
    shown = browse(address.format("/nb"), home.folder, until=">Start</button>")
    assert '<span class="status Stopped">Stopped</span>' in shown
    assert ">Start</button>" in shown
    instance.delete()
    instance.wait_for_completion(is_delete_operation=True)


def test_a_link_of_mlflow_leads_to_the_run(home: Home, run: Run) -> None:
    token = (home.home / "token").read_text().strip()
    address = f"{run.experiment.workspace.mlflow_tracking_uri}/#/experiments/x/runs/{run.id}"
    page = browse(f"{address}?token={token}", home.folder, until="Child runs")
    assert run.id in page
    assert "Child runs" in page
    listing = f"{run.experiment.workspace.mlflow_tracking_uri}/#/experiments/{run.experiment.id}"
    page = browse(f"{listing}?token={token}", home.folder, until="Runs of e")
    assert "Runs of e" in page
