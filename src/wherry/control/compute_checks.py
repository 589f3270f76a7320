"""What a cluster could never run, said when it is submitted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from wherry.core.compute_configs import CONTAINER, cluster_of, site_name
from wherry.core.errors import WherryError
from wherry.core.resources import Resources
from wherry.core.specs import RunSpec
from wherry.core.vm_sizes import nearest
from wherry.drivers.sites import ANYTHING, Vague
from wherry.store import sites

from .plane import Plane
from .site_opening import open_site


def refusal(plane: Plane, row: Row[Any], spec: RunSpec) -> str | None:
    """One sentence that says why not, or None."""
    most = cluster_of(row.kind, row.config).max_nodes
    if spec.node_count > most:
        return (
            f"it asks for {spec.node_count} nodes, and the cluster has at most {most}: "
            "raise its max_nodes, or ask for fewer"
        )
    boxed = _in_a_box(plane, row, spec)
    if boxed:
        return boxed
    try:
        site = open_site(plane, site_name(row.config["location"]))
        size = nearest(row.config["vm_size"], site.sizes())[0]
    except WherryError:
        return None  # the target's own problem, which may pass
    owned = site.at_most(size) if isinstance(site, Vague) else size.resources
    return None if spec.resources.fits(owned) else misfit(spec, owned)


def _in_a_box(plane: Plane, row: Row[Any], spec: RunSpec) -> str | None:
    docker = (spec.environment.specification or {}).get("docker") or {}
    if not docker.get("enabled"):
        return None
    with plane.database.read() as connection:
        site = sites.find(connection, site_name(row.config["location"]))
    if site is None or site.kind != CONTAINER:
        return None
    return (
        f"its environment asks for a container, and nodes of site {site.name!r} are containers "
        "already: give the site that image, or use a cluster of machines"
    )


def misfit(spec: RunSpec, owned: Resources) -> str:
    """That nodes which have so much are not enough; what is not known of them is left out."""
    known = Resources(
        owned.cpu,
        owned.memory_bytes if owned.memory_bytes < ANYTHING.memory_bytes else 0,
        owned.gpu if owned.gpu < ANYTHING.gpu else 0,
    )
    return f"it asks for {spec.resources}, its nodes have {known}"
