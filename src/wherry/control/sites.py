"""Sites as people see them: made, changed, listed, taken away."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row
from sqlalchemy.exc import IntegrityError

from wherry.core.compute_configs import (
    CONTAINER,
    SSH,
    is_region,
    parse_secrets,
    parse_site,
    site_name,
)
from wherry.core.errors import (
    ConflictError,
    NotFoundError,
    UserErrorException,
    WherryError,
)
from wherry.core.ids import check_name
from wherry.core.nearest import listed, suggest
from wherry.core.records import iso
from wherry.core.targets import LOCAL, name_of
from wherry.drivers import agent_lines
from wherry.drivers.sites import Keeping
from wherry.drivers.ssh_host import Host
from wherry.store import computes, sites

from . import sealing, sightings, site_hosts
from .plane import Plane
from .site_opening import open_site, secrets_of

log = logging.getLogger(__name__)


def every(plane: Plane) -> list[dict[str, Any]]:
    with plane.database.read() as connection:
        rows = sites.every(connection)
        return [_local(plane), *(_record(plane, connection, row) for row in rows)]


def show(plane: Plane, name: str) -> dict[str, Any]:
    with plane.database.read() as connection:
        row = get(connection, name)
        return _local(plane) if row is None else _record(plane, connection, row)


def sizes(plane: Plane, name: str) -> list[dict[str, Any]]:
    show(plane, name)
    found = open_site(plane, name).sizes()
    return [dict(size.__dict__) for size in found]


def get(connection: Connection, name: str, *, lock: bool = False) -> Row[Any] | None:
    """The row of a site; None for this machine, which has none."""
    if name == LOCAL:
        return None
    row = sites.find(connection, name, lock=lock)
    if row is None:
        known = [LOCAL, *(each.name for each in sites.every(connection))]
        raise NotFoundError(
            f"there is no site {name!r}{suggest(name, known)}",
            hint=f"the sites are: {listed(known)}",
        )
    return row


def put(plane: Plane, name: str, fields: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The site, and whether this call made it. What it is made of is replaced."""
    _changeable(name)
    check_name("site", name)
    if is_region(name):
        raise UserErrorException(
            f"{name!r} is a region of Azure, which means this machine wherever a location is given",
            hint="choose another name for the site",
        )
    kind = fields["kind"]
    config = parse_site(kind, fields["config"])
    secrets = parse_secrets(fields.get("secrets"), config.get("hosts") or ())
    now = plane.now()
    kept = {"kind": kind, "config": config, "secrets": _sealed(plane, name, secrets)}
    try:
        with plane.write() as connection:
            known = sites.find(connection, name, lock=True)
            if known is None:
                sites.add(connection, {"name": name, **kept, "created_at": now, "modified_at": now})
            else:
                kept["config"] = _fitted(connection, known, kind, config)
                sites.change(connection, name, {**kept, "modified_at": now})
    except IntegrityError:
        raise ConflictError(f"the site {name!r} was made by another request just now") from None
    _forgive(plane, name, config)
    return show(plane, name), known is None


