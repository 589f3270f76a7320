"""What the shell may complete to. Quick and silent: it starts no server and tells no error."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional

from click.shell_completion import CompletionItem

from .session import Session, choose_workspace

if TYPE_CHECKING:
    from ..sdk.client import Client

_PATIENCE_S = 1.0
_MANY = 100
_NEWEST = 20

Item = CompletionItem


def find(
    what: str, session: Session, incomplete: str, given: Optional[Mapping[str, Any]] = None
) -> List[CompletionItem]:
    """``given`` are the words before this one."""
    try:
        with _limit(_PATIENCE_S):
            client = session.reach(_PATIENCE_S)
            items = _items(what, client, session, given or {}) if client is not None else []
    except Exception:  # noqa: BLE001 - a shell waits for a key: nothing may be said here
        return []
    return [item for item in items if str(item.value).startswith(incomplete)]


def _items(
    what: str, client: Client, session: Session, given: Mapping[str, Any]
) -> List[CompletionItem]:
    named = str(given.get("name") or given.get("named") or "")
    if what == "labels":
        return _labels(client, session, named)
    if what == "nodes":
        return _nodes(client, session, named)
    if what == "sizes":
        return _sizes(client, str(given.get("location") or "local"))
    return _KINDS[what](client, session)


class _TooSlow(Exception):
    """Whoever pressed the key should not have to wait."""


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """An end to all waiting, retries included."""

    def stop(number: int, frame: object) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _runs(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/runs"
    runs = client.get(path, {"limit": _MANY}, start=False)["items"]
    named = [Item(run["display_name"], help=run["id"]) for run in runs if run["display_name"]]
    return [Item(run["id"], help=run["status"]) for run in runs] + [
        item for item in named if " " not in str(item.value)
    ]


def _workspaces(client: Client, session: Session) -> List[CompletionItem]:
    return [Item(each["name"]) for each in client.get("/workspaces", start=False)["items"]]


def _experiments(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/experiments"
    return [Item(each["name"]) for each in client.get(path, start=False)["items"]]


def _environments(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/environments"
    return [Item(each["name"]) for each in client.get(path, start=False)["items"]]


def _labels(client: Client, session: Session, name: str) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/environments/{quote(name)}"
    versions = client.get(path, start=False)["items"]
    return [
        Item(label, help=f"version {each['version']}")
        for each in versions
        for label in each["labels"]
    ]


def _nodes(client: Client, session: Session, name: str) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/computes/{quote(name)}/nodes"
    nodes = client.get(path, start=False)["items"]
    return [Item(each["name"], help=each["state"]) for each in nodes]


def _sizes(client: Client, site: str) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/sites/{quote(site)}/sizes"
    return [Item(each["name"]) for each in client.get(path, start=False)["items"]]


def _workspace(client: Client, session: Session) -> str:
    return choose_workspace(session.settings, lambda: client).name


def _targets(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/computes"
    return [
        Item(each["name"], help=each["type"]) for each in client.get(path, start=False)["items"]
    ]


def _sites(client: Client, session: Session) -> List[CompletionItem]:
    return [Item(each["name"]) for each in client.get("/sites", start=False)["items"]]


def _metrics(client: Client, session: Session) -> List[CompletionItem]:
    """Those of the newest runs."""
    from ..sdk.client import quote

    path = f"/workspaces/{quote(_workspace(client, session))}/runs"
    runs = client.get(path, {"limit": _NEWEST, "include": "metrics"}, start=False)["items"]
    names = dict.fromkeys(name for run in runs for name in run["metrics"])
    return [Item(name) for name in names if " " not in name]


def _orders(client: Client, session: Session) -> List[CompletionItem]:
    fields = ("submitted_at", "started_at", "ended_at", "number", "status", "display_name")
    names = [f"metrics.{item.value}" for item in _metrics(client, session)]
    return [Item(f"{sign}{name}") for sign in ("", "-") for name in (*names, *fields)]


_KINDS: Dict[str, Callable[[Client, Session], List[CompletionItem]]] = {
    "runs": _runs,
    "workspaces": _workspaces,
    "experiments": _experiments,
    "environments": _environments,
    "targets": _targets,
    "sites": _sites,
    "metrics": _metrics,
    "orders": _orders,
}
