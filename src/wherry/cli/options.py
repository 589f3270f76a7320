"""Kinds of values that options take, with errors that say what was probably meant."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, List, Optional, Sequence

import click

from ..core.nearest import suggest
from .ending import Usage

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class Existing(click.Path):
    """A file or a folder that is there and can be read."""

    def __init__(self, *, folder: bool) -> None:
        super().__init__(file_okay=not folder, dir_okay=folder)
        self._is_right = os.path.isdir if folder else os.path.isfile
        self._right, self._wrong = ("folder", "file") if folder else ("file", "folder")

    def convert(
        self, value: Any, param: Optional[click.Parameter], ctx: Optional[click.Context]
    ) -> Any:
        problem = self._problem(str(value))
        if problem is None:
            return value
        names = param.opts if param else ["it"]
        option = next((name for name in names if name.startswith("--")), names[-1])
        raise Usage(problem, hint=f"{option} takes a {self._right} that you can read")

    def _problem(self, value: str) -> Optional[str]:
        if not os.path.exists(value):
            near, name = os.path.split(os.path.abspath(value))
            there = os.listdir(near) if os.path.isdir(near) else []
            return f"there is no {self._right} {value!r}{_here(value)}{suggest(name, there)}"
        if not self._is_right(value):
            wrong = os.path.isfile(value) or os.path.isdir(value)
            found = f"a {self._wrong}" if wrong else "something else"
            return f"{value!r} is {found}, not a {self._right}"
        return None if os.access(value, os.R_OK) else f"{value!r} cannot be read: permission denied"


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

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> List[CompletionItem]:
        from click.shell_completion import CompletionItem

        begun = incomplete.lower()
        return [CompletionItem(word) for word in self.choices if word.lower().startswith(begun)]

    def get_missing_message(
        self, param: click.Parameter, ctx: Optional[click.Context] = None
    ) -> str:
        """Nothing: what may be chosen stands in the name of the argument."""
        return ""


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
    return "" if os.path.isabs(value) else f" in {os.getcwd()}"
