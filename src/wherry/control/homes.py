"""Homes of compute targets: folders at their site that outlive their nodes."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Row

from wherry.core.compute_configs import CONTAINER, INSTANCE, site_name
from wherry.drivers.sites import Site
from wherry.store import homes, nodes, sites

from .plane import Plane
from .site_opening import is_made_machine


def home_of(plane: Plane, row: Row[Any]) -> str:
    """What the home of the target is called; empty for one that has none.

    A machine that is a slot or a host has that one's.
    """
    if row.kind == INSTANCE:
        return str(row.id)
    if not is_made_machine(row):
        return ""
    with plane.database.read() as connection:
        site = sites.find(connection, site_name(row.config["location"]))
    return str(row.id) if site is not None and site.kind == CONTAINER else ""


def ensure(plane: Plane, row: Row[Any]) -> str:
    """The home is noted before anything of it is made."""
    home = home_of(plane, row)
    if home:
        with plane.write() as connection:
            homes.ensure(connection, home, site_name(row.config["location"]))
    return home


def forget(plane: Plane, row: Row[Any], site: Site) -> None:
    """Once the target is to go and has no node any more."""
    home = home_of(plane, row)
    with plane.database.read() as connection:
        waits = row.deleting_at is None or nodes.present(connection, row.target)
        known = None if waits or not home else homes.find(connection, home)
    if known is None:
        return
    site.forget(home)
    with plane.write() as connection:
        homes.remove(connection, home)
    plane.computes_changed()
