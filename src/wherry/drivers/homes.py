"""Folders that outlive a node, on this machine or where an agent is."""

from __future__ import annotations

import shutil
from pathlib import Path


def remove_home(homes: Path, home: str) -> None:
    """The one of that name in the folder of all, if it is there.

    Put aside first: what is left of it after a kill is no home any more.
    """
    if home in ("", ".", "..") or "/" in home:
        raise ValueError(f"{home!r} is not the name of a home")
    aside = homes / f".gone-{home}"
    folder = homes / home
    if folder.is_dir() and not aside.exists():
        folder.rename(aside)
    for left in (aside, folder):
        if left.exists():
            shutil.rmtree(left)
