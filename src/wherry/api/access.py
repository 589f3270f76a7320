"""The one list of who may call what. A route that is not in it cannot be made."""

from __future__ import annotations

from enum import Enum

PREFIX = "/api/v1"


class Who(Enum):
    """Callers, as the reference tells them. A run speaks with the token of one of its attempts, a
    compute instance with its own.
    """

    ANYONE = "anyone, without a token"
    TOKEN = "the owner; any run or compute instance"
    OWNER = "the owner"
    INSTANCE = "the owner; a compute instance of the workspace"
    VISITOR = "whom it was opened for; the owner; a compute instance of the workspace"
    WORKSPACE = "the owner; a run or compute instance of the workspace"
    PARENT = "the owner; a compute instance of the workspace; a run of it, for runs below itself"
    SNAPSHOT = "the owner; a compute instance of its workspace; a run that uses the snapshot"
    RUN = "the owner; a compute instance of its workspace; the run; a run above it"
    ATTEMPT = "the attempt itself"


_WORKSPACE = "/workspaces/{workspace}"
_EXPERIMENT = f"{_WORKSPACE}/experiments/{{name}}"
_COMPUTE = f"{_WORKSPACE}/computes/{{compute}}"
_RUN = "/runs/{run_id}"

_UNDER_PREFIX = {
    "GET /health": Who.ANYONE,
    "GET /server": Who.OWNER,
    "POST /server/stop": Who.OWNER,
    "GET /prometheus": Who.OWNER,
    "GET /openapi.json": Who.OWNER,
    "GET /targets": Who.TOKEN,
    "GET /workspaces": Who.OWNER,
    "POST /workspaces": Who.OWNER,
    f"GET {_WORKSPACE}": Who.WORKSPACE,
    f"DELETE {_WORKSPACE}": Who.OWNER,
    f"GET {_WORKSPACE}/experiments": Who.INSTANCE,
    f"POST {_WORKSPACE}/experiments": Who.INSTANCE,
    f"GET {_EXPERIMENT}": Who.WORKSPACE,
    f"PATCH {_EXPERIMENT}": Who.INSTANCE,
    f"DELETE {_EXPERIMENT}": Who.INSTANCE,
    f"GET {_WORKSPACE}/environments": Who.WORKSPACE,
    f"POST {_WORKSPACE}/environments": Who.INSTANCE,
    f"GET {_WORKSPACE}/environments/{{environment}}": Who.WORKSPACE,
    f"GET {_WORKSPACE}/environments/{{environment}}/versions/{{version}}": Who.WORKSPACE,
    f"GET {_WORKSPACE}/environments/{{environment}}/labels/{{label}}": Who.WORKSPACE,
    f"PUT {_WORKSPACE}/environments/{{environment}}/labels/{{label}}": Who.INSTANCE,
    f"DELETE {_WORKSPACE}/environments/{{environment}}/labels/{{label}}": Who.INSTANCE,
    f"GET {_WORKSPACE}/wheels": Who.INSTANCE,
    f"POST {_WORKSPACE}/wheels": Who.INSTANCE,
    "GET /sites": Who.OWNER,
    "GET /sites/{site}": Who.OWNER,
    "PUT /sites/{site}": Who.OWNER,
    "PATCH /sites/{site}": Who.OWNER,
    "DELETE /sites/{site}": Who.OWNER,
    "GET /sites/{site}/sizes": Who.OWNER,
    f"GET {_WORKSPACE}/computes": Who.WORKSPACE,
    f"GET {_COMPUTE}": Who.WORKSPACE,
    f"PUT {_COMPUTE}": Who.INSTANCE,
    f"PATCH {_COMPUTE}": Who.INSTANCE,
    f"DELETE {_COMPUTE}": Who.INSTANCE,
    f"GET {_COMPUTE}/nodes": Who.WORKSPACE,
    f"POST {_COMPUTE}/nodes/{{node}}/give-up": Who.INSTANCE,
    f"GET {_COMPUTE}/sizes": Who.WORKSPACE,
    f"GET {_COMPUTE}/runs": Who.INSTANCE,
    f"POST {_COMPUTE}/check": Who.INSTANCE,
    f"POST {_COMPUTE}/start": Who.INSTANCE,
    f"POST {_COMPUTE}/stop": Who.INSTANCE,
    f"POST {_COMPUTE}/restart": Who.INSTANCE,
    f"POST {_COMPUTE}/evict": Who.INSTANCE,
    f"POST {_COMPUTE}/certificate": Who.INSTANCE,
    f"POST {_COMPUTE}/open": Who.INSTANCE,
    f"GET {_WORKSPACE}/costs": Who.INSTANCE,
    f"POST {_WORKSPACE}/snapshots": Who.WORKSPACE,
    "POST /blobs": Who.TOKEN,
    "GET /snapshots/{snapshot_id}": Who.SNAPSHOT,
    "GET /snapshots/{snapshot_id}/archive": Who.SNAPSHOT,
    "GET /snapshots/{snapshot_id}/diff/{other_id}": Who.INSTANCE,
    f"POST {_WORKSPACE}/runs": Who.PARENT,
    f"GET {_WORKSPACE}/runs": Who.INSTANCE,
    f"POST {_WORKSPACE}/runs/bulk": Who.INSTANCE,
    f"POST {_WORKSPACE}/runs/plan": Who.INSTANCE,
    f"POST {_WORKSPACE}/runs/interactive": Who.PARENT,
    f"GET {_WORKSPACE}/runs/resolve/{{text}}": Who.INSTANCE,
    f"GET {_RUN}": Who.RUN,
    f"PATCH {_RUN}": Who.RUN,
    f"DELETE {_RUN}": Who.INSTANCE,
    f"GET {_RUN}/wait": Who.RUN,
    f"POST {_RUN}/cancel": Who.RUN,
    f"POST {_RUN}/end": Who.RUN,
    f"GET {_RUN}/children": Who.RUN,
    f"GET {_RUN}/events": Who.RUN,
    f"GET {_RUN}/wheels/{{digest}}": Who.RUN,
    f"GET {_RUN}/files": Who.RUN,
    f"GET {_RUN}/files/{{path}}": Who.RUN,
    f"PUT {_RUN}/files/{{path}}": Who.RUN,
    f"POST {_RUN}/files/batch": Who.RUN,
    f"POST {_RUN}/files/read": Who.RUN,
    f"GET {_RUN}/uploads/{{upload}}": Who.RUN,
    f"GET {_RUN}/logs/{{name}}": Who.RUN,
    f"PUT {_RUN}/logs/{{name}}": Who.ATTEMPT,
    f"POST {_RUN}/spool/{{stream}}": Who.RUN,
    f"GET {_RUN}/spool": Who.RUN,
    f"POST {_RUN}/heartbeat": Who.RUN,
    f"GET {_RUN}/metrics": Who.RUN,
    f"GET {_RUN}/metrics/history": Who.RUN,
    f"GET {_RUN}/metrics/summary": Who.RUN,
    "POST /attempts/{attempt_id}/report": Who.ATTEMPT,
}

ENDPOINTS: dict[str, Who] = {
    **{endpoint.replace(" ", f" {PREFIX}", 1): who for endpoint, who in _UNDER_PREFIX.items()},
    "GET /health": Who.ANYONE,
    "GET /metrics": Who.OWNER,
    "GET /": Who.ANYONE,
    "GET /view/": Who.ANYONE,
    "GET /view/{name}": Who.ANYONE,
    "* /instances/{workspace}/{name}/{path}": Who.VISITOR,  # not a route: see ``Instances``
    "* /mlflow/{workspace}/{path}": Who.WORKSPACE,  # not a route: see ``mlflow.door``
}


def who_may(method: str, path: str) -> Who:
    """Who may call the route, its parameters written ``{name}``."""
    try:
        return ENDPOINTS[f"{method} {path}"]
    except KeyError:
        raise LookupError(f"api/access.py does not say who may call {method} {path}") from None
