"""Sections in the names of Azure ML's files: ``interpreterPath`` for ``interpreter_path``."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Mapping, Sequence, Tuple

import wherry  # the lazy surface: see run.py

from ..core.errors import UserErrorException
from .section import Section

Layout = Sequence[Tuple[str, Any]]

# In Azure ML's order; what stands for a section of ours is the layout of its fields.
REGISTRY: Layout = [(name, None) for name in ("address", "username", "password")] + [
    ("registry_identity", None)
]
DOCKER: Layout = [
    ("enabled", None),
    ("base_image", None),
    ("base_dockerfile", None),
    ("build_context", None),
    ("shared_volumes", None),
    ("shm_size", None),
    ("arguments", None),
    ("base_image_registry", REGISTRY),
    ("platform", [("os", None), ("architecture", None)]),
]
PYTHON: Layout = [
    ("user_managed_dependencies", None),
    ("interpreter_path", None),
    ("conda_dependencies_file", None),
    ("base_conda_environment", None),
]
# Ours alone; written where they are said.
PYTHON_MORE: Layout = [("as_of", None), ("strict", None), ("resolver", None), ("lock", None)]
SPARK: Layout = [("repositories", None), ("packages", None), ("precache_packages", None)]
DATABRICKS: Layout = [
    (f"{kind}_libraries", None) for kind in ("maven", "pypi", "rcran", "jar", "egg")
]
ENVIRONMENT: Layout = [
    ("name", None),
    ("version", None),
    ("environment_variables", None),
    ("python", PYTHON),
    ("docker", DOCKER),
    ("spark", SPARK),
    ("databricks", DATABRICKS),
    ("r", None),
    ("inferencing_stack_version", None),
    ("asset_id", None),
]


def camel(name: str) -> str:
    """``shm_size`` as ``shmSize``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def snake(name: str) -> str:
    """``shmSize`` as ``shm_size``."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def fields_of(section: Any, layout: Layout) -> Dict[str, Any]:
    """The fields of a section; those of a section in it likewise."""
    found = {}
    for name, below in layout:
        value = getattr(section, name)
        found[camel(name)] = fields_of(value, below) if below is not None else plain(value)
    return found


def fill(section: Any, layout: Layout, fields: Mapping[str, Any]) -> None:
    """Set what the fields say, in either spelling; what is not of ours is left alone."""
    given = {snake(str(name)): value for name, value in fields.items()}
    for name, below in layout:
        if name not in given:
            continue
        value = given[name]
        if below is None:
            _set(section, name, value)
        elif isinstance(value, Mapping):
            fill(getattr(section, name), below, value)


def environment_fields(environment: wherry.Environment) -> Dict[str, Any]:
    """An environment as Azure ML's files have it, without its packages."""
    found = fields_of(environment, ENVIRONMENT)
    more = fields_of(environment.python, PYTHON_MORE)
    found["python"].update({name: value for name, value in more.items() if value})
    return found


def fill_environment(environment: wherry.Environment, fields: Mapping[str, Any]) -> None:
    fill(environment, ENVIRONMENT, fields)
    python = fields.get("python")
    fill(environment.python, PYTHON_MORE, python if isinstance(python, Mapping) else {})
    context: Any = environment.docker.build_context
    if isinstance(context, Mapping):
        environment.docker.build_context = wherry.DockerBuildContext()
        fill(environment.docker.build_context, layout_of(environment.docker.build_context), context)


def _set(section: Any, name: str, value: Any) -> None:
    present = getattr(section, name)
    if value is None and isinstance(present, (list, dict, str)):
        value = type(present)()
    if name == "version" and value is not None:
        value = str(value)
    setattr(section, name, value)


def layout_of(section: Section) -> Layout:
    """All that may be set in it, none of it a section."""
    return [(name, None) for name in vars(section) if not name.startswith("_")]


def plain(value: Any) -> Any:
    """As a file holds it."""
    if isinstance(value, Section):
        return {camel(name): plain(item) for name, item in vars(value).items() if name[0] != "_"}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if value is not None and not isinstance(value, (str, bool, int, float)):
        raise UserErrorException(
            f"{value!r} cannot be written to a file", hint="set it to text or a number"
        )
    return value
