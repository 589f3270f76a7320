"""Environments that come with Wherry, and those of Azure ML's that they stand in for.

What they hold is in ``curated.json``. A version never changes: another set of packages is the next.
"""

from __future__ import annotations

import json
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from wherry.core.environments import content_hash, parse
from wherry.core.errors import NotFoundError
from wherry.core.nearest import suggest
from wherry.core.records import Environment

PREFIX = "Wherry-"
AZURE = "AzureML-"


def is_reserved(name: str) -> bool:
    """Whether only curated environments are called so, by us or by Azure ML."""
    return name.lower().startswith((PREFIX.lower(), AZURE.lower()))


def newest(workspace: str) -> list[Environment]:
    """The newest version of each."""
    return [_record(fields[-1], workspace) for fields in _by_name().values()]


def versions(workspace: str, name: str) -> list[Environment]:
    """All versions of one, the newest first."""
    found = _by_name().get(name, [])
    return [_record(fields, workspace) for fields in reversed(found)]


def get(workspace: str, name: str, version: str | None) -> Environment:
    if name.lower().startswith(AZURE.lower()):
        return _in_place_of(workspace, name)
    found = versions(workspace, name)
    if not found:
        raise NotFoundError(
            f"there is no curated environment {name!r}{suggest(name, _by_name())}",
            hint="wherry environment list shows those that there are",
        )
    for record in found:
        if version in (None, record.version):
            return record
    known = ", ".join(record.version for record in found)
    raise NotFoundError(
        f"curated environment {name!r} has no version {version!r}", hint=f"it has {known}"
    )


def _in_place_of(workspace: str, name: str) -> Environment:
    """Azure ML's images are Azure's; the packages that people took them for are on PyPI."""
    low = name.lower()
    ours = next(
        rule["name"]
        for rule in _data()["azure_names"]
        if all(word in low for word in rule["holds"])
    )
    record = get(workspace, ours, None)
    about = record.description.rstrip(".")
    notice = f"{name} is Azure ML's; {ours} version {record.version} stands in for it ({about})"
    return Environment(**{**record.__dict__, "notice": notice})


def _record(fields: dict[str, Any], workspace: str) -> Environment:
    spec = parse(fields["specification"], fields["name"])
    return Environment(
        name=fields["name"],
        version=fields["version"],
        workspace=workspace,
        description=fields["description"],
        tags={},
        specification=spec,
        hash=content_hash(spec),
        curated=True,
        created_by="wherry",
        created_at=datetime.fromisoformat(fields["created_at"]),
    )


@lru_cache(maxsize=1)
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Path(__file__).with_name("curated.json").read_text())
    return data


@lru_cache(maxsize=1)
def _by_name() -> dict[str, list[dict[str, Any]]]:
    """Each name's versions, the oldest first."""
    found: dict[str, list[dict[str, Any]]] = {}
    for fields in _data()["environments"]:
        found.setdefault(fields["name"], []).append(fields)
    return found
