"""Fields of configurations, as people write them: checked, with a sentence where one is wrong."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional

from .errors import UserErrorException
from .nearest import suggest
from .text import clean

LONGEST_TEXT = 20_000
SECRETS = ("password", "private_key", "passphrase")
_EXAMPLES = {"port": 22, "ssh_port": 2222}


def known(what: str, fields: Mapping[str, Any], names: Any) -> None:
    for name in fields:
        if name not in names:
            raise UserErrorException(
                f"{what} has no field {shown(name)}{suggest(str(name), names)}",
                hint=f"the fields are {', '.join(names)}",
            )


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Also from text: notebooks pass numbers from the environment as they are."""
    try:
        number = int(str(value).strip())
    except ValueError:
        number = None
    if number is None or isinstance(value, bool) or not least <= number <= most:
        raise UserErrorException(
            f"{name} is {shown(value)}, not a whole number from {least} to {most}",
            hint=f"such as {name}: {_EXAMPLES.get(name, max(least, min(4, most)))}",
        )
    return number


def amount(name: str, value: Any, least: float = 0.0) -> Optional[float]:
    if value in (None, ""):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = -1.0
    if isinstance(value, bool) or not least <= number < 1e9:
        raise UserErrorException(f"{name} is {shown(value)}, not an amount")
    return number


def shown(value: Any) -> str:
    return repr(value) if len(repr(value)) < 100 else f"{repr(value)[:100]}..."


def text(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT or clean(value) != value:
        raise UserErrorException(f"{name} must be a text, not {str(value)[:100]!r}")
    return value.strip() if name not in SECRETS else value


def texts(name: str, value: Any) -> List[str]:
    if value is not None and not isinstance(value, (list, tuple)):
        raise UserErrorException(f"{name} must be a list of texts, not {str(value)[:100]!r}")
    return [text(name, each) for each in value or ()]
