"""What the OpenAPI document says of answers: the records as they are sent.

Said beside the routes, not by them: FastAPI would check and copy every answer against what it is
told there.
"""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter

from wherry.core.records import Environment, Experiment, Run, RunFile, Workspace

from .access import PREFIX

_RECORDS: dict[str, Any] = {
    "Workspace": Workspace,
    "Experiment": Experiment,
    "Environment": Environment,
    "Run": Run,
    "RunFile": RunFile,
}
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}
_MAYBE_TEXT = {"anyOf": [_TEXT, {"type": "null"}]}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": sorted(properties), "properties": properties}


def _record(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _items(schema: dict[str, Any], **others: Any) -> dict[str, Any]:
    return _object(items={"type": "array", "items": schema}, **others)


_EVENT = _object(at=_TEXT, to=_TEXT, reason=_MAYBE_TEXT, message=_TEXT, **{"from": _MAYBE_TEXT})
_SNAPSHOT = _object(id=_TEXT, missing={"type": "array", "items": _TEXT})
_WORKSPACE = "/workspaces/{workspace}"
_UNDER_PREFIX = {
    "GET /workspaces": _items(_record("Workspace")),
    "POST /workspaces": _record("Workspace"),
    f"GET {_WORKSPACE}": _record("Workspace"),
    f"GET {_WORKSPACE}/experiments": _items(_record("Experiment")),
    f"POST {_WORKSPACE}/experiments": _record("Experiment"),
    f"GET {_WORKSPACE}/experiments/{{name}}": _record("Experiment"),
    f"PATCH {_WORKSPACE}/experiments/{{name}}": _record("Experiment"),
    f"GET {_WORKSPACE}/environments": _items(_record("Environment")),
    f"POST {_WORKSPACE}/environments": _record("Environment"),
    f"GET {_WORKSPACE}/environments/{{environment}}": _items(_record("Environment")),
    f"GET {_WORKSPACE}/environments/{{environment}}/versions/{{version}}": _record("Environment"),
    f"POST {_WORKSPACE}/snapshots": _SNAPSHOT,
    f"POST {_WORKSPACE}/runs": _record("Run"),
    f"GET {_WORKSPACE}/runs": _items(_record("Run"), next_cursor=_MAYBE_TEXT),
    f"POST {_WORKSPACE}/runs/bulk": _items(_object(id=_TEXT, created={"type": "boolean"})),
    f"POST {_WORKSPACE}/runs/interactive": _record("Run"),
    f"GET {_WORKSPACE}/runs/resolve/{{text}}": _record("Run"),
    "GET /runs/{run_id}": _record("Run"),
    "GET /runs/{run_id}/wait": _record("Run"),
    "PATCH /runs/{run_id}": _record("Run"),
    "POST /runs/{run_id}/cancel": _record("Run"),
    "POST /runs/{run_id}/end": _record("Run"),
    "GET /runs/{run_id}/children": _items(_record("Run")),
    "GET /runs/{run_id}/events": _items(_EVENT),
    "GET /runs/{run_id}/files": _items(_record("RunFile")),
    "PUT /runs/{run_id}/files/{path}": _record("RunFile"),
    "PUT /runs/{run_id}/logs/{name}": _object(size=_NUMBER),
    "POST /runs/{run_id}/spool/{stream}": _object(size=_NUMBER),
    "POST /attempts/{attempt_id}/report": _object(cancel={"type": "boolean"}),
}
_ANSWERS = {
    endpoint.replace(" ", f" {PREFIX}", 1): answer for endpoint, answer in _UNDER_PREFIX.items()
}


def records() -> dict[str, Any]:
    """For the document's components."""
    return {
        name: TypeAdapter(record).json_schema(mode="serialization")
        for name, record in _RECORDS.items()
    }


def describe(method: str, path: str, answers: dict[str, Any]) -> None:
    """Put into the answers of one operation what they hold."""
    schema = _ANSWERS.get(f"{method.upper()} {path}")
    for status in ("200", "201"):
        if schema is not None and status in answers:
            answers[status]["content"] = {"application/json": {"schema": schema}}
