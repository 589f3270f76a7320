"""Who is let in at a machine that this server has made: whoever has a certificate of ours."""

from __future__ import annotations

import logging
from typing import Any

from wherry.core.compute_configs import CONTAINER, site_name
from wherry.core.errors import ConflictError
from wherry.drivers import registry
from wherry.store import sites, workspaces

from .computes import get
from .plane import Plane
from .site_opening import is_made_machine

log = logging.getLogger(__name__)

USER = "root"


def certificate(
    plane: Plane, workspace_name: str, name: str, public_key: str, seconds: int, who: str
) -> dict[str, Any]:
    """For a key that never leaves its owner."""
    with plane.database.read() as connection:
        row = get(connection, workspaces.get(connection, workspace_name), name)
        made = is_made_machine(row)
        site = sites.find(connection, site_name(row.config["location"])) if made else None
    if site is None or site.kind != CONTAINER:
        raise ConflictError(
            f"compute target {name!r} is no machine that this server has made with containers: it "
            "knows nothing of certificates",
            hint="log in with a key that is known there",
        )
    signed = registry.machine_keys()(plane.secret, row.id).sign(public_key, USER, who, seconds)
    log.info("%s was given a certificate for %s", who, row.target)
    return {"certificate": signed, "username": USER, "seconds": seconds}
