"""The engine that Docker's own command line is set to use: its context, and its certificates.

Docker's package for Python knows them, too, but a runner has the standard library alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Mapping

from .certificates import certified
from .error import ContainerError

_USUAL = ("", "default")


def chosen(variables: Mapping[str, str], *, over_ssh: bool = False) -> str:
    """The engine's address, by a variable or by a context; empty if it is the usual one.

    A context on another machine is passed over, unless it may be ``over_ssh``.
    """
    address = variables.get("DOCKER_HOST") or variables.get("CONTAINER_HOST") or ""
    if not address:
        address = _of_context(variables)
        return address if over_ssh or not address.startswith("ssh://") else ""
    if variables.get("DOCKER_TLS_VERIFY") or variables.get("DOCKER_TLS"):
        folder = variables.get("DOCKER_CERT_PATH") or _folder(variables)
        return certified(address, folder, verify=bool(variables.get("DOCKER_TLS_VERIFY")))
    return address


def _of_context(variables: Mapping[str, str]) -> str:
    folder = _folder(variables)
    name = variables.get("DOCKER_CONTEXT") or _current(folder)
    if name in _USUAL:
        return ""
    key = hashlib.sha256(name.encode()).hexdigest()
    endpoint = _endpoint(name, os.path.join(folder, "contexts", "meta", key, "meta.json"))
    address = str(endpoint.get("Host") or "")
    certificates = os.path.join(folder, "contexts", "tls", key, "docker")
    careless = bool(endpoint.get("SkipTLSVerify"))
    if careless or os.path.isdir(certificates):
        return certified(address, certificates, verify=not careless)
    return address


def _folder(variables: Mapping[str, str]) -> str:
    home = variables.get("HOME") or os.path.expanduser("~")
    return variables.get("DOCKER_CONFIG") or os.path.join(home, ".docker")


def _current(folder: str) -> str:
    """As Docker does, without a word about a file that is none."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            return str(json.load(file).get("currentContext") or "")
    except (OSError, ValueError, AttributeError):
        return ""


def _endpoint(name: str, path: str) -> Mapping[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            return dict(json.load(file)["Endpoints"]["docker"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else f"is no context: {error}"
        raise ContainerError(
            f"Docker on {os.uname().nodename} is set to the context {name!r}, but {path} {why}; "
            "docker context ls shows those that are there, docker context use default goes back to "
            "the usual engine (DOCKER_CONTEXT, where it is set, comes first)"
        ) from None
