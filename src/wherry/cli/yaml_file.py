"""YAML on the command line: the files that people write, and the values of ``--set``."""

from __future__ import annotations

from typing import Any, Dict, Tuple

from ..core.errors import UserErrorException
from ..sdk.yaml_text import parse, parse_with_lines, read_file


def load_with_lines(path: str, what: str) -> Tuple[Dict[str, Any], Dict[Any, int]]:
    """The fields of a file, and the line on which each value stands, by the way to it."""
    hint = f"correct it there; {what} file is YAML"
    value, lines = parse_with_lines(read_file(path, f"{what} file"), path, hint)
    if not isinstance(value, dict):
        example = "'command: ...'" if what == "a job" else "'name: ...'"
        raise UserErrorException(
            f"{path} does not describe {what}", hint=f"it needs at least a line {example}"
        )
    return value, lines


def value_of(text: str) -> Any:
    """A value that someone wrote on the command line; what is not YAML is text."""
    try:
        return parse(text, "the value")
    except UserErrorException:
        return text
