"""Compute instances as Azure ML's class has them."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import wherry
from wherry import (
    ComputeTargetException,
    ConflictError,
    Environment,
    ScriptRunConfig,
    UserErrorException,
    Workspace,
)
from wherry.compute import AmlCompute, ComputeInstance, ComputeTarget
from wherry.sdk.compute import waiting

from .fake_server import FakeServer

STOP_AT_SIX = {
    "action": "stop",
    "trigger": {"type": "cron", "expression": "0 18 * * *", "time_zone": "W. Europe Standard Time"},
}


@pytest.fixture(autouse=True)
def quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE_S", 0.01)
    monkeypatch.setattr(waiting, "_LONGEST_PAUSE_S", 0.02)


def create(workspace: Workspace, name: str = "nb", **options: Any) -> ComputeInstance:
    config = ComputeInstance.provisioning_configuration(**options)
    made = ComputeTarget.create(workspace, name, config)
    assert isinstance(made, ComputeInstance)
    return made


def test_the_idiom_of_the_notebooks(
    workspace: Workspace, capsys: pytest.CaptureFixture[str]
) -> None:
    for told in ("Creating", "Found existing"):
        try:
            instance = ComputeInstance(workspace=workspace, name="nb")
            assert told == "Found existing"
        except ComputeTargetException:
            assert told == "Creating"
            config = ComputeInstance.provisioning_configuration(
                vm_size="STANDARD_DS3_V2", ssh_public_access=False
            )
            instance = ComputeInstance.create(workspace, "nb", config)  # type: ignore[assignment]
            instance.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == "SettingUp\nRunning\n"
    assert instance.state == "Running"
    assert workspace.compute_targets["nb"].type == "ComputeInstance"
    assert workspace.compute_targets["nb"] == instance
    assert ScriptRunConfig(".", "train.py", compute_target=instance).run_config.target == instance


def test_what_a_configuration_asks_for(workspace: Workspace, tmp_path: Path) -> None:
    script = tmp_path / "setup.sh"
    script.write_bytes(b"#!/bin/sh\r\necho hello\n")
    config = ComputeInstance.provisioning_configuration(
        "local-1",
        "true",
        "ssh-ed25519 AAAA me",
        tags={"team": 1},
        description="mine",
        location="lab",
        idle_time_before_shutdown_minutes="30",
        schedules={"compute_start_stop": [STOP_AT_SIX]},
        setup_scripts={
            "creation_script": {"path": script, "command": "a b", "timeout_minutes": 5},
            "startup_script": str(script),
        },
        environments=["churn:2", Environment("other")],
    )
    asked = config._provisioning()
    assert (asked["type"], asked["kind"]) == ("ComputeInstance", "instance")
    assert (asked["tags"], asked["description"]) == ({"team": "1"}, "mine")
    text = "#!/bin/sh\r\necho hello\n"
    assert asked["config"] == {
        "vm_size": "local-1",
        "location": "lab",
        "idle_seconds": 1800,
        "schedules": [STOP_AT_SIX],
        "creation_script": {"content": text, "arguments": "a b", "timeout_minutes": 5},
        "startup_script": {"content": text, "arguments": ""},
        "environments": ["churn:2", "other"],
        "ssh_public_access": True,
        "ssh_public_key": "ssh-ed25519 AAAA me",
    }
    made = ComputeTarget.create(workspace, "nb", config)
    assert isinstance(made, ComputeInstance)
    assert made.schedules[0]["state"] == "enabled"
    assert made.vm_size == "local-1"


def test_a_private_key_does_not_leave_this_machine() -> None:
    with pytest.raises(UserErrorException, match="admin_user_ssh_public_key holds a private key"):
        ComputeInstance.provisioning_configuration(
            admin_user_ssh_public_key="-----BEGIN RSA PRIVATE KEY-----"
        )


def test_dates_of_schedules_travel(workspace: Workspace) -> None:
    trigger = {**STOP_AT_SIX["trigger"], "start_time": datetime(2030, 1, 1, 9, tzinfo=UTC)}  # type: ignore[dict-item]
    instance = create(workspace, schedules=[{"action": "stop", "trigger": trigger}])
    assert instance.schedules[0]["trigger"]["start_time"] == "2030-01-01T10:00:00"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"idle_time_before_shutdown_minutes": "soon"}, "minutes is 'soon', and must be a whole"),
        (
            {"idle_time_before_shutdown_minutes": 4321},
            "is 4321, and at the most it is 4320",
        ),
        ({"schedules": "daily"}, "schedules is 'daily', and must be a list"),
        ({"schedules": {"compute_start": []}}, "did you mean 'compute_start_stop'?"),
        ({"setup_scripts": "a.sh"}, "setup_scripts is 'a.sh'"),
        ({"setup_scripts": {"creation": "a.sh"}}, "setup_scripts has 'creation'"),
        (
            {"setup_scripts": {"startup_script": "no.sh"}},
            "startup_script: no.sh cannot be read",
        ),
        ({"setup_scripts": {"startup_script": {"pth": 1}}}, "startup_script has 'pth'; did you"),
        ({"setup_scripts": {"startup_script": {}}}, "startup_script names no file"),
        ({"environments": [3]}, "3 names no environment"),
        ({"ssh_public_access": "maybe"}, "ssh_public_access is 'maybe'"),
    ],
)
def test_what_is_wrong_is_said(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ComputeTargetException) as refused:
        ComputeInstance.provisioning_configuration(**options)
    assert sentence in refused.value.message


def test_a_script_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ComputeTargetException, match="is no text"):
        ComputeInstance.provisioning_configuration(setup_scripts={"startup_script": tmp_path / "x"})


def test_stop_start_and_restart(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = create(workspace)
    instance.wait_for_completion()
    instance.stop()
    assert instance.state == "Stopping"
    instance.wait_for_completion()
    assert instance.state == "Stopped"
    assert instance.applications == []
    instance.start(wait_for_completion=True, show_output=True)
    assert capsys.readouterr().out == "SettingUp\nRunning\n"
    assert instance.state == "Running"
    instance.restart(wait_for_completion=True)
    assert [what for _, what, _ in fake.acts] == ["stop", "start", "restart"]
    assert instance.get_status().state == "Running"


def test_its_addresses(workspace: Workspace, fake: FakeServer) -> None:
    instance = create(workspace)
    with pytest.raises(ConflictError, match="compute instance 'nb' is Creating"):
        instance.sign_in_url()
    instance.wait_for_completion()
    where = f"{fake.url}/instances/w/nb/"
    assert instance.applications == [{"displayName": "JupyterLab", "endpointUri": where}]
    assert instance.sign_in_url() == f"{where}?code=once"


def test_status_in_azures_words(workspace: Workspace) -> None:
    instance = create(workspace)
    status = instance.get_status()
    assert (status.state, status.errors, status.vm_size) == ("SettingUp", None, "local-2")
    assert status.created_by_user_name == "me"
    found = status.serialize()
    assert json.loads(json.dumps(found)) == found
    assert {"state", "vmSize", "creationTime", "createdByUserName", "errors"} <= set(found)
    assert "SettingUp" in repr(status)


def test_a_setup_that_fails_is_told(workspace: Workspace, fake: FakeServer) -> None:
    instance = create(workspace)
    record = fake.computes["nb"]
    record["coming"] = ["UserSettingUp", "UserSetupFailed"]
    record["instance"]["errors"] = [{"code": "Script", "message": "the creation script ended: 3"}]
    with pytest.raises(ComputeTargetException) as failed:
        instance.wait_for_completion()
    assert failed.value.message == (
        "Compute instance nb is UserSetupFailed:\nthe creation script ended: 3"
    )
    assert failed.value.hint == "wherry compute logs nb shows what it did"


def test_what_it_waits_for_is_said(
    workspace: Workspace, fake: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    instance = create(workspace)
    fake.computes["nb"]["problem"] = "the site is full"
    instance.wait_for_completion(show_output=True)
    assert capsys.readouterr().out == "SettingUp\nWaiting: the site is full\nRunning\n"


def test_when_it_stops_by_itself_can_be_changed(workspace: Workspace, fake: FakeServer) -> None:
    instance = create(workspace, schedules=[STOP_AT_SIX], idle_time_before_shutdown_minutes=60)
    instance.update(idle_time_before_shutdown_minutes=20, description="mine")
    config = fake.computes["nb"]["config"]
    assert (config["idle_seconds"], len(config["schedules"])) == (1200, 1)
    instance.update(idle_time_before_shutdown_minutes=0, schedules=[])
    assert (config["idle_seconds"], config["schedules"]) == (None, [])
    assert fake.computes["nb"]["description"] == "mine"


def test_it_is_deleted_and_never_detached(workspace: Workspace) -> None:
    instance = create(workspace)
    with pytest.raises(ComputeTargetException, match="Detach is not supported for ComputeInstance"):
        instance.detach()
    instance.delete()
    instance.wait_for_completion(is_delete_operation=True)
    assert "nb" not in workspace.compute_targets


def test_another_kind_by_that_name(workspace: Workspace) -> None:
    create(workspace)
    with pytest.raises(ComputeTargetException, match="is of type ComputeInstance, and no AmlComp"):
        AmlCompute(workspace, "nb")
    assert wherry.ComputeInstance is ComputeInstance
