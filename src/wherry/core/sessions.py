"""Words for the runs that a server submits itself, as sessions of compute instances."""

from __future__ import annotations

from typing import Dict, List, Mapping

SESSION = "wherry.session"
"""The type of such a run, which no list shows."""
EXPERIMENT = ".sessions"

CREATED = "session.created"
"""The tag by which a session says, with ``true``, that the creation script needs not run again."""
SOCKET = "session.socket"
"""The tag by which a session says where JupyterLab listens; empty while it does not."""
TERMINALS, BUSY = "session.terminals", "busy"
"""The tag by which a session says that a program runs in one of its terminals."""

VARIABLE = "WHERRY_SESSION"
_PIECE = 100_000  # Linux has 128 KiB for one variable, and megabytes for all


def variables(text: str) -> Dict[str, str]:
    """What a session is told, as environment variables.

    >>> variables("{}")
    {'WHERRY_SESSION': '{}'}
    """
    pieces = [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
    return {_name(number): piece for number, piece in enumerate(pieces)}


def joined(env: Mapping[str, str]) -> str:
    """The text again, empty where there is none."""
    pieces: List[str] = []
    while _name(len(pieces)) in env:
        pieces.append(env[_name(len(pieces))])
    return "".join(pieces)


def _name(number: int) -> str:
    return f"{VARIABLE}_{number}" if number else VARIABLE
