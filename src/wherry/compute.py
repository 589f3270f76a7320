"""The compute targets, where Azure ML has them: ``from wherry.compute import AmlCompute``.

Like ``wherry`` itself it loads what is used, when it is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from . import (
        AmlCompute,
        BatchAiCompute,
        ComputeInstance,
        ComputeTarget,
        ComputeTargetException,
        DsvmCompute,
        RemoteCompute,
    )

__all__ = [
    "AmlCompute",
    "BatchAiCompute",
    "ComputeInstance",
    "ComputeTarget",
    "ComputeTargetException",
    "DsvmCompute",
    "RemoteCompute",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'wherry.compute' has no attribute {name!r}")
    import wherry

    return getattr(wherry, name)
