"""Compute targets over HTTP: create or attach, look, change, delete."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Query, Response

from wherry.control import computes, costs, evictions, giving_up, ssh_access

from .bodies import ComputeChanges, Eviction, Login, NewCompute
from .deps import CallerDep, PlaneDep
from .guard import guarded_router
from .plain_json import PlainJSON

router = guarded_router("computes")
_COMPUTE = "/workspaces/{workspace}/computes/{compute}"


@router.get("/workspaces/{workspace}/computes")
def list_computes(workspace: str, plane: PlaneDep) -> dict[str, Any]:
    """This machine, ``local``, and the targets of the workspace."""
    return {"items": computes.every(plane, workspace)}


@router.get(_COMPUTE)
def show_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    return computes.show(plane, workspace, compute)


@router.put(
    _COMPUTE,
    status_code=201,
    response_class=PlainJSON,
    responses={200: {"description": "The target that is the same already."}},
)
def put_compute(
    workspace: str, compute: str, body: NewCompute, plane: PlaneDep, caller: CallerDep
) -> PlainJSON:
    """Create a cluster, or attach a machine."""
    record, created = computes.put(plane, workspace, compute, body.model_dump(), caller.name)
    return PlainJSON(record, status_code=201 if created else 200)


@router.patch(_COMPUTE)
def change_compute(
    workspace: str, compute: str, body: ComputeChanges, plane: PlaneDep
) -> dict[str, Any]:
    return computes.change(plane, workspace, compute, body.model_dump())


@router.delete(
    _COMPUTE,
    status_code=202,
    response_class=PlainJSON,
    responses={204: {"description": "It is gone."}},
)
def delete_compute(
    workspace: str,
    compute: str,
    plane: PlaneDep,
    caller: CallerDep,
    cancel: bool = False,
    force: bool = False,
) -> Response:
    """With ``cancel`` its runs are canceled; without, it is refused while there are any.

    Until its runs have ended and its nodes are away, it is still there, ``Deleting``. With
    ``force`` an attached machine that does not answer is declared lost: its runs fail.
    """
    if force:
        gone = giving_up.detach_lost(plane, workspace, compute, caller.name)
    else:
        gone = computes.remove(plane, workspace, compute, cancel=cancel)
    if gone:
        return Response(status_code=204)
    return PlainJSON(computes.show(plane, workspace, compute), status_code=202)


@router.get(f"{_COMPUTE}/nodes")
def list_nodes(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    return {"items": computes.list_nodes(plane, workspace, compute)}


@router.post(f"{_COMPUTE}/nodes/{{node}}/give-up")
def give_up_node(
    workspace: str, compute: str, node: str, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    """Declare a node lost that does not answer: its run fails, though it may still be executed
    there, and the node goes; its host is used again when it has answered and is cleared.
    """
    return giving_up.give_up_node(plane, workspace, compute, node, caller.name)


@router.get(f"{_COMPUTE}/sizes")
def list_sizes(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """Of the site that its nodes come from."""
    return {"items": computes.sizes(plane, workspace, compute)}


@router.get(f"{_COMPUTE}/runs", response_class=PlainJSON)
def list_active_runs(
    workspace: str,
    compute: str,
    plane: PlaneDep,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    cursor: str | None = None,
) -> PlainJSON:
    """Those of its runs that have not ended, the newest first."""
    page = computes.active_runs(plane, workspace, compute, limit, cursor)
    found = {"items": [run.to_dict() for run in page.items], "next_cursor": page.next_cursor}
    return PlainJSON(found)


@router.post(f"{_COMPUTE}/check")
def check_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """Look at it now: whether it works, what it has, or precisely what is wrong."""
    return computes.check(plane, workspace, compute)


@router.post(f"{_COMPUTE}/start")
def start_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """After a stop, runs are started there again."""
    return computes.act(plane, workspace, compute, "start")


@router.post(f"{_COMPUTE}/stop")
def stop_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """Runs that go on there end as they would; others wait, and idle nodes are removed."""
    return computes.act(plane, workspace, compute, "stop")


@router.post(f"{_COMPUTE}/restart")
def restart_compute(workspace: str, compute: str, plane: PlaneDep) -> dict[str, Any]:
    """Nodes without a run are replaced, those that were unusable among them."""
    return computes.act(plane, workspace, compute, "restart")


@router.post(f"{_COMPUTE}/evict")
def evict_node(workspace: str, compute: str, body: Eviction, plane: PlaneDep) -> dict[str, Any]:
    """Take a node of a low-priority cluster away, as a cloud would; its run queues again."""
    return evictions.evict(plane, workspace, compute, body.node)


@router.post(f"{_COMPUTE}/certificate")
def sign_key(
    workspace: str, compute: str, body: Login, plane: PlaneDep, caller: CallerDep
) -> dict[str, Any]:
    """A certificate of SSH for your own key, which opens a machine that this server has made with
    containers; for a while, and nothing of it is kept there.
    """
    asked = body.public_key, body.seconds
    return ssh_access.certificate(plane, workspace, compute, *asked, caller.name)


@router.get("/workspaces/{workspace}/costs")
def list_costs(
    workspace: str, plane: PlaneDep, by: Literal["run", "target", "day"] = "target"
) -> dict[str, Any]:
    """Node-seconds times price, up to now: of each run, each target, each target and day."""
    return {"items": costs.every(plane, workspace, by)}
