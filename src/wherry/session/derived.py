"""A registered environment as a kernel needs it: with ipykernel, and pip for ``%pip``."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Set

from wherry.builds.recipe import conda_parts, name_of

_NEEDED = ("ipykernel", "pip")


def for_kernel(specification: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """None where nothing can be added: a lock of conda packages is as it is."""
    python = dict(specification.get("python") or {})
    lock = python.get("lock")
    if lock:
        if _names_of_lock(lock).issuperset(_NEEDED):
            return dict(specification)
        if lock.get("conda"):
            return None
        python.pop("lock")
        python["conda"] = _as_asked(lock)
    conda = dict(python.get("conda") or {})
    conda["dependencies"] = _completed(list(conda.get("dependencies") or []))
    return {**specification, "python": {**python, "conda": conda}}


def _as_asked(lock: Mapping[str, Any]) -> Dict[str, Any]:
    """The same versions, with room for more."""
    pins = [_pinned(each) for each in lock.get("pypi") or []]
    options = [" ".join(lock["options"])] if lock.get("options") else []
    return {"dependencies": [f"python={lock['python']}", {"pip": [*options, *pins]}]}


def _pinned(package: Mapping[str, Any]) -> str:
    address = package.get("url")
    return f"{package['name']} @ {address}" if address else "{name}=={version}".format(**package)


def _completed(dependencies: List[Any]) -> List[Any]:
    words = [each for each in dependencies if isinstance(each, str)]
    sections = [each for each in dependencies if isinstance(each, Mapping)]
    pip = [line for each in sections for line in each.get("pip") or []]
    present = {conda_parts(word)[0] for word in words} | {name_of(line) for line in pip}
    return [*words, {"pip": [*pip, *(name for name in _NEEDED if name not in present)]}]


def _names_of_lock(lock: Mapping[str, Any]) -> Set[str]:
    packages = [*(lock.get("conda") or []), *(lock.get("pypi") or [])]
    return {name_of(str(each.get("name") or "")) for each in packages}
