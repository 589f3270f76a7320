"""Environments of a workspace: registered once for each content, found by version or label."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row

from wherry.core.credentials import COVER
from wherry.core.environments import (
    Reference,
    canonical,
    check_label,
    check_version,
    content_hash,
    fingerprint_text,
    parse,
    parse_reference,
)
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException
from wherry.core.ids import check_name
from wherry.core.nearest import suggest
from wherry.core.records import Environment, Workspace
from wherry.store import environment_labels, environments, snapshots, workspaces

from . import curated, environment_secrets, sealing, wheels
from .plane import Plane


def register(
    plane: Plane, workspace_name: str, fields: Mapping[str, Any], who: str
) -> tuple[Environment, bool]:
    """The version with this content, and whether this call made it."""
    name = check_name("environment", fields["name"])
    if curated.is_reserved(name):
        raise UserErrorException(
            f"the name {name!r} is kept for curated environments",
            hint="choose one that does not begin with Wherry- or AzureML-",
        )
    where = f"environment {name!r}"
    version = fields.get("version")
    version = None if version is None else check_version(version, where)
    spec = {
        key: value
        for key, value in parse(fields["specification"], where).items()
        if key not in ("name", "version")
    }
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        environments.lock(connection, workspace)
        found = _existing(plane, connection, workspace, name, version, spec)
        if found is not None:
            return _shown(plane, connection, workspace, name, found.version), False
        version = version or environments.next_version(connection, workspace, name)
        row = _row(plane, connection, workspace, spec, {**fields, "name": name, "version": version})
        environments.add(connection, {**row, "created_by": who[:255], "created_at": plane.now()})
        return _shown(plane, connection, workspace, name, version), True


def every(plane: Plane, workspace_name: str) -> list[Environment]:
    """The newest version of every name, curated ones last."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        found = environments.newest(connection, workspace)
        marked = environment_labels.by_version(connection, workspace)
    own = [_record(plane, workspace, row, marked, sealing.LOST) for row in found]
    return own + curated.newest(workspace_name)


def versions(plane: Plane, workspace_name: str, name: str) -> list[Environment]:
    """All versions of a name, the newest first."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if curated.is_reserved(name):
            return curated.versions(workspace_name, name) or [
                curated.get(workspace_name, name, None)
            ]
        found = environments.versions(connection, workspace, name)
        if not found:
            raise _missing(connection, workspace, name, None)
        marked = environment_labels.by_version(connection, workspace, name)
    return [_record(plane, workspace, row, marked, sealing.LOST) for row in found]


def show(plane: Plane, workspace_name: str, wanted: Reference) -> Environment:
    """One version; where none is said the newest."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        return _found(plane, connection, workspace, wanted)


def label(
    plane: Plane, workspace_name: str, name: str, label_text: str, version: str
) -> Environment:
    """Put a label on a version; no other version has it then."""
    check_label(label_text)
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        if curated.is_reserved(name):
            raise UserErrorException(
                f"environment {name!r} is curated, and gets no label",
                hint="clone it under a name of your own, register that and label it",
            )
        environments.lock(connection, workspace)
        if environments.find(connection, workspace, name, version) is None:
            raise _missing(connection, workspace, name, version)
        environment_labels.put(connection, workspace, name, label_text, version)
        return _shown(plane, connection, workspace, name, version)


def unlabel(plane: Plane, workspace_name: str, name: str, label_text: str) -> None:
    """No version has the label any more."""
    check_label(label_text)
    with plane.write() as connection:
        workspace = workspaces.get(connection, workspace_name)
        environments.lock(connection, workspace)
        _labelled(connection, workspace, name, label_text)  # which says what there is instead
        environment_labels.remove(connection, workspace, name, label_text)


def referred(plane: Plane, workspace_name: str, reference: str) -> Environment:
    """What ``name:version``, ``name@label`` or ``name`` means, with ``azureml:`` before or not."""
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        return referred_in(plane, connection, workspace, reference)


def referred_in(
    plane: Plane, connection: Connection, workspace: Workspace, reference: str
) -> Environment:
    wanted = parse_reference(reference)
    check_name("environment", wanted.name)
    return _found(plane, connection, workspace, wanted)


def _found(
    plane: Plane, connection: Connection, workspace: Workspace, wanted: Reference
) -> Environment:
    name, version, label = wanted
    if label is not None:
        version = _labelled(connection, workspace, name, label)
    if curated.is_reserved(name):
        return curated.get(workspace.name, name, version)
    return _shown(plane, connection, workspace, name, version)


