"""Modules that are loaded when something of them is used: most scripts never do.

They are named twice, once for whoever reads or checks types and once for Python:

    if TYPE_CHECKING:
        from . import run_config_file
    else:
        run_config_file = Late("run_config_file")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Late:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(import_module(f".{self._name}", __package__), name)
