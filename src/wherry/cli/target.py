"""``wherry target``: where runs execute."""

from __future__ import annotations

from typing import Any, Dict, List

import click

from ..core.sizes import format_bytes
from .command import Group, pass_session
from .output import emit
from .session import Session
from .table import Column


@click.group(cls=Group, examples=["wherry target list"])
def target() -> None:
    """See the compute targets and what is free on them."""


@target.command("list", examples=["wherry target list", "wherry target list --output json"])
@pass_session
def list_(session: Session) -> None:
    """List the targets with their nodes, and how much of each is free."""
    emit(session, session.client.get("/targets")["items"], _columns())


def _columns() -> List[Column]:
    return [
        Column("NAME", lambda row: str(row["name"])),
        Column("KIND", lambda row: str(row["kind"]), drops=4),
        Column("NODES", lambda row: str(len(row["nodes"])), right=True, drops=3),
        Column("FREE CPUS", lambda row: _share(row, "cpu"), right=True),
        Column("FREE MEMORY", lambda row: _share(row, "memory_bytes"), right=True),
        Column("FREE GPUS", lambda row: _share(row, "gpu"), right=True),
        Column("RUNNING", lambda row: str(row.get("active", "")), right=True, drops=2),
        Column("PROBLEM", lambda row: str(row.get("problem") or ""), wraps=True, drops=1),
    ]


def _share(row: Dict[str, Any], what: str) -> str:
    free = row.get("free")
    if free is None:
        return "?"
    total = sum(node.get(what, 0) for node in row["nodes"])
    show = format_bytes if what == "memory_bytes" else _count
    return f"{show(free[what])} of {show(total)}"


def _count(amount: float) -> str:
    return f"{amount:g}"
