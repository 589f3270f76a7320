"""Configuration objects that refuse what they do not know, as Azure ML's do."""

from __future__ import annotations

from typing import Any

from ..core.nearest import suggest


class Section:
    """Attributes may be set freely once they exist; a misspelt one is refused by name.

    A subclass sets every attribute in ``__init__`` and then calls ``_seal()``.
    """

    _sealed = False

    def _seal(self) -> None:
        object.__setattr__(self, "_sealed", True)

    def __setattr__(self, name: str, value: Any) -> None:
        if self._sealed and not name.startswith("_") and not hasattr(self, name):
            known = [key for key in dir(self) if not key.startswith("_")]
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}{suggest(name, known)}"
            )
        object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_")
        )
        return f"{type(self).__name__}({shown})"
