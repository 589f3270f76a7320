"""Secrets as the database keeps them: sealed with the server's key.

They are the values of environment variables, whose names stay readable in their place, the
password of an image's registry, and what lets somebody in at an address that an environment names.
What was sealed for one run opens for no other.
"""

from __future__ import annotations

import hmac
import json
import os
from base64 import b64decode, b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from wherry.core.credentials import covered
from wherry.core.errors import LaunchRefusedError

SEALED = "sealed"
_VARIABLES = "environment_variables"
_FORM = "1."
_NONCE_BYTES = 12
HIDDEN = "(hidden)"
LOST = "(sealed with another key)"


class UnsealError(LaunchRefusedError):
    """What is secret was sealed with another key than the server has."""


def sealed(secret: bytes, run_id: str, spec: dict[str, Any]) -> dict[str, Any]:
    """The specification without any variable's value, password and login in clear."""
    given, own, password = spec["environment"][_VARIABLES], spec[_VARIABLES], _password(spec)
    wanted = spec["environment"].get("specification") or {}
    seen = covered(wanted)
    if not given and not own and not password and seen is wanted:
        return spec
    values = [given, own, password, None if seen is wanted else wanted]
    while values[-1] is None:
        values.pop()
    kept = _with(spec, dict.fromkeys(given, ""), dict.fromkeys(own, ""), password and "", seen)
    return {**kept, SEALED: seal(secret, run_id, values)}


def opened(secret: bytes, run_id: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification as it was submitted."""
    if SEALED not in spec:
        return dict(spec)
    try:
        given, own, *others = unseal(secret, run_id, spec[SEALED])
    except UnsealError:
        raise UnsealError(
            f"the environment variables of run {run_id} were sealed with another key",
            hint="put back the secret.key that belongs to this database, or submit the run again",
        ) from None
    return _with(spec, given, own, *others)


def seal(secret: bytes, owner: str, values: Any) -> str:
    """Values as text that opens with the same key, for the same owner."""
    nonce = os.urandom(_NONCE_BYTES)
    data = _cipher(secret).encrypt(nonce, json.dumps(values).encode(), owner.encode())
    return _FORM + b64encode(nonce + data).decode()


def unseal(secret: bytes, owner: str, text: str) -> Any:
    from cryptography.exceptions import InvalidTag

    data = b64decode(text.removeprefix(_FORM))
    nonce, rest = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
    try:
        return json.loads(_cipher(secret).decrypt(nonce, rest, owner.encode()))
    except InvalidTag:
        raise UnsealError from None


def shown(secret: bytes, run_id: str, spec: Mapping[str, Any], *, values: bool) -> dict[str, Any]:
    """For people: with the values, or only the names."""
    if values:
        try:
            return opened(secret, run_id, spec)
        except UnsealError:
            return _covered(spec, LOST)
    return _covered(spec, HIDDEN)


def _covered(spec: Mapping[str, Any], text: str) -> dict[str, Any]:
    given, own = spec.get("environment", {}).get(_VARIABLES, {}), spec.get(_VARIABLES, {})
    password = None if _password(spec) is None else text
    return _with(spec, dict.fromkeys(given, text), dict.fromkeys(own, text), password)


def _with(
    spec: Mapping[str, Any],
    given: Mapping[str, str],
    own: Mapping[str, str],
    password: str | None = None,
    wanted: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``wanted`` takes the place of what is prepared."""
    environment = {**spec.get("environment", {}), _VARIABLES: dict(given)}
    if wanted:
        environment["specification"] = wanted
    if password is not None:
        wanted = environment["specification"]
        environment["specification"] = with_password(wanted, password)
    changed = {**spec, "environment": environment, _VARIABLES: dict(own)}
    changed.pop(SEALED, None)
    return changed


def with_password(environment: Mapping[str, Any], password: str) -> dict[str, Any]:
    """The specification of an environment with this password of its registry."""
    docker = environment["docker"]
    registry = {**docker["registry"], "password": password}
    return {**environment, "docker": {**docker, "registry": registry}}


def password_of(environment: Mapping[str, Any]) -> str | None:
    docker = environment.get("docker") or {}
    password: str | None = (docker.get("registry") or {}).get("password")
    return password


def _password(spec: Mapping[str, Any]) -> str | None:
    return password_of((spec.get("environment") or {}).get("specification") or {})


@lru_cache(maxsize=4)
def _cipher(secret: bytes) -> Any:
    # Loaded by those alone who have something to seal: it takes ten megabytes.
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(hmac.digest(secret, b"wherry: environment variables at rest", "sha256"))
