"""Makes room: images that were built here and that nothing uses, by age, by size, or all."""

from __future__ import annotations

import fcntl
import os
import re
import time
from dataclasses import dataclass
from typing import Any, Dict, List, Optional

from .engine import Engine
from .error import EngineError
from .images import BUILT, KEY, built_name, known_cache_id

_OURS = re.compile(rf"(?:^|/){BUILT}:([0-9a-f]{{{KEY}}})-([0-9a-f]+)$")
_IN_USE = 409
_NOT_THERE = 404


@dataclass(frozen=True)
class Entry:
    """One image; ``size`` is what no other image shares."""

    key: str
    name: str
    size: int
    used_at: float


def entries(engine: Engine, locks: str) -> List[Entry]:
    """Those of this cache, which is known by its folder ``locks``; used longest ago first."""
    cache = known_cache_id(locks)
    if cache is None:
        return []
    shared = _shared_bytes(engine)  # from where podman tells no whole names
    made = [
        each
        for facts in engine.call("GET", "/images/json")
        for each in _entries(facts, shared.get(_hash_of(facts), 0), locks, cache)
    ]
    return sorted(made, key=lambda entry: entry.used_at)


def prune_images(
    engine: Engine,
    locks: str,
    older_than_s: Optional[float] = None,
    limit: Optional[int] = None,
    everything: bool = False,
) -> List[Entry]:
    """What was removed: by age since the last use, down to ``limit`` bytes, or all unused."""
    removed = []
    known = entries(engine, locks)
    total = sum(entry.size for entry in known)
    for entry in known:
        old = older_than_s is not None and time.time() - entry.used_at > older_than_s
        large = limit is not None and total > limit
        if (old or large or everything) and _remove(engine, locks, entry):
            removed.append(entry)
            total -= entry.size
    return removed


def remove_unused(engine: Engine, repository: str) -> None:
    """Images of that name, whatever their tag, that no container is made of."""
    wanted = {"reference": [f"{repository}:*"]}
    found = engine.call("GET", "/images/json", filters=wanted)
    for tag in [tag for facts in found for tag in facts.get("RepoTags") or []]:
        if tag.rpartition(":")[0].rpartition("/")[2] != repository:
            continue
        try:
            engine.call("DELETE", f"/images/{tag}", patient=True)
        except EngineError as error:
            if error.status not in (_IN_USE, _NOT_THERE):
                raise


def _shared_bytes(engine: Engine) -> Dict[str, int]:
    found = engine.call("GET", "/system/df", patient=True).get("Images") or []
    return {_hash_of(each): max(0, int(each.get("SharedSize") or 0)) for each in found}


def _hash_of(facts: Dict[str, Any]) -> str:
    return str(facts.get("Id")).rpartition(":")[2]


def _entries(facts: Dict[str, Any], shared: int, locks: str, cache: str) -> List[Entry]:
    tags = facts.get("RepoTags") or []
    size = int(facts.get("Size") or 0) - shared if len(tags) == 1 else 0  # others keep it
    made = []
    for tag in tags:
        ours = _OURS.search(tag)
        if ours and ours[2] == cache:
            try:
                used_at = os.stat(use_file(locks, ours[1])).st_mtime
            except OSError:
                used_at = float(facts.get("Created") or 0)
            made.append(Entry(ours[1], built_name(ours[1], cache), max(0, size), used_at))
    return made


def _remove(engine: Engine, locks: str, entry: Entry) -> bool:
    """Not while a run is about to use it, nor while a container is made of it."""
    os.makedirs(locks, exist_ok=True)
    handle = os.open(use_file(locks, entry.key), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        engine.call("DELETE", f"/images/{entry.name}", patient=True)
    except BlockingIOError:
        return False
    except EngineError as error:
        if error.status in (_IN_USE, _NOT_THERE):
            return False
        raise
    finally:
        os.close(handle)
    return True


def use_file(locks: str, key: str) -> str:
    return f"{locks}/{key}.use"
