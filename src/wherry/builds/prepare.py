"""The way in: the environment of a specification, found or made."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional

from wherry.builds.cache import Cache
from wherry.builds.error import BuildError
from wherry.builds.finding import find
from wherry.builds.key import spec_key
from wherry.builds.prepared import Prepared
from wherry.builds.recipe import parse
from wherry.builds.talk import Talk


def prepare(
    spec: Dict[str, Any],
    root: str,
    log: Optional[Callable[[bytes], object]] = None,
    progress: Optional[Callable[[str], object]] = None,
    canceled: Optional[Callable[[], bool]] = None,
    uv: Optional[str] = None,
    folder: Optional[str] = None,
    limit: Optional[int] = None,
    fetch: Optional[Callable[[str, str], object]] = None,
) -> Prepared:
    """The environment, ready; raises ``BuildError``.

    ``folder`` is where files named in the pip section are looked for, ``uv`` the program to use if
    there is one at hand, ``limit`` what the cache may hold in bytes once this build is in it.
    ``fetch`` writes the content of a workspace's wheel, known by its digest, to a path.
    """
    python = spec.get("python")
    if isinstance(python, dict) and python.get("user_managed"):
        return _user_managed(python, spec)
    recipe, cache = parse(spec, folder), Cache(root)
    key = spec_key(recipe)
    found = find(cache, key, recipe)
    if found is not None:
        return found
    # A run that finds its environment never loads what makes one.
    from wherry.builds.making import make

    talk = Talk(log, progress, canceled)
    return make(recipe, key, cache, talk, uv, limit, fetch)


def _user_managed(python: Dict[str, Any], spec: Dict[str, Any]) -> Prepared:
    """Nothing is installed; the interpreter must be there."""
    import shutil  # not for the way that most runs take

    asked = str(python.get("interpreter") or "python")
    found = shutil.which(os.path.expanduser(asked))
    if found is None and asked == "python":
        found = shutil.which("python3")
    if found is None:
        raise BuildError(
            f"the interpreter {asked!r} of environment {spec.get('name')!r} is not on this machine",
            hint="interpreter_path names a program on the target, not where the run is submitted",
        )
    return Prepared(interpreter=found, variables={}, lock=None, notices=[])
