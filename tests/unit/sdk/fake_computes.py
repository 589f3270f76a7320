"""Sites, compute targets and their nodes, as the fake server has them."""

from __future__ import annotations

from typing import Any

from wherry.core.errors import ConflictError, NotFoundError

from . import fake_instances
from .fake_server import FakeServer, _Call, route

AT = "2026-01-01T00:00:00Z"
STATES = ("preparing", "running", "idle", "unusable", "leaving", "preempted")
HERE = "/workspaces/([^/]+)/computes/([^/]+)"


def local() -> dict[str, Any]:
    node = {"name": "a", "cpu": 4.0, "memory_bytes": 8_000_000_000, "gpu": 0, "gpus": []}
    return {
        **_blank("local", "local", "local"),
        "nodes": [node],
        "free": {"cpu": 3.0, "memory_bytes": 4_000_000_000, "gpu": 0},
        "active": 1,
    }


def set_nodes(record: dict[str, Any], **counts: int) -> None:
    """``idle=2``: the nodes that a cluster has now."""
    total = sum(counts.values())
    record["status"]["node_state_counts"] = {**dict.fromkeys(STATES, 0), **counts}
    record["status"].update(current_node_count=total, target_node_count=total)
    record["nodes"] = [
        {
            "id": f"n{place}",
            "name": f"{record['name']}-{place}",
            "state": state,
            "reason": None,
            "run_id": "r_1" if state == "running" else None,
            "cpu": 2.0,
            "memory_bytes": 4_000_000_000,
            "gpu": 0,
            "address": "10.0.0.4",
            "port": 22,
        }
        for place, state in enumerate(
            [state for state in STATES for _ in range(counts.get(state, 0))], 1
        )
    ]


def _blank(name: str, type_: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": type_,
        "kind": kind,
        "location": "local",
        "config": {},
        "tags": {},
        "description": "",
        "provisioning_state": "Succeeded",
        "provisioning_errors": [],
        "created_at": AT,
        "modified_at": AT,
        "problem": None,
        "status": None,
        "nodes": [],
    }


def _made(name: str, body: dict[str, Any]) -> dict[str, Any]:
    record = _blank(name, body["type"], body["kind"])
    config = body["config"]
    record.update(
        config=config,
        location=config.get("location") or "local",
        tags=body.get("tags") or {},
        description=body.get("description") or "",
    )
    if body["kind"] == "instance":
        fake_instances.made(record, config)
    if body["kind"] == "cluster":
        record["status"] = {
            "current_node_count": 0,
            "target_node_count": 0,
            "allocation_state": "Steady",
            "allocation_state_transition_time": AT,
            "errors": [],
            "scale_settings": config,
            "vm_size": config["vm_size"],
            "vm_priority": config["vm_priority"],
        }
        set_nodes(record, idle=int(config["min_nodes"]))
    return record


def _all(fake: FakeServer) -> dict[str, dict[str, Any]]:
    if not fake.computes:
        fake.computes["local"] = local()
    return fake.computes


def _check_workspace(call: _Call) -> None:
    if call.match[0] not in call.fake.workspaces:
        raise NotFoundError(f"there is no workspace {call.match[0]!r}")


def _one(call: _Call) -> dict[str, Any]:
    _check_workspace(call)
    record = _all(call.fake).get(call.match[1])
    if record is None:
        raise NotFoundError(f"there is no compute target {call.match[1]!r}")
    return record


@route("GET", "/workspaces/([^/]+)/computes")
def _list(call: _Call) -> Any:
    _check_workspace(call)
    return {"items": list(_all(call.fake).values())}


@route("GET", HERE)
def _show(call: _Call) -> Any:
    record = _one(call)
    if record["provisioning_state"] == "Deleting":
        del call.fake.computes[record["name"]]  # seen once more, then gone
    fake_instances.looked_at(record)
    return record