def resolved(plane: Plane, workspace_name: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of a run with what its environment means now, whatever is registered later.

    Its own variables come before those of the environment. What a run was not shown of a registered
    one, and sends back so, is as it is registered.
    """
    asked = fields.get("environment") or {}
    if not asked.get("reference"):
        whole = _restored(plane, workspace_name, asked)
        return fields if whole is asked else {**fields, "environment": whole}
    found = referred(plane, workspace_name, asked["reference"])
    spec = dict(found.specification)
    variables = {**spec.pop("variables", {}), **(asked.get("environment_variables") or {})}
    python = spec["python"]
    environment = {
        "name": found.name,
        "version": found.version,
        "python": {"interpreter_path": python.get("interpreter") or ""},
        "environment_variables": variables,
        "specification": spec,
    }
    return {**fields, "environment": environment}


def _restored(plane: Plane, workspace_name: str, asked: Mapping[str, Any]) -> Mapping[str, Any]:
    name, version = asked.get("name"), asked.get("version")
    if not name or not version or curated.is_reserved(name) or not _says_hidden(asked):
        return asked
    with plane.database.read() as connection:
        workspace = workspaces.get(connection, workspace_name)
        row = environments.find(connection, workspace, name, version)
    if row is None:
        return asked
    whose = environment_secrets.owner(workspace.id, name, version)
    spec = environment_secrets.opened(plane.secret, whose, row.spec)
    return environment_secrets.restored(asked, spec)


def _says_hidden(asked: Mapping[str, Any]) -> bool:
    text = canonical([asked.get("environment_variables"), asked.get("specification")])
    return sealing.HIDDEN in text or COVER in text


def _existing(
    plane: Plane,
    connection: Connection,
    workspace: Workspace,
    name: str,
    version: str | None,
    spec: Mapping[str, Any],
) -> Row[Any] | None:
    fingerprint = _fingerprint(plane, spec)
    if version is None:
        return environments.same(connection, workspace, name, fingerprint)
    row = environments.find(connection, workspace, name, version)
    if row is not None and row.fingerprint != fingerprint:
        raise ConflictError(
            f"environment {name!r} has a version {version!r} already, with another content",
            hint="a version never changes: leave it out, and the next one is taken",
        )
    return row


def _row(
    plane: Plane,
    connection: Connection,
    workspace: Workspace,
    spec: dict[str, Any],
    fields: Mapping[str, Any],
) -> dict[str, Any]:
    wheels.check_there(connection, workspace, spec)
    context = (spec.get("docker") or {}).get("context")
    if context and not snapshots.has(connection, workspace.id, context, lock=True):
        raise NotFoundError(
            f"workspace {workspace.name!r} has no snapshot {context!r} to build an image from",
            hint="register the snapshot of the build context first",
        )
    whose = environment_secrets.owner(workspace.id, fields["name"], fields["version"])
    return {
        "workspace_id": workspace.id,
        "name": fields["name"],
        "version": fields["version"],
        "spec": environment_secrets.sealed(plane.secret, whose, spec),
        "fingerprint": _fingerprint(plane, spec),
        "hash": content_hash(spec),
        "context_id": context,
        "description": fields.get("description") or "",
        "tags": dict(fields.get("tags") or {}),
    }


def _shown(
    plane: Plane, connection: Connection, workspace: Workspace, name: str, version: str | None
) -> Environment:
    row = environments.find(connection, workspace, name, version)
    if row is None:
        raise _missing(connection, workspace, name, version)
    marked = environment_labels.by_version(connection, workspace, name)
    return _record(plane, workspace, row, marked)


def _labelled(connection: Connection, workspace: Workspace, name: str, label: str) -> str:
    """The version that a label is on."""
    version = environment_labels.version_of(connection, workspace, name, label)
    if version is not None:
        return version
    if not curated.is_reserved(name) and environments.find(connection, workspace, name) is None:
        raise _missing(connection, workspace, name, None)
    marked = environment_labels.by_version(connection, workspace, name)
    known = sorted(each for found in marked.values() for each in found)
    raise NotFoundError(
        f"environment {name!r} has no label {label!r}{suggest(label, ['latest', *known])}",
        hint=f"it has {', '.join(['latest', *known])}",
    )


def _record(
    plane: Plane,
    workspace: Workspace,
    row: Row[Any],
    marked: Mapping[tuple[str, str], list[str]],
    lost: str | None = None,
) -> Environment:
    """``lost`` stands for what another key has sealed; without it that is an error."""
    whose = environment_secrets.owner(workspace.id, row.name, row.version)
    return Environment(
        name=row.name,
        version=row.version,
        workspace=workspace.name,
        description=row.description,
        tags=row.tags,
        specification=environment_secrets.opened(plane.secret, whose, row.spec, lost),
        hash=row.hash,
        curated=False,
        created_by=row.created_by,
        created_at=row.created_at,
        labels=marked.get((row.name, row.version), []),
    )


def _missing(
    connection: Connection, workspace: Workspace, name: str, version: str | None
) -> NotFoundError:
    known = [row.version for row in environments.versions(connection, workspace, name)]
    if known:
        return NotFoundError(
            f"environment {name!r} has no version {version!r}",
            hint=f"it has {', '.join(known[:10])}{', ...' if len(known) > 10 else ''}",
        )
    names = [row.name for row in environments.newest(connection, workspace)]
    names += [record.name for record in curated.newest(workspace.name)]
    return NotFoundError(
        f"workspace {workspace.name!r} has no environment {name!r}{suggest(name, names)}",
        hint="wherry environment list shows those that there are",
    )


def _fingerprint(plane: Plane, spec: Mapping[str, Any]) -> str:
    return hmac.digest(plane.secret, fingerprint_text(spec).encode(), "sha256").hex()
