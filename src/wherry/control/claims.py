"""What a cluster lacks of a site that is full."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Row

from wherry.core.vm_sizes import Size


@dataclass
class Claim:
    """So many nodes of a size are lacked by a run of that place in the order of all runs.

    ``helps`` says of a node whether its place would do.
    """

    site: str
    size: Size
    wanted: int
    order: tuple[int, float]
    since: datetime
    helps: Callable[[Row[Any]], bool]
    given_at: datetime | None = None
