"""An environment that is there, and what it takes to run something in it."""

from __future__ import annotations

import os
from typing import Any, Dict, List, NamedTuple, Optional

from wherry.builds.use import Use


class Prepared(NamedTuple):
    """``use`` keeps the environment from being pruned for as long as any process has it open.

    Hand ``use.fileno()`` on to the command, and the mark outlives whoever called ``prepare``; close
    it once the command has ended.
    """

    interpreter: str
    variables: Dict[str, str]
    lock: Optional[Dict[str, Any]]
    notices: List[str]
    prefix: Optional[str] = None
    built: bool = False
    use: Use = Use(None)

    def to_json(self) -> Dict[str, Any]:
        return {
            "interpreter": self.interpreter,
            "variables": self.variables,
            "lock": self.lock,
            "notices": self.notices,
            "prefix": self.prefix,
            "built": self.built,
        }


def variables_of(marker: Dict[str, Any]) -> Dict[str, str]:
    """What activating a finished environment would set."""
    prefix = marker["prefix"]
    path = os.environ.get("PATH", os.defpath)
    found = {"PATH": os.path.join(prefix, "bin") + os.pathsep + path}
    if not marker["lock"]["conda"]:
        return {**found, "VIRTUAL_ENV": prefix}
    return {
        **marker["activation"],
        **found,
        "CONDA_PREFIX": prefix,
        "CONDA_DEFAULT_ENV": os.path.basename(prefix),
        "PYTHONNOUSERSITE": "1",
    }
