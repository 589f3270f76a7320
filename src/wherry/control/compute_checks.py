"""What a cluster could never run, said when it is submitted."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from wherry.core.compute_configs import site_name
from wherry.core.errors import WherryError
from wherry.core.specs import RunSpec
from wherry.core.vm_sizes import nearest

from .plane import Plane
from .site_opening import open_site


def refusal(plane: Plane, row: Row[Any], spec: RunSpec) -> str | None:
    """One sentence that says why not, or None."""
    most = row.config["max_nodes"]
    if spec.node_count > most:
        return (
            f"it asks for {spec.node_count} nodes, and the cluster has at most {most}: "
            "raise its max_nodes, or ask for fewer"
        )
    try:
        size = nearest(
            row.config["vm_size"], open_site(plane, site_name(row.config["location"])).sizes()
        )[0]
    except WherryError:
        return None  # the target's own problem, which may pass
    if not spec.resources.fits(size.resources):
        return f"it asks for {spec.resources}, its nodes have {size.resources}"
    return None
