"""A person declares a machine lost that does not come back: nothing waits for it any more.

What was on it may still be executed. So its runs fail and are not repeated, what it still sends is
refused, and it is not used again before it has answered and been cleared (``lost_machines``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import CONTAINER, LOCATED, MACHINE
from wherry.core.errors import ConflictError, NotFoundError, TargetUnavailableError
from wherry.core.gang import GIVEN_UP
from wherry.core.resources import Resources
from wherry.core.targets import LOCAL
from wherry.drivers.base import Closing, Handle
from wherry.drivers.fleet import inner_handle
from wherry.drivers.local import handle_of
from wherry.drivers.sites import Machine
from wherry.store import attempts, computes, homes, lost_machines, nodes, sites, workspaces

from . import attempt_tokens, costs
from .compute_secrets import readable
from .computes import finish_removal, get, remove, show
from .exits import exit_record
from .lost_machines import host_driver, reach, sealed
from .plane import Plane
from .settle import settle
from .site_opening import open_site, secrets_of


def give_up_node(
    plane: Plane, workspace_name: str, name: str, node_id: str, who: str
) -> dict[str, Any]:
    """Its run fails, the node goes at once, and its host is set aside."""
    with plane.database.read() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name)
        node = _node(connection, row, node_id)
        site = sites.find(connection, node.site)
    secrets = secrets_of(plane, site) if site is not None else {}
    made = site is not None and site.kind == CONTAINER
    if _engine_answers(plane, row, node) if made else _answers(plane, node.config, secrets):
        raise ConflictError(
            f"node {node.name} of compute target {name!r} answers: it is not lost",
            hint="cancel its run, or delete the target, and it is cleared",
        )
    with plane.write() as connection:
        target = computes.find(connection, row.target, lock=True)
        known = nodes.find(connection, node.id)
        if known is None or known.removed_at is not None or known.config != node.config:
            raise ConflictError(f"node {node.name} has changed meanwhile", hint="look again")
        there = attempts.unreleased(connection, row.target)
        here = [each for each in there if each.node_id == node.id]
        lost = {"id": node.id, "target": row.target, "site": node.site, "config": node.config}
        if not made:  # else what is left of it is found by its label, and goes
            _remember(plane, connection, lost, secrets, here, who)
        elif target is not None and target.deleting_at is not None:
            homes.remove(connection, target.id)  # it is where the node is: on what is lost
        _end(plane, connection, here, node.name, who)
        now = plane.now()
        gone = {"removed_at": now, "reason": f"declared lost by {who}", "config": {}}
        nodes.move(connection, node.id, nodes.LEAVING, now, **gone)
        costs.node_removed(connection, row.workspace_id, known, now)
    _tell(plane, row.target, here)
    return show(plane, workspace_name, name)


def detach_lost(plane: Plane, workspace_name: str, name: str, who: str) -> bool:
    """Take a machine away that does not answer; whether it is gone already."""
    with plane.database.read() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name)
    if row.kind != MACHINE:
        raise ConflictError(
            f"compute target {name!r} is a cluster: its nodes are given up one by one",
            hint=f"wherry compute give-up {name} NODE",
        )
    if _answers(plane, row.config, readable(plane, row)):
        raise ConflictError(
            f"the machine of compute target {name!r} answers: it is not lost",
            hint=f"wherry compute detach {name} ends what is on it and leaves nothing there",
        )
    _give_up_machine(plane, row, who)
    remove(plane, workspace_name, name, cancel=True)
    _give_up_machine(plane, row, who)  # what was started in between
    return finish_removal(plane, row.target)


def _give_up_machine(plane: Plane, row: Row[Any], who: str) -> None:
    with plane.write() as connection:
        computes.find(connection, row.target, lock=True)
        here = attempts.unreleased(connection, row.target)
        if here:
            lost = {"id": row.id, "target": row.target, "site": "", "config": row.config}
            _remember(plane, connection, lost, readable(plane, row), here, who)
            _end(plane, connection, here, row.config["address"], who)
    _tell(plane, row.target, here)


def _node(connection: Connection, row: Row[Any], node_id: str) -> Row[Any]:
    """One that is another machine, and could be lost."""
    if row.kind not in LOCATED:
        raise ConflictError(
            f"compute target {row.name!r} is one machine: it is given up as a whole",
            hint=f"wherry compute detach {row.name} --force",
        )
    for node in nodes.present(connection, row.target):
        if node_id in (node.id, node.name):
            if node.site == LOCAL:
                raise ConflictError(f"node {node.name} is a part of this machine: it is not lost")
            if not node.config:
                raise ConflictError(f"node {node.name or node.id} has no host yet")
            return node
    raise NotFoundError(
        f"compute target {row.name!r} has no node {node_id!r}",
        hint=f"wherry compute list-nodes {row.name} shows them",
    )


def _answers(plane: Plane, config: Mapping[str, Any], secrets: Mapping[str, str]) -> bool:
    driver = host_driver(plane, config, secrets, plane.url)
    try:
        reach(driver)
    except TargetUnavailableError:
        return False
    finally:
        if isinstance(driver, Closing):
            driver.close()
    return True


def _engine_answers(plane: Plane, row: Row[Any], node: Row[Any]) -> bool:
    """Of a node that an engine has made. One that was removed, or has stopped, is made again."""
    owned = Resources(node.cpu, node.memory_bytes, len(node.gpus))
    machine = Machine(node.name, owned, tuple(node.gpus), node.config)
    try:
        driver = open_site(plane, node.site, row).driver(node.id, machine)
        try:
            reach(driver)
        finally:
            if isinstance(driver, Closing):
                driver.close()
    except TargetUnavailableError as error:
        return error.fields.get("cause") in ("gone", "stopped")
    return True


def _remember(
    plane: Plane,
    connection: Connection,
    lost: Mapping[str, Any],
    secrets: Mapping[str, str],
    here: Sequence[Any],
    who: str,
) -> None:
    """What may still be there, until it can be cleared."""
    handles = [_handle(attempt) for attempt in here]
    known = lost_machines.find(connection, lost["id"])
    if known is not None:
        changes = {"handles": [*known.handles, *handles]}
        lost_machines.change(connection, known.id, changes)
        return
    kept = {"secrets": sealed(plane, lost["id"], secrets), "handles": handles}
    told = {"given_up_by": who, "given_up_at": plane.now()}
    lost_machines.add(connection, {**lost, **kept, **told})


def _handle(attempt: Any) -> str:
    """One that was not noted may have been started all the same."""
    if attempt.handle is None:
        return handle_of(attempt.id)
    handle = Handle(attempt.handle)
    return handle if attempt.node_id is None else inner_handle(handle)


def _end(plane: Plane, connection: Connection, here: Sequence[Any], machine: str, who: str) -> None:
    told = {"message": f"its machine {machine} was declared lost by {who}"}
    record = exit_record({"lost": True, "error": told})
    for attempt in here:
        changes: dict[str, Any] = {"released_at": plane.now(), "stop_reason": GIVEN_UP}
        if attempt.exit is None:
            changes["exit"] = dict(record.__dict__)
        if attempt.ended_at is None:
            settle(plane, connection, attempt, changes)
        else:
            attempts.change(connection, attempt.id, changes)


def _tell(plane: Plane, target: str, here: Sequence[Any]) -> None:
    for attempt in here:
        attempt_tokens.end(plane, attempt.id)
    plane.hint(target)
    plane.computes_changed()
