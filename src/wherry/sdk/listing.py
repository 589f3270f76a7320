"""Lists of runs: filters as the server takes them, page by page."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Union

from .client import Client, quote

Labels = Union[str, Mapping[str, Optional[str]], Sequence[str], None]


class Page(NamedTuple):
    """Some records, and where the next ones begin (None at the end)."""

    items: List[Dict[str, Any]]
    next_cursor: Optional[str]


def query(
    *,
    experiment: Optional[str] = None,
    status: Union[str, Sequence[str], None] = None,
    type: Optional[str] = None,
    target: Optional[str] = None,
    tags: Labels = None,
    properties: Labels = None,
    parent_id: Optional[str] = None,
    include_children: bool = False,
    archived: str = "active",
    order_by: Optional[str] = None,
    filter: Optional[str] = None,
    include: Sequence[str] = (),
) -> Dict[str, Any]:
    """The parameters of a listing. Tags are ``"key"``, ``{"key": "value"}`` or ``["key=value"]``.

    ``archived`` is ``active``, ``archived`` or ``all``; ``include`` adds ``metrics`` or
    ``arguments`` to each record.
    """
    return {
        "experiment": experiment,
        "status": several(status) if status else None,
        "type": type,
        "target": target,
        "tag": _pairs(tags),
        "property": _pairs(properties),
        "parent_id": parent_id,
        "include_children": include_children or None,
        "archived": archived,
        "order_by": order_by or "-submitted_at",
        "filter": filter,
        "include": list(include) or None,
    }


def page(
    client: Client, workspace: str, params: Mapping[str, Any], limit: int, cursor: Optional[str]
) -> Page:
    answer = client.get(
        f"/workspaces/{quote(workspace)}/runs", {**params, "limit": limit, "cursor": cursor}
    )
    return Page(answer["items"], answer.get("next_cursor"))


def every(
    client: Client, workspace: str, params: Mapping[str, Any], at_once: int = 200
) -> Iterator[Dict[str, Any]]:
    """All of them, fetched as they are asked for."""
    cursor: Optional[str] = None
    while True:
        found = page(client, workspace, params, at_once, cursor)
        yield from found.items
        cursor = found.next_cursor
        if not cursor:
            return


def matches(record: Mapping[str, Any], kind: str, wanted: Labels) -> bool:
    """Whether a record's ``tags`` or ``properties`` are as wanted."""
    have = record.get(kind) or {}
    for pair in _pairs(wanted):
        key, equals, value = pair.partition("=")
        if key not in have or (equals and have[key] != value):
            return False
    return True


def several(status: Union[str, Sequence[str]]) -> List[str]:
    return [status] if isinstance(status, str) else list(status)


def _pairs(labels: Labels) -> List[str]:
    if not labels:
        return []
    if isinstance(labels, str):
        return [labels]
    if isinstance(labels, Mapping):
        return [key if value is None else f"{key}={value}" for key, value in labels.items()]
    return [str(label) for label in labels]
