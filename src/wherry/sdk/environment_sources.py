"""Where the packages and images of an environment are read from: files, and conda itself."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Mapping, Optional

import wherry  # the lazy surface: see run.py

from ..core.errors import UserErrorException
from . import requirements_file, yaml_text
from .conda_dependencies import CondaDependencies

_LOCKED = ("format", "platform", "python", "conda", "pypi", "pylock")


def add_packages(
    environment: wherry.Environment,
    conda: Any = None,
    pip: Any = None,
    pip_version: Optional[str] = None,
) -> None:
    """What a conda file or a file of pip requirements asks for; without either, nothing."""
    if conda is not None and pip is not None:
        raise UserErrorException(
            "both a conda file and pip requirements are given",
            hint="write the requirements below '- pip:' of the conda file",
        )
    section = environment.python
    section.user_managed_dependencies = conda is None and pip is None
    if conda is not None:
        section.conda_dependencies = CondaDependencies(conda)
    elif pip is not None:
        section.conda_dependencies = _from_requirements(os.fspath(pip), pip_version)


def dockerfile_text(dockerfile: Any) -> str:
    """The text, or that of the file which is named."""
    if not isinstance(dockerfile, (str, os.PathLike)):
        raise UserErrorException(
            f"{dockerfile!r} is no Dockerfile", hint="give its path, or its text"
        )
    text = os.fspath(dockerfile)
    is_text = isinstance(dockerfile, str) and ("\n" in text or text.upper().startswith("FROM "))
    return text if is_text else yaml_text.read_file(text, "a Dockerfile, or give its text")


def lock_of(lock: Any) -> Dict[str, Any]:
    found, called = lock, "what was given"
    if isinstance(lock, (str, os.PathLike)):
        called = os.fspath(lock)
        try:
            found = json.loads(yaml_text.read_file(called, "the lock that a build wrote"))
        except ValueError:
            found = None
    if not isinstance(found, Mapping) or not all(part in found for part in _LOCKED):
        raise UserErrorException(
            f"{called} is no lock",
            hint="a build writes one: the file environment/lock.json of its run",
        )
    return dict(found)


def exported(name: str) -> Dict[str, Any]:
    """The conda file of a conda environment of this machine."""
    import shutil
    import subprocess

    program = shutil.which("conda") or shutil.which("mamba") or shutil.which("micromamba")
    if program is None:
        raise UserErrorException(
            f"conda, which knows the environment {name!r}, is not on this machine",
            hint="give its packages as a file: Environment.from_conda_specification(name, path)",
        )
    done = subprocess.run(
        [program, "env", "export", "--name", name, "--no-builds"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        said = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[0]
        raise UserErrorException(
            f"conda cannot export its environment {name!r}: {said}",
            hint="conda env list shows what there is",
        )
    found = yaml_text.parse(done.stdout, "what conda exports")
    return dict(found) if isinstance(found, dict) else {}


def _from_requirements(path: str, pip_version: Optional[str]) -> CondaDependencies:
    lines = requirements_file.load(path)
    found = CondaDependencies(_where=path, _lines=lines)
    found.set_pip_requirements(list(lines))
    found.add_conda_package(f"pip={pip_version}" if pip_version else "pip")
    return found
