"""What is secret in a registered environment: sealed as it is stored, opened as it is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherry.core.credentials import covered

from . import sealing


def owner(workspace_id: str, name: str, version: str) -> str:
    """Whose the secrets are: what is sealed for one version opens for no other."""
    return f"environment {workspace_id} {name} {version}"


def sealed(secret: bytes, whose: str, spec: dict[str, Any]) -> dict[str, Any]:
    """Without any variable's value, password and login in clear; itself if it has none."""
    variables, password = spec.get("variables") or {}, sealing.password_of(spec)
    seen = covered(spec)
    if not variables and not password and seen is spec:
        return spec
    kept = sealing.with_password(seen, "") if password else dict(seen)
    if variables:
        kept["variables"] = dict.fromkeys(variables, "")
    values = [variables, password, None if seen is spec else spec]
    return {**kept, sealing.SEALED: sealing.seal(secret, whose, values)}


def opened(
    secret: bytes, whose: str, spec: Mapping[str, Any], lost: str | None = None
) -> dict[str, Any]:
    """``lost`` stands for what another key has sealed; without it that is an error."""
    found = dict(spec)
    text = found.pop(sealing.SEALED, None)
    if text is None:
        return found
    try:
        variables, password, *whole = sealing.unseal(secret, whose, text)
    except sealing.UnsealError:
        if lost is None:
            raise sealing.UnsealError(
                "the variables of this environment were sealed with another key",
                hint="put back the secret.key that belongs to this database, or register it again",
            ) from None
        variables = dict.fromkeys(found.get("variables") or {}, lost)
        password = None if sealing.password_of(found) is None else lost
    else:
        found = (whole[0] if whole else None) or found
    if variables:
        found["variables"] = variables
    return sealing.with_password(found, password) if password else found
