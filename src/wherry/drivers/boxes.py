"""The containers that attempts on this machine left behind, found by the note in their folders.

An engine may carry out a request whose sender is dead by then. So a note outlives its folder for a
while, in ``.boxes`` beside it, and whatever bears the attempt's label meanwhile is removed.
"""

from __future__ import annotations

import logging
import shutil
import time
from contextlib import suppress
from pathlib import Path

from wherry.containers import note
from wherry.containers.container import Container, remove_all
from wherry.containers.error import ContainerError, EngineError

log = logging.getLogger(__name__)

_LATER = ".boxes"
_LATEST_S = 600.0
_PATIENCE_S = 10.0
_TROUBLE = (ContainerError, EngineError)


def running(folder: Path) -> bool:
    """Whether the attempt's container runs; an engine that does not answer proves nothing."""
    container = note.read(str(folder))
    if container is None:
        return False
    try:
        return bool((container.state() or {}).get("Running"))
    except _TROUBLE as error:
        log.warning("%s: %s", folder, error)
        return True


def remove(folder: Path) -> bool:
    """End and remove the attempt's containers; whether its command ran in one."""
    container = note.read(str(folder))
    if container is None:
        return False
    _look_later(folder)
    try:
        ran = bool((container.state() or {}).get("Running"))
        remove_all(container.engine, container.attempt_id)
    except _TROUBLE as error:
        log.warning("%s: its container is not removed yet: %s", folder, error)
        return False
    return ran


def sweep(root: Path) -> None:
    """Remove what came too late for ``remove``, or what an engine did not answer for then.

    One that does not answer is asked once.
    """
    silent = set()
    for folder in _noted(root):
        container = note.read(str(folder))
        if container is not None and container.engine.address in silent:
            continue
        if container is not None and not _removed(container):
            silent.add(container.engine.address)
        elif container is None or _age_s(folder) > _LATEST_S:
            shutil.rmtree(folder, ignore_errors=True)


def _noted(root: Path) -> list[Path]:
    try:
        return sorted((root / _LATER).iterdir())
    except OSError:
        return []


def _removed(container: Container) -> bool:
    """Whether the engine answered."""
    try:
        remove_all(container.engine, container.attempt_id, _PATIENCE_S)
    except _TROUBLE as error:
        log.warning("containers of %s are not removed yet: %s", container.attempt_id, error)
        return False
    return True


def _look_later(folder: Path) -> None:
    kept = folder.parent / _LATER / folder.name
    try:
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / note.NAME, kept / note.NAME)
    except OSError as error:
        log.warning("%s: %s", kept, error)


def _age_s(folder: Path) -> float:
    with suppress(OSError):
        return time.time() - folder.stat().st_mtime
    return 0.0