def change(plane: Plane, name: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of its configuration one by one; secrets that are not named stay."""
    _changeable(name)
    with plane.write() as connection:
        row = get(connection, name, lock=True)
        assert row is not None
        config = parse_site(row.kind, {**row.config, **(fields.get("config") or {})})
        config = _fitted(connection, row, row.kind, config)
        changes: dict[str, Any] = {"config": config, "modified_at": plane.now()}
        if fields.get("secrets"):
            given = parse_secrets(fields["secrets"], config.get("hosts") or ())
            secrets = {**secrets_of(plane, row), **given}
            changes["secrets"] = _sealed(plane, name, secrets)
        sites.change(connection, name, changes)
    _forgive(plane, name, config)
    return show(plane, name)


def remove(plane: Plane, name: str) -> None:
    _changeable(name)
    site = _opened(plane, name)
    with plane.write() as connection:
        get(connection, name, lock=True)
        users = [row for row in computes.every(connection) if _uses(row, name)]
        if users or sites.nodes_at(connection, name):
            called = ", ".join(sorted(row.target for row in users)) or "a cluster that is deleted"
            raise ConflictError(
                f"site {name!r} is used by {called}", hint="delete those compute targets first"
            )
        sites.remove(connection, name)
    if isinstance(site, Keeping):
        _dismantle(name, site)


def _opened(plane: Plane, name: str) -> object:
    """One that cannot be opened can be removed all the same."""
    try:
        return open_site(plane, name)
    except WherryError:
        return None


def _dismantle(name: str, site: Keeping) -> None:
    try:
        site.dismantle()
    except WherryError as error:
        log.warning("site %s: what it kept stays: %s", name, error.message)


def _forgive(plane: Plane, name: str, config: Mapping[str, Any]) -> None:
    """What was wrong with its hosts may be right now: none is left alone any longer."""
    sightings.forgive(plane.sightings, name)
    agent_lines.lines.wake(
        *(Host(host["address"], host["port"]) for host in config.get("hosts", ()))
    )


def _sealed(plane: Plane, name: str, secrets: Mapping[str, str]) -> str | None:
    return sealing.seal(plane.secret, f"site {name}", dict(secrets)) if secrets else None


def _uses(row: Row[Any], name: str) -> bool:
    return "location" in row.config and site_name(row.config["location"]) == name


def _changeable(name: str) -> None:
    if name == LOCAL:
        raise ConflictError(
            "the site 'local' is this machine: it is always there, as it is",
            hint="local_cpus and local_memory in the settings say what of it may be used",
        )


def _fitted(
    connection: Connection, known: Row[Any], kind: str, config: Mapping[str, Any]
) -> dict[str, Any]:
    """The new configuration, with what was learned of the old one; unless nodes forbid it."""
    present = sites.nodes_at(connection, known.name)
    moved = kind == CONTAINER and config["engine"] != known.config.get("engine")
    if present and (kind != known.kind or moved):
        raise ConflictError(
            f"site {known.name!r} has {len(present)} nodes where it is now",
            hint="let its clusters shrink first, or delete them",
        )
    if kind != SSH or known.kind != SSH:
        return dict(config)
    _keep_used_hosts(connection, known.name, config)
    return _with_keys(config, known.config)


def _with_keys(config: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A host that stays must show what it has shown, unless it is said to have another key."""
    shown = {(each["address"], each["port"]): each for each in known["hosts"]}
    hosts = []
    for host in config["hosts"]:
        before = shown.get((host["address"], host["port"]), host)
        same_way = not host["jump_host_keys"] and host["jump"] == before["jump"]
        keys = {
            "host_key": host["host_key"] or before["host_key"],
            "jump_host_keys": before["jump_host_keys"] if same_way else host["jump_host_keys"],
        }
        hosts.append({**host, **keys})
    return {**config, "hosts": hosts}


def _keep_used_hosts(connection: Connection, name: str, config: Mapping[str, Any]) -> None:
    """A host that is a node of a cluster cannot go."""
    kept = {(host["address"], host["port"]) for host in config["hosts"]}
    for node in sites.nodes_at(connection, name):
        place = (node.config.get("address"), node.config.get("port"))
        if node.config and place not in kept:
            raise ConflictError(
                f"the host {node.name} is a node of compute target {name_of(node.target)!r}",
                hint="let the cluster shrink first, or delete it",
            )


def _record(plane: Plane, connection: Connection, row: Row[Any]) -> dict[str, Any]:
    hosts = site_hosts.hosts_of(plane, connection, row) if row.kind == SSH else []
    return {
        "name": row.name,
        "kind": row.kind,
        "config": row.config,
        "created_at": iso(row.created_at),
        "modified_at": iso(row.modified_at),
        "problem": _sealed_for_ever(plane, row) or site_hosts.problem(hosts),
        "host_counts": site_hosts.counts(hosts),
        "hosts": hosts,
    }


def _sealed_for_ever(plane: Plane, row: Row[Any]) -> str | None:
    try:
        secrets_of(plane, row)
    except sealing.UnsealError as error:
        return error.message
    return None


def _local(plane: Plane) -> dict[str, Any]:
    at = iso(plane.started_at)
    return {
        "name": LOCAL,
        "kind": LOCAL,
        "config": {},
        "created_at": at,
        "modified_at": at,
        "problem": None,
        "host_counts": site_hosts.counts([]),
        "hosts": [],
    }
