"""Filters of a listing: those that name something which is not there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Mapping

from ..core.errors import NotFoundError
from ..core.nearest import suggest
from ..core.targets import BUILT_IN

if TYPE_CHECKING:
    from ..sdk.client import Client


def check_filters(client: Client, workspace: str, filters: Mapping[str, Any]) -> None:
    experiment, target = filters.get("experiment"), filters.get("target")
    if experiment:
        path = f"/workspaces/{workspace}/experiments"
        known = [each["name"] for each in client.get(path, {"archived": True})["items"]]
        if experiment not in known:
            raise NotFoundError(
                f"workspace {workspace!r} has no experiment {experiment!r}"
                f"{suggest(experiment, known)}",
                hint=_those("experiments", known) or "the first run of one makes it",
            )
    if target:
        known = [each["name"] for each in client.get(f"/workspaces/{workspace}/computes")["items"]]
        if target not in [*known, *BUILT_IN]:
            raise NotFoundError(
                f"workspace {workspace!r} has no compute target {target!r}{suggest(target, known)}",
                hint=_those("targets", known),
            )


def _those(noun: str, names: Any) -> str:
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return f"the {noun} are: {', '.join(names[:10])}{more}" if names else ""
