"""A look at the nodes again and again: what must never be, not even for a moment."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

_EVERY_S = 0.03
_NODES = "SELECT id, target, site, name, state, reason, config FROM nodes WHERE removed_at IS NULL"
_BUSY = """
SELECT attempts.id, attempts.node_id, nodes.removed_at
FROM attempts LEFT JOIN nodes ON nodes.id = attempts.node_id
WHERE attempts.node_id IS NOT NULL AND attempts.ended_at IS NULL
"""


class Watch:
    """``most`` is how many nodes each target may have. ``wrong`` is what was seen, in words."""

    def __init__(self, database: Path, most: dict[str, int]) -> None:
        self._database = database
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look_on, daemon=True)
        self.most = most
        self.wrong: set[str] = set()
        self.ever: set[str] = set()

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def present(self) -> list[dict[str, Any]]:
        return self._read()[0]

    def _look_on(self) -> None:
        while not self._over.wait(_EVERY_S):
            with suppress(sqlite3.Error):  # locked, for the moment
                present, busy = self._read()
                self.ever |= {node["id"] for node in present}
                self.wrong |= {*self._too_many(present), *_shared(present), *_misplaced(busy)}

    def _read(self) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Both from one state of the database."""
        url = f"file:{self._database}?mode=ro"
        with closing(sqlite3.connect(url, uri=True, timeout=60)) as connection:
            connection.row_factory = sqlite3.Row
            connection.execute("BEGIN")
            nodes = [dict(row) for row in connection.execute(_NODES)]
            return nodes, [dict(row) for row in connection.execute(_BUSY)]

    def _too_many(self, present: list[dict[str, Any]]) -> Iterator[str]:
        for target, count in Counter(node["target"] for node in present).items():
            if count > self.most.get(target, count):
                yield f"{target} had {count} nodes, more than {self.most[target]}"


def _shared(present: list[dict[str, Any]]) -> Iterator[str]:
    """Nodes elsewhere are hosts of a pool or containers, each of which is one node at a time."""
    hosts = [json.loads(node["config"]) for node in present if node["site"] != "local"]
    places = Counter(
        host.get("container") or f"{host['address']}:{host['port']}" for host in hosts if host
    )
    return (f"{count} nodes had {place}" for place, count in places.items() if count > 1)


def _misplaced(busy: list[dict[str, Any]]) -> Iterator[str]:
    for node, count in Counter(each["node_id"] for each in busy).items():
        if count > 1:
            yield f"{count} attempts had node {node} at once"
    for each in busy:
        if each["removed_at"] is not None:
            yield f"attempt {each['id']} had node {each['node_id']}, which was removed"
