"""What the shell may complete to. Quick and silent: it starts no server and tells no error."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Callable, Dict, Iterator, List, Optional

from click.shell_completion import CompletionItem

from .session import Session

if TYPE_CHECKING:
    from ..sdk.client import Client

_PATIENCE_S = 1.0
_MANY = 100

Item = CompletionItem


def find(what: str, session: Session, incomplete: str) -> List[CompletionItem]:
    try:
        with _limit(_PATIENCE_S):
            client = _client(session)
            items = _KINDS[what](client, session) if client is not None else []
    except Exception:  # noqa: BLE001 - a shell waits for a key: nothing may be said here
        return []
    return [item for item in items if str(item.value).startswith(incomplete)]


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


def _client(session: Session) -> Optional[Client]:
    """A client of the server that runs, with little patience."""
    if session._client is not None:
        return session._client
    from ..sdk.client import Address, Client
    from ..sdk.connection import home_server

    settings = session.settings
    address = Address(settings.server, settings.token) if settings.server else None
    found = address or home_server(settings).find()
    return Client(found, timeout_s=_PATIENCE_S) if found is not None else None


def _runs(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(session.settings.workspace)}/runs"
    runs = client.get(path, {"limit": _MANY}, start=False)["items"]
    named = [Item(run["display_name"], help=run["id"]) for run in runs if run["display_name"]]
    return [Item(run["id"], help=run["status"]) for run in runs] + [
        item for item in named if " " not in str(item.value)
    ]


def _workspaces(client: Client, session: Session) -> List[CompletionItem]:
    return [Item(each["name"]) for each in client.get("/workspaces", start=False)["items"]]


def _experiments(client: Client, session: Session) -> List[CompletionItem]:
    from ..sdk.client import quote

    path = f"/workspaces/{quote(session.settings.workspace)}/experiments"
    return [Item(each["name"]) for each in client.get(path, start=False)["items"]]


def _targets(client: Client, session: Session) -> List[CompletionItem]:
    return [Item(each["name"]) for each in client.get("/targets", start=False)["items"]]


_KINDS: Dict[str, Callable[[Client, Session], List[CompletionItem]]] = {
    "runs": _runs,
    "workspaces": _workspaces,
    "experiments": _experiments,
    "targets": _targets,
}
