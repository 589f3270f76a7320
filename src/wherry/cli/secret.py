"""Secrets on the command line: asked for without echo, never an argument that others can see."""

from __future__ import annotations

import sys

import click

from .ending import Usage


def ask(what: str, option: str) -> str:
    """From whoever sits there, or the first line of what is piped in."""
    if sys.stdin is not None and sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, err=True))
    line = sys.stdin.readline().rstrip("\n") if sys.stdin is not None else ""
    if not line:
        raise Usage(
            f"{option} is asked for, and nobody is there to answer",
            hint=f"pipe it in: printf '%s\\n' \"$SECRET\" | wherry ... {option}",
        )
    return line
