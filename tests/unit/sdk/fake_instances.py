"""Compute instances, as the fake server has them: each look at one finds it a step further."""

from __future__ import annotations

from typing import Any

from wherry.core.errors import ConflictError
from wherry.core.instance_config import InstanceConfig

USABLE = ("Running", "UserSetupFailed")
STEPS = {
    "create": ["Creating", "SettingUp", "Running"],
    "start": ["Starting", "SettingUp", "Running"],
    "stop": ["Stopping", "Stopped"],
    "restart": ["Restarting", "Running"],
}


def made(record: dict[str, Any], config: dict[str, Any]) -> None:
    record["config"] = InstanceConfig.parse(config).to_dict()
    record["node_size"] = config.get("vm_size") or "local-2"
    record["created_by"] = "me"
    act(record, "create")


def act(record: dict[str, Any], what: str) -> None:
    record["coming"] = list(STEPS[what])
    record["instance"] = {
        "state": record["coming"].pop(0),
        "session_run_id": "r_session",
        "url": "",
        "last_operation": {"operation_name": what.title(), "operation_status": "InProgress"},
        "idle_since": None,
        "idle_stop_at": None,
        "next_schedule": None,
        "errors": [],
        "services": [],
        "ssh": None,
    }


def looked_at(record: dict[str, Any]) -> None:
    if not record.get("coming"):
        return
    told = record["instance"]
    told["state"] = record["coming"].pop(0)
    where = f"/instances/w/{record['name']}/"
    if told["state"] in USABLE:
        told.update(url=where, services=[{"display_name": "JupyterLab", "endpoint_uri": where}])


def opened(record: dict[str, Any]) -> dict[str, Any]:
    state = record["instance"]["state"]
    if state not in USABLE:
        raise ConflictError(
            f"compute instance {record['name']!r} is {state}",
            hint=f"wherry compute start {record['name']}",
        )
    return {"url": record["instance"]["url"] + "?code=once", "expires_at": "2026-01-01T00:01:00Z"}
