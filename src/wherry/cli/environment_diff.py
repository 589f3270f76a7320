"""What a run's environment asked for, by name, so that two can be put side by side."""

from __future__ import annotations

import re
from typing import Any, Dict, Iterator, Mapping, Tuple

from .run_view import environment_of

_PACKAGE = re.compile(r"\s*([A-Za-z0-9][\w.\-]*(?:\[[^\]]*\])?)\s*(.*)\Z", re.DOTALL)


def items(spec: Mapping[str, Any]) -> Dict[str, str]:
    """Packages with their versions, the interpreter, the container and the variables' names."""
    wanted = spec.get("environment") or {}
    specification = wanted.get("specification") or {}
    found = {"environment": environment_of(spec)}
    if not specification:
        found["interpreter"] = str(wanted.get("interpreter_path") or "")
    for section, value in specification.items():
        if section == "python":
            found.update(_python(value or {}))
        elif section not in ("name", "version"):
            found.update(_flat(section, value))
    found["variables"] = " ".join(sorted(spec.get("environment_variables") or {}))
    return {name: value for name, value in found.items() if value}


def _python(section: Mapping[str, Any]) -> Dict[str, str]:
    found: Dict[str, str] = {}
    for name, value in section.items():
        if name == "conda":
            found.update(_conda(value or {}))
        elif name == "lock":
            found["lock"] = "yes"
        elif name != "user_managed":
            found.update(_flat(f"python.{name}", value))
    return found


def _conda(file: Mapping[str, Any]) -> Iterator[Tuple[str, str]]:
    channels = file.get("channels") or []
    yield "channels", ", ".join(map(str, channels))
    for entry in file.get("dependencies") or []:
        if isinstance(entry, Mapping):
            for kind, packages in entry.items():
                for package in packages or []:
                    yield _package(f"{kind} ", str(package))
        else:
            yield _package("", str(entry))


def _package(kind: str, text: str) -> Tuple[str, str]:
    match = _PACKAGE.match(text)
    if match is None:
        return f"{kind}{text}", "yes"
    return f"{kind}{match.group(1)}", match.group(2).lstrip("=").strip() or "any"


def _flat(name: str, value: Any) -> Dict[str, str]:
    if isinstance(value, Mapping):
        found: Dict[str, str] = {}
        for key, item in value.items():
            found.update(_flat(f"{name}.{key}", item))
        return found
    if value in (None, "", []):
        return {}
    return {name: ", ".join(map(str, value)) if isinstance(value, list) else str(value)}