@route("PUT", HERE)
def _put(call: _Call) -> Any:
    body = call.json
    name = call.match[1]
    known = _all(call.fake).get(name)
    call.fake.secrets[name] = body.pop("secrets", None) or {}
    if known is not None and known["config"] != body["config"]:
        raise ConflictError(f"there is a compute target {name!r} already")
    record = known or _made(name, body)
    call.fake.computes[name] = record
    notices = (
        [f"{record['location']} is a region of Azure"] if record["location"] == "eastus" else []
    )
    return {**record, "notices": notices}


@route("PATCH", HERE)
def _patch(call: _Call) -> Any:
    record, body = _one(call), call.json
    record["config"].update(body.pop("config", {}))
    record.update(body)
    return record


@route("DELETE", HERE)
def _delete(call: _Call) -> Any:
    record = _one(call)
    active = [run["id"] for run in call.fake.runs.values() if run["target"] == record["name"]]
    if active and call.one("cancel") != "true":
        raise ConflictError(
            f"compute target {record['name']!r} has active runs: {', '.join(active)}", runs=active
        )
    for run_id in active:
        call.fake.runs[run_id].update(status="Canceled", target=None)
    record["provisioning_state"] = "Deleting"
    return record


@route("GET", HERE + "/nodes")
def _nodes(call: _Call) -> Any:
    return {"items": _one(call)["nodes"]}


@route("GET", HERE + "/runs")
def _runs(call: _Call) -> Any:
    name = _one(call)["name"]
    return {"items": [run for run in call.fake.runs.values() if run["target"] == name]}


@route("POST", HERE + "/open")
def _open(call: _Call) -> Any:
    return fake_instances.opened(_one(call))


@route("POST", HERE + "/(start|stop|restart|evict|check)")
def _act(call: _Call) -> Any:
    record, what = _one(call), call.match[2]
    call.fake.acts.append((record["name"], what, call.json))
    if record["kind"] == "instance":
        fake_instances.act(record, what)
    if what == "check":
        wrong = record["problem"]
        found = None if wrong else {"python": "/usr/bin/python3", "version": "3.11.2"}
        return {"ok": not wrong, "problem": wrong, "hint": "mend it", "cause": None, "found": found}
    return record


@route("GET", "/workspaces/([^/]+)/costs")
def _costs(call: _Call) -> Any:
    return {"items": [{call.one("by"): "x", "node_seconds": 90.0, "cost": 0.5}]}


@route("GET", "/sites")
def _sites(call: _Call) -> Any:
    here = {"name": "local", "kind": "local", "config": {}, "created_at": AT, "modified_at": AT}
    return {"items": [here, *call.fake.sites.values()]}


@route("GET", "/sites/([^/]+)")
def _site(call: _Call) -> Any:
    if call.match[0] not in call.fake.sites:
        raise NotFoundError(f"there is no site {call.match[0]!r}")
    return call.fake.sites[call.match[0]]


@route("PUT", "/sites/([^/]+)")
def _put_site(call: _Call) -> Any:
    body, name = call.json, call.match[0]
    call.fake.secrets[name] = body.pop("secrets", None) or {}
    call.fake.sites[name] = {"name": name, **body, "created_at": AT, "modified_at": AT}
    return call.fake.sites[name]


@route("PATCH", "/sites/([^/]+)")
def _patch_site(call: _Call) -> Any:
    body, name = call.json, call.match[0]
    call.fake.secrets[name].update(body.pop("secrets", None) or {})
    call.fake.sites[name]["config"].update(body.pop("config", {}))
    return call.fake.sites[name]


@route("DELETE", "/sites/([^/]+)")
def _delete_site(call: _Call) -> Any:
    if call.fake.sites.pop(call.match[0], None) is None:
        raise NotFoundError(f"there is no site {call.match[0]!r}")


@route("GET", "/sites/([^/]+)/sizes")
def _sizes(call: _Call) -> Any:
    size = {"name": "local-2", "cpu": 2.0, "memory_bytes": 2**32, "gpu": 0, "price_per_hour": 0.1}
    return {"items": [size]}
