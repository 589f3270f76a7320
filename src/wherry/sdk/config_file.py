"""Azure ML's ``config.json``: where it is looked for, what it says, how it is written."""

from __future__ import annotations

import os
from json import dumps, loads
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from ..core.errors import UserErrorException
from ..core.ids import check_name

_FOLDERS = (".azureml", "aml_config", "")
_NAMES = ("config.json", "project.json")


class WorkspaceFile(NamedTuple):
    """What a configuration file says."""

    workspace_name: str
    subscription_id: str
    resource_group: str
    server: str


def find(path: Optional[str], file_name: Optional[str] = None) -> Optional[str]:
    """The file itself, or the first one found from that folder upwards.

    In each folder ``.azureml``, then ``aml_config``, then the folder itself is looked at, for
    ``config.json`` and then for the old ``project.json``.
    """
    start = os.path.abspath(path or os.curdir)
    if os.path.isfile(start):
        return start
    return next(_files_above(start, (file_name,) if file_name else _NAMES), None)


def lies_in(folder: str) -> bool:
    """Whether the folder itself has one, without those above it."""
    return any(os.path.isfile(path) for path in _files_of(folder, _NAMES))


def naming_a_workspace(server: str) -> Optional[Tuple[str, WorkspaceFile]]:
    """The first file from here upwards, in the same order, that names a workspace of this server.

    For those who did not ask for one: many programs have a ``config.json``.
    """
    for path in _files_above(os.getcwd(), _NAMES):
        try:
            file = read(path)
            check_name("workspace", file.workspace_name)
        except UserErrorException:
            continue
        return (path, file) if file.server.rstrip("/") in ("", server) else None
    return None


def missing(path: Optional[str], file_name: Optional[str] = None) -> UserErrorException:
    return UserErrorException(
        f"The workspace configuration file {file_name or 'config.json'}, could not be found in "
        f"{os.path.abspath(path or os.curdir)} or its parent directories. Please check whether "
        "the workspace configuration file exists, or provide the full path to the configuration "
        "file as an argument.",
        hint="Workspace.create('NAME', exist_ok=True).write_config() writes one",
    )


def read(path: str) -> WorkspaceFile:
    try:
        with open(path, encoding="utf-8-sig") as file:
            fields = loads(file.read())
    except (OSError, ValueError) as error:
        raise UserErrorException(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(fields, dict):
        raise UserErrorException(f"{path} does not hold a JSON object")
    scope = _scope(str(fields.get("Scope") or ""))
    name = fields.get("workspace_name") or scope.get("workspaces")
    if not name:
        raise UserErrorException(
            f"{path} names no workspace", hint='it should hold {"workspace_name": "NAME"}'
        )
    return WorkspaceFile(
        workspace_name=str(name),
        subscription_id=str(fields.get("subscription_id") or scope.get("subscriptions") or ""),
        resource_group=str(fields.get("resource_group") or scope.get("resourceGroups") or ""),
        server=str(fields.get("server") or ""),
    )


def write(fields: WorkspaceFile, path: Optional[str], file_name: Optional[str]) -> str:
    """Write ``<path>/.azureml/config.json``; its path."""
    folder = os.path.join(path or os.curdir, ".azureml")
    content: Dict[str, Any] = {
        "subscription_id": fields.subscription_id or "wherry",
        "resource_group": fields.resource_group or "wherry",
        "workspace_name": fields.workspace_name,
    }
    if fields.server:
        content["server"] = fields.server
    target = os.path.join(folder, file_name or "config.json")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(target, "w", encoding="utf-8") as file:
            file.write(dumps(content, indent=4) + "\n")
    except OSError as error:
        raise UserErrorException(f"{target} cannot be written: {error}") from None
    return target


def _files_above(folder: str, names: Sequence[str]) -> Iterator[str]:
    while True:
        yield from filter(os.path.isfile, _files_of(folder, names))
        parent = os.path.dirname(folder)
        if parent == folder:
            return
        folder = parent


def _files_of(folder: str, names: Sequence[str]) -> Iterator[str]:
    for below in _FOLDERS:
        for name in names:
            yield os.path.join(folder, below, name)


def _scope(text: str) -> Dict[str, str]:
    """``/subscriptions/S/resourceGroups/G/.../workspaces/W`` by its parts."""
    parts = text.strip("/").split("/")
    return dict(zip(parts[::2], parts[1::2]))
