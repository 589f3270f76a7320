"""Compute instances from the command line, before a server in memory that moves them on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.sdk import fake_computes, fake_instances  # noqa: F401 - their routes
from tests.unit.sdk.fake_server import TOKEN, FakeServer
from wherry.cli import browser, instance_file, instance_wait
from wherry.cli.app import run
from wherry.cli.ending import Usage
from wherry.cli.instance_view import schedule
from wherry.cli.session import Session
from wherry.core.schedules import parse
from wherry.sdk.client import Address, Client

from .conftest import Result, Wherry

FILE = """\
$schema: https://azuremlschemas.azureedge.net/latest/computeInstance.schema.json
name: nb
type: computeinstance
size: STANDARD_DS3_v2
location: eastus
description: mine
tags: {team: churn}
idle_time_before_shutdown: PT1H30M
ssh_public_access_enabled: true
ssh_settings: {ssh_key_value: ssh-ed25519 AAAA me}
setup_scripts:
  creation_script: {path: scripts/create.sh, command: --fast, timeout_minutes: 20}
  startup_script: {path: scripts/start.sh}
schedules:
  compute_start_stop:
    - action: start
      trigger:
        type: recurrence
        frequency: week
        interval: 1
        schedule: {hours: [8], minutes: [30], week_days: [monday, friday]}
        time_zone: W. Europe Standard Time
    - action: stop
      state: disabled
      trigger:
        type: cron
        expression: 0 18 * * *
        start_time: 2021-03-10T21:21:07
        time_zone: Pacific Standard Time
