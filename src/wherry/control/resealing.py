"""What older versions stored in clear, sealed once, before the database counts as a newer one's."""

from __future__ import annotations

import logging
from typing import Any

from wherry.core.credentials import covered
from wherry.store import specs
from wherry.store.database import Database
from wherry.store.migrate import present_revision
from wherry.store.tables import environments, runs

from . import environment_secrets, sealing

SEALED_SINCE = "0013"
_REGISTERED_SINCE = "0005"
_VARIABLES = "environment_variables"

log = logging.getLogger(__name__)


def seal_all(database: Database, secret: bytes) -> None:
    """Begun again if it was interrupted. What another key has sealed stays as it is."""
    before = present_revision(database)
    if before is None or before >= SEALED_SINCE:
        return
    for batch in specs.batches(database, runs):
        found = {row.seq: _run(secret, row.id, row.spec) for row in batch}
        _replace(database, runs, batch, found)
    if before >= _REGISTERED_SINCE:
        for batch in specs.batches(database, environments):
            found = {row.seq: _environment(secret, row) for row in batch}
            _replace(database, environments, batch, found)
    database.forget_overwritten()


def _run(secret: bytes, run_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    environment = spec.get("environment", {})
    if sealing.SEALED not in spec:
        whole = _VARIABLES in spec and _VARIABLES in environment
        return sealing.sealed(secret, run_id, spec) if whole else spec
    wanted = environment.get("specification") or {}
    if covered(wanted) is wanted:
        return spec
    try:
        return sealing.sealed(secret, run_id, sealing.opened(secret, run_id, spec))
    except sealing.UnsealError:
        log.warning("a login in the environment of run %s stays in clear: wrong key", run_id)
        return spec


def _environment(secret: bytes, row: Any) -> dict[str, Any]:
    spec: dict[str, Any] = row.spec
    if covered(spec) is spec:
        return spec
    whose = environment_secrets.owner(row.workspace_id, row.name, row.version)
    try:
        clear = environment_secrets.opened(secret, whose, spec)
    except sealing.UnsealError:
        log.warning("a login in environment %s:%s stays in clear: wrong key", row.name, row.version)
        return spec
    return environment_secrets.sealed(secret, whose, clear)


def _replace(database: Database, table: Any, batch: list[Any], found: dict[int, Any]) -> None:
    changed = {row.seq: found[row.seq] for row in batch if found[row.seq] is not row.spec}
    specs.replace(database, table, changed)
