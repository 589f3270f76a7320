"""From a site's name to what makes nodes there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from sqlalchemy import Row

from wherry.core.compute_configs import (
    CLUSTER,
    CONTAINER,
    VIRTUAL_MACHINE,
    ContainersConfig,
    HostConfig,
)
from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources
from wherry.core.targets import LOCAL
from wherry.drivers import registry
from wherry.drivers.base import Health
from wherry.drivers.site_local import LocalSite
from wherry.drivers.site_ssh import SshSite
from wherry.drivers.sites import Site
from wherry.store import sites

from . import sealing
from .host_claims import HostClaims
from .machines import node_root
from .plane import Plane

_KEPT_S = 60.0


def open_site(plane: Plane, name: str, target: Row[Any] | None = None) -> Site:
    """Each target has its own: what it keeps at hand is shared with nobody."""
    if name == LOCAL:
        return local_site(plane)
    with plane.database.read() as connection:
        row = sites.find(connection, name)
    if row is None:
        raise TargetUnavailableError(f"its site {name!r} is gone", hint="make it again")
    if row.kind == CONTAINER:
        return _containers(plane, row, target)
    hosts = [HostConfig(**host) for host in row.config["hosts"]]
    claims = HostClaims(plane, name)
    secrets, root = secrets_of(plane, row), node_root(plane)
    return SshSite(name, hosts, secrets, claims, root, lambda: plane.url)


def _containers(plane: Plane, row: Row[Any], target: Row[Any] | None) -> Site:
    """Nodes of a cluster are bare containers, and a machine is one that is reached by SSH."""
    site: Site = registry.site(CONTAINER)(
        row.name,
        ContainersConfig(**row.config),
        plane.server_id,
        node_root(plane),
        str(Path(plane.settings.home) / "images"),
        lambda: plane.url,
    )
    if target is not None and is_made_machine(target):
        site = registry.site("container machines")(
            site,
            owner=target.id,
            secret=plane.secret,
            ssh_port=target.config.get("ssh_port") or 0,
            tell=plane.doings.__setitem__,
        )
    return site


def is_made_machine(target: Row[Any]) -> bool:
    """Whether it is a machine that is made and stays, not one that was attached."""
    return bool(target.type == VIRTUAL_MACHINE and target.kind == CLUSTER)


def secrets_of(plane: Plane, row: Row[Any]) -> dict[str, str]:
    """The secrets of a site."""
    if row.secrets is None:
        return {}
    try:
        found: dict[str, str] = sealing.unseal(plane.secret, f"site {row.name}", row.secrets)
    except sealing.UnsealError:
        raise sealing.UnsealError(
            f"the secrets of site {row.name!r} were sealed with another key",
            hint="put back the secret.key that belongs to this database, or make the site again",
        ) from None
    return found


def local_site(plane: Plane) -> LocalSite:
    """This machine, as far as the settings let it be used."""
    health = _health(plane)
    total = sum((node.resources for node in health.nodes), Resources(0, 0, 0))
    gpus = [gpu for node in health.nodes for gpu in node.gpus]
    return LocalSite(Path(plane.settings.home) / "nodes", total, gpus)


def _health(plane: Plane) -> Health:
    """Asked for now and then: on some machines it takes a while to find the GPUs."""
    kept = plane.local_health
    if kept is None or time.monotonic() - kept[0] > _KEPT_S:
        kept = plane.local_health = time.monotonic(), plane.drivers[LOCAL].check()
    return kept[1]
