"""The containers that attempts on this machine left behind, found by the note in their folders."""

from __future__ import annotations

import logging
from pathlib import Path

from wherry.containers import note
from wherry.containers.error import ContainerError, EngineError

log = logging.getLogger(__name__)


def running(folder: Path) -> bool:
    """Whether the attempt's container runs; an engine that does not answer proves nothing."""
    container = note.read(str(folder))
    if container is None:
        return False
    try:
        return bool((container.state() or {}).get("Running"))
    except (ContainerError, EngineError) as error:
        log.warning("%s: %s", folder, error)
        return True


def remove(folder: Path) -> bool:
    """End and remove the attempt's container; whether there was one that ran."""
    container = note.read(str(folder))
    if container is None:
        return False
    try:
        ran = bool((container.state() or {}).get("Running"))
        container.remove()
    except (ContainerError, EngineError) as error:
        log.warning("%s: its container is not removed: %s", folder, error)
        return False
    return ran