environments: [churn:2]
enable_root_access: true
enable_sso: false
create_on_behalf_of: {user_tenant_id: a, user_object_id: b}
state: Running
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeServer]:
    for name in ("WHERRY_SERVER", "WHERRY_TOKEN", "WHERRY_OUTPUT", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("WHERRY_WORKSPACE", "w")
    monkeypatch.setattr(instance_wait, "_PAUSE_S", 0.01)
    monkeypatch.setattr(browser, "show", lambda address: False)
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    server = FakeServer()
    server.workspaces["w"] = {"name": "w"}
    yield server
    server.close()


@pytest.fixture
def wherry(fake: FakeServer, capsys: pytest.CaptureFixture[str]) -> Wherry:
    def call(*arguments: str) -> Result:
        capsys.readouterr()
        code = run(list(arguments), Session(Client(Address(fake.url, TOKEN))))
        printed = capsys.readouterr()
        return Result(code, printed.out, printed.err)

    return call


def make(wherry: Wherry, *options: str) -> Result:
    made = wherry("compute", "create", "nb", "--type", "computeinstance", *options)
    assert made.code == 0, made.err
    return made


def data(result: Result) -> Any:
    assert result.code == 0, result.err
    return json.loads(result.out)


def test_one_is_made_and_waited_for(wherry: Wherry, fake: FakeServer) -> None:
    made = make(wherry)
    assert made.err == (
        "wherry: compute instance nb is Running; open it with: wherry compute open nb\n"
        "wherry: it runs until you stop it; to have it stopped when nobody uses it: "
        "wherry compute update nb --idle-time-before-shutdown-minutes 60\n"
    )
    (row,) = [line for line in wherry("compute", "list").out.splitlines() if "nb" in line]
    assert row.split()[:4] == ["nb", "ComputeInstance", "local", "Running"]


def test_one_that_stops_by_itself(wherry: Wherry, fake: FakeServer) -> None:
    Path("a.sh").write_text("echo a\n")
    made = make(
        *(wherry, "--no-wait", "--idle-time-before-shutdown-minutes", "30", "--stop-at", "18:05"),
        *(
            "--start-at",
            "0 8 * * MON-FRI",
            "--time-zone",
            "Europe/Berlin",
            "--setup-script",
            "a.sh",
        ),
        *("--environment", "churn:2", "--environment", "other", "--ssh-key-value", "ssh-rsa AAAA"),
    )
    assert made.err == (
        "wherry: compute instance nb is being made; open it with: wherry compute open nb\n"
    )
    config = fake.computes["nb"]["config"]
    assert config["idle_seconds"] == 1800
    triggers = [(each["action"], each["trigger"]["expression"]) for each in config["schedules"]]
    assert triggers == [("start", "0 8 * * MON-FRI"), ("stop", "5 18 * * *")]
    assert config["creation_script"]["content"] == "echo a\n"
    assert config["environments"] == ["churn:2", "other"]
    assert (config["ssh_public_access"], config["ssh_public_key"]) == (True, "ssh-rsa AAAA")


def test_all_of_azures_file(wherry: Wherry, fake: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "elsewhere"
    (folder / "scripts").mkdir(parents=True)
    (folder / "instance.yml").write_text(FILE)
    (folder / "scripts" / "create.sh").write_text("echo create\n")
    (folder / "scripts" / "start.sh").write_text("echo start\n")
    made = wherry("compute", "create", "-f", str(folder / "instance.yml"))
    assert made.code == 0, made.err
    record = fake.computes["nb"]
    assert (record["description"], record["tags"]) == ("mine", {"team": "churn"})
    config = record["config"]
    assert (config["vm_size"], config["location"]) == ("STANDARD_DS3_v2", "eastus")
    assert config["idle_seconds"] == 90 * 60
    assert config["creation_script"] == {
        "content": "echo create\n",
        "arguments": "--fast",
        "timeout_minutes": 20,
    }
    assert config["startup_script"]["content"] == "echo start\n"
    assert config["schedules"][1]["trigger"]["start_time"] == "2021-03-10T21:21:00"
    shown = wherry("compute", "show", "nb").out
    assert "idle time    1h30m" in shown
    assert "start: every week on monday, friday at 08:30 (W. Europe Standard Time)" in shown
    assert "stop: cron 0 18 * * * (Pacific Standard Time, disabled)" in shown
    assert "kernels      churn:2" in shown
    assert "JupyterLab   wherry compute open nb" in shown


def test_stop_start_and_restart_wait(wherry: Wherry, fake: FakeServer) -> None:
    make(wherry, "-q")
    assert wherry("compute", "stop", "nb").err == "wherry: compute instance nb is Stopped\n"
    started = wherry("compute", "start", "nb").err
    assert (
        started == "wherry: compute instance nb is Running; open it with: wherry compute open nb\n"
    )
    assert "Restarting\n" in wherry("compute", "restart", "nb", "--no-wait").err
    record = data(wherry("compute", "restart", "nb", "-o", "json"))
    assert record["instance"]["state"] == "Running"


def test_a_setup_that_fails(
    wherry: Wherry, fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(wherry, "-q")
    monkeypatch.setitem(fake_instances.STEPS, "start", ["UserSettingUp", "UserSetupFailed"])
    failed = wherry("compute", "start", "nb")
    assert failed.code == 1
    assert "compute instance nb is UserSetupFailed: no reason was given" in failed.err
    assert "wherry compute logs nb shows what it did; JupyterLab is there all the" in failed.err
    opened = wherry("compute", "open", "nb")
    assert (opened.code, opened.out) == (0, f"{fake.url}/instances/w/nb/?code=once\n")
    assert "its script has failed: wherry compute logs nb" in opened.err
    fake.computes["nb"]["instance"]["errors"] = [{"code": "x", "message": "it ended with 3"}]
    assert "errors       it ended with 3" in wherry("compute", "show", "nb").out
    fake.computes["nb"]["instance"]["errors"][0]["message"] += "\nlast line"
    listed = wherry("compute", "list").out
    assert "it ended with 3" in listed
    assert "last line" not in listed


def test_one_without_a_machine_says_how_it_goes_on(
    wherry: Wherry, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(wherry, "-q")
    monkeypatch.setitem(fake_instances.STEPS, "start", ["Starting", "CreateFailed"])
    assert (
        "hint: when that is mended: wherry compute start nb" in wherry("compute", "start", "nb").err
    )


def test_who_stops_waiting_hears_that_it_goes_on(
    wherry: Wherry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_record: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(instance_wait, "state_of", interrupted)
    left = wherry("compute", "create", "nb", "--type", "computeinstance")
    assert left.code == 130
    assert "making nb goes on; only the waiting has ended" in left.err
    assert "wherry compute show nb     see how far it is" in left.err
    assert "wherry compute delete nb   remove it" in left.err


def test_it_is_opened(wherry: Wherry, fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    make(wherry, "-q")
    where = f"{fake.url}/instances/w/nb/"
    opened = wherry("compute", "open", "nb")
    assert opened.out == f"{where}?code=once\n"
    assert "there is no browser here" in opened.err
    assert wherry("compute", "open", "nb", "--print").out == f"{where}?code=once\n"
    shown: list[str] = []
    monkeypatch.setattr(browser, "show", lambda address: not shown.append(address))  # type: ignore[func-returns-value]
    opened = wherry("compute", "open", "nb")
    assert (opened.out, opened.err) == (f"{where}\n", "wherry: opened JupyterLab of nb\n")
    assert shown == [f"{where}?code=once"]


def test_one_that_is_stopped_is_opened_if_it_may_be_started(
    wherry: Wherry, fake: FakeServer
) -> None:
    make(wherry, "-q")
    wherry("compute", "stop", "nb", "-q")
    refused = wherry("compute", "open", "nb")
    assert refused.code == 1
    assert "compute instance nb is Stopped" in refused.err
    assert "wherry compute open nb --start" in refused.err
    assert wherry("compute", "open", "nb", "--start").code == 0
    refused = wherry("compute", "open", "local")
    assert refused.code == 2
    assert "local is no compute instance, but of type local" in refused.err


def test_what_it_said(wherry: Wherry, fake: FakeServer) -> None:
    make(wherry, "-q")
    run = fake.new_run("w", {"experiment": ".sessions", "run_id": "sessions_1"})
    fake.computes["nb"]["instance"]["session_run_id"] = run["id"]
    assert "has said nothing yet" in wherry("compute", "logs", "nb").err
    fake.write_log(run["id"], b"one\ntwo\n")
    assert wherry("compute", "logs", "nb").out == "one\ntwo\n"
    assert wherry("compute", "logs", "nb", "-l", "1").out == "two\n"
    fake.computes["nb"]["instance"]["session_run_id"] = None
    assert "has said nothing yet" in wherry("compute", "logs", "nb").err


def test_when_it_stops_is_changed(wherry: Wherry, fake: FakeServer) -> None:
    make(wherry, "-q", "--stop-at", "18:00")
    config = fake.computes["nb"]["config"]
    wherry("compute", "update", "nb", "--schedules", "disabled")
    assert [each["state"] for each in config["schedules"]] == ["disabled"]
    wherry("compute", "update", "nb", "--schedules", "enabled", "--start-at", "7:30")
    assert [(each["action"], each["state"]) for each in config["schedules"]] == [
        ("start", "enabled")
    ]
    wherry("compute", "update", "nb", "--idle-time-before-shutdown-minutes", "45")
    assert config["idle_seconds"] == 2700
    wherry("compute", "update", "nb", "--idle-time-before-shutdown-minutes", "0")
    assert config["idle_seconds"] is None
    changed = wherry("compute", "update", "nb", "--set", "schedules=[]")
    assert (changed.code, config["schedules"]) == (0, [])


def test_it_is_deleted_with_its_files(wherry: Wherry, fake: FakeServer) -> None:
    make(wherry, "-q")
    refused = wherry("compute", "delete", "nb")
    assert "Delete compute instance nb with all files in its home?" in refused.err
    assert wherry("compute", "delete", "nb", "--yes").code == 0
    assert "nb" not in fake.computes


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["nb", "--stop-at", "18:00"], 1, "--type computeinstance"),
        (["nb", "-t", "computeinstance", "--time-zone", "UTC"], 2, "--time-zone goes with --start"),
        (["nb", "-t", "computeinstance", "--max-instances", "2"], 1, "a field 'max_instances'"),
        (["nb", "-t", "computeinstance", "--stop-at", "25:00"], 2, "'25:00' is no time of day"),
        (["nb", "-t", "computeinstance", "--startup-script", "no.sh"], 2, "no file 'no.sh'"),
        (["nb", "-t", "computeinstance", "--ssh-key-value", "nosuch"], 2, "neither a public key"),
        (
            ["nb", "-t", "computeinstance", "--ssh-key-value", pytest.__file__],
            2,
            "neither a public key",
        ),
        (["nb", "-t", "computeinstance", "--set", "schedules=daily"], 1, "must be a list"),
        (
            ["nb", "-t", "computeinstance", "--set", "idle_time_before_shutdown=soon"],
            1,
            "idle_time_before_shutdown is 'soon'",
        ),
        (["nb", "-t", "computeinstance", "--set", "custom_applications=[]"], 1, "custom_applica"),
        (
            ["nb", "-t", "computeinstance", "--set", "ssh_settings.key=1"],
            1,
            "ssh_settings has a field 'key'",
        ),
    ],
)
def test_what_cannot_be(
    wherry: Wherry, fake: FakeServer, arguments: list[str], code: int, sentence: str
) -> None:
    refused = wherry("compute", "create", *arguments)
    assert sentence in refused.err
    assert (refused.code, refused.out) == (code, "")
    assert "nb" not in fake.computes


@pytest.mark.parametrize(
    ("text", "expression"),
    [("18:00", "0 18 * * *"), ("7:05", "5 7 * * *"), ("0 8 * * MON-FRI", "0 8 * * MON-FRI")],
)
def test_a_time_of_day_is_a_schedule(text: str, expression: str) -> None:
    assert instance_file.expression(text) == expression


def test_a_key_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "id.pub").write_text("ssh-ed25519 AAAA me\n")
    assert instance_file.key_text(str(tmp_path / "id.pub")) == "ssh-ed25519 AAAA me"
    (tmp_path / "id").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(Usage, match="holds a private key"):
        instance_file.key_text(str(tmp_path / "id"))


def test_schedules_in_a_line() -> None:
    trigger = {"frequency": "hour", "interval": 6, "start_time": "2030-01-01"}
    assert schedule(parse({"action": "stop", "trigger": trigger})) == "stop: every 6 hours (UTC)"
