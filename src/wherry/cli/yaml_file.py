"""YAML on the command line: a job file, and the values of ``--set``."""

from __future__ import annotations

from typing import Any

from ..core.errors import UserErrorException
from ..sdk.yaml_text import parse, read_file


def load(path: str) -> Any:
    return parse(read_file(path, "a job file"), path, "correct it there; a job file is YAML")


def value_of(text: str) -> Any:
    """A value that someone wrote on the command line; what is not YAML is text."""
    try:
        return parse(text, "the value")
    except UserErrorException:
        return text
