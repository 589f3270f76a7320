"""Environments that a compute instance is to have as kernels: what they are, and which are none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.compute_configs import INSTANCE
from wherry.core.errors import WherryError
from wherry.core.records import Workspace
from wherry.core.targets import workspace_of
from wherry.store import workspaces

from . import environments
from .plane import Plane


def check(
    plane: Plane, connection: Connection, workspace: Workspace, kind: str, config: Any
) -> None:
    """Refuse one that there is not."""
    for reference in config["environments"] if kind == INSTANCE else []:
        environments.referred_in(plane, connection, workspace, reference)


def kernels(
    plane: Plane, connection: Connection, row: Row[Any]
) -> tuple[list[dict[str, Any]], list[str]]:
    """What the environments that were named mean now, and sentences for those that are none."""
    references: Sequence[str] = row.config["environments"]
    found: list[dict[str, Any]] = []
    missing: list[str] = []
    if not references:
        return found, missing
    workspace = workspaces.get(connection, workspace_of(row.target))
    for reference in references:
        try:
            each = environments.referred_in(plane, connection, workspace, reference)
        except WherryError as error:
            missing.append(error.message)
            continue
        said = {"name": each.name, "version": each.version}
        found.append({**said, "specification": dict(each.specification)})
    return found, missing
