"""Kinds of values that options take, with errors that say what was probably meant."""

from __future__ import annotations

import os
from typing import Any, Optional, Sequence

import click

from ..core.nearest import suggest


class Existing(click.Path):
    """A file or a folder that is there."""

    def __init__(self, *, folder: bool) -> None:
        super().__init__(exists=True, file_okay=not folder, dir_okay=folder)
        self._noun = "folder" if folder else "file"

    def convert(
        self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]
    ) -> Any:
        if os.path.exists(value):
            return super().convert(value, param, ctx)
        near, name = os.path.split(os.path.abspath(value))
        there = os.listdir(near) if os.path.isdir(near) else []
        told = f"there is no {self._noun} {value!r} in {_here(value)}{suggest(name, there)}"
        raise click.BadParameter(told, ctx, param)


class OneOf(click.Choice):  # type: ignore[type-arg]  # generic in newer versions only
    """One of a few words, in any case."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(words, case_sensitive=False)

    def convert(
        self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]
    ) -> Any:
        known = {word.lower(): word for word in self.choices}
        if str(value).lower() in known:
            return known[str(value).lower()]
        told = f"{value!r} is none of {', '.join(self.choices)}"
        raise click.BadParameter(told + suggest(str(value), self.choices), ctx, param)


def size_option(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[str]:
    """For ``callback=`` of an option: ``4GB``, ``512Mi``."""
    from ..core.errors import UserErrorException
    from ..core.sizes import parse_bytes

    try:
        if value is None or parse_bytes(value) > 0:
            return value
    except UserErrorException:
        pass
    raise click.BadParameter(f"{value!r} is no size: write it like 4GB or 512Mi", ctx, param)


def _here(value: str) -> str:
    return os.sep if os.path.isabs(value) else os.getcwd()
