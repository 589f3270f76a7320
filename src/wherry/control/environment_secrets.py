"""What is secret in a registered environment: sealed as it is stored, opened as it is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from wherry.core.credentials import covered, without_credentials

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


def hidden(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As those see it who may use the environment, but not read what is secret in it."""
    found = dict(covered(spec))
    if found.get("variables"):
        found["variables"] = dict.fromkeys(found["variables"], sealing.HIDDEN)
    return sealing.with_password(found, sealing.HIDDEN) if sealing.password_of(found) else found


def restored(fields: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The environment of a run, with what was hidden of the registered one that it was."""
    given, own = fields.get("environment_variables") or {}, spec.get("variables") or {}
    variables = {
        name: own.get(name, value) if value == sealing.HIDDEN else value
        for name, value in given.items()
    }
    wanted = fields.get("specification")
    if wanted:
        wanted = _replaced(wanted, _known(spec))
        if sealing.password_of(wanted) == sealing.HIDDEN:
            wanted = sealing.with_password(wanted, sealing.password_of(spec) or "")
    return {**fields, "environment_variables": variables, "specification": wanted}


def _known(spec: Mapping[str, Any]) -> dict[str, str]:
    """Each text that has a login, by how it is seen."""
    parts = [spec.get("python"), spec.get("docker")]
    found = {without_credentials(text): text for part in parts for text in _texts(part)}
    arguments = (spec.get("docker") or {}).get("arguments") or []
    seen = (covered(spec).get("docker") or {}).get("arguments") or []
    found.update(zip(seen, arguments, strict=True))
    return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for each in (*value, *value.values()):
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def _replaced(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return known.get(value, value)
    if isinstance(value, Mapping):
        return {known.get(name, name): _replaced(each, known) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(each, known) for each in value]
    return value
