"""Wheels of a workspace: kept once their content is here, handed to the runs that need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

from sqlalchemy import Connection, Row

from wherry.core import wheels as core
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.records import Wheel, Workspace
from wherry.store import environments, runs, wheels, workspaces

from .plane import Plane


def add(
    plane: Plane, workspace_name: str, fields: Mapping[str, Any], who: str
) -> tuple[Wheel | None, bool]:
    """The wheel, and whether this call made it; None while its content is missing."""
    name, digest = core.check_name(fields["name"]), core.check_digest(fields["digest"])
    size: int = fields["size"]
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        _known(connection, workspace, name, digest, exist_ok=fields["exist_ok"])
    stored = plane.blobs.size(digest)
    if stored is None:
        return None, False
    if stored != size:
        raise UserErrorException(
            f"the wheel {name} has {stored} bytes under its digest, not {size}",
            hint="the file changed while it was sent: add it again",
        )
    with plane.write() as connection:
        environments.lock(connection, workspace)
        known = _known(connection, workspace, name, digest, exist_ok=fields["exist_ok"])
        if known is not None:
            return _record(known), False
        row = {
            "workspace_id": workspace.id,
            "name": name,
            "digest": digest,
            "size_bytes": size,
            "created_by": who[:255],
            "created_at": plane.now(),
        }
        wheels.add(connection, row)
        return _record(wheels.named(connection, workspace, name)[0]), True


def every(plane: Plane, workspace_name: str) -> list[Wheel]:
    """All of a workspace, the newest first."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        return [_record(row) for row in wheels.every(connection, workspace)]


def open_for(plane: Plane, run_id: str, digest: str) -> tuple[BinaryIO, int]:
    """The content of a wheel that the run's workspace keeps, and its size."""
    core.check_digest(digest)
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        size = wheels.size_of(connection, run.workspace_id, digest)
    if size is None:
        raise NotFoundError(f"workspace {run.workspace!r} keeps no wheel with digest {digest}")
    try:
        return plane.blobs.open(digest), size
    except NotFoundError:
        raise NotFoundError(
            f"the content of the wheel with digest {digest} is no longer on the server",
            hint="add it again: wherry environment add-wheel FILE",
        ) from None


def check_there(
    connection: Connection, workspace: Workspace, *specs: Mapping[str, Any] | None
) -> None:
    """The workspace keeps every wheel that these environments ask for."""
    asked = {wheel for spec in specs for wheel in core.wheels_of(spec)}
    if not asked:
        return
    there = wheels.among(connection, workspace.id, {wheel.digest for wheel in asked})
    for wheel in sorted(asked):
        if wheel.digest not in there:
            raise NotFoundError(
                f"workspace {workspace.name!r} does not keep the wheel {wheel.name} that the "
                f"environment asks for (SHA-256 {wheel.digest})",
                hint="add it there: wherry environment add-wheel FILE, or "
                "Environment.add_private_pip_wheel",
            )


def _known(
    connection: Connection, workspace: Workspace, name: str, digest: str, *, exist_ok: bool
) -> Row[Any] | None:
    found = wheels.named(connection, workspace, name)
    same = [row for row in found if row.digest == digest]
    if found and not same and not exist_ok:
        raise ConflictError(
            f"workspace {workspace.name!r} keeps a wheel {name} already, with another content",
            hint="raise its version, or say exist_ok=True (--exist-ok): both are kept then, each "
            "under its own address",
        )
    return same[0] if same else None


def _record(row: Row[Any]) -> Wheel:
    return Wheel(
        name=row.name,
        digest=row.digest,
        size=row.size_bytes,
        address=core.Wheel(row.digest, row.name).address,
        created_by=row.created_by,
        created_at=row.created_at,
    )
