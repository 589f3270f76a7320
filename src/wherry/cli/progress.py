"""Progress on stderr: only where someone watches, only when it takes more than a second."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator, Optional, Type, cast

from ..core.sizes import format_bytes
from .session import Session

if TYPE_CHECKING:
    from ..sdk.client import Client

_AFTER_S = 1.0


class Progress:
    """A line that says what is done and how far it has come.

    >>> with Progress(session, "fetching") as progress:
    ...     progress.step(done, total)
    """

    def __init__(self, session: Session, what: str) -> None:
        self._what = what
        self._done, self._total = 0, 0
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None
        self._timer = threading.Timer(_AFTER_S, self._show) if session.on_terminal() else None

    def say(self, what: str) -> None:
        """Something else is done now."""
        with self._lock:
            self._what, self._done, self._total = what, 0, 0
            self._update()

    def step(self, done: int, total: int) -> None:
        with self._lock:
            self._done, self._total = done, total
            self._update()

    def __enter__(self) -> Progress:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )
        from rich.progress import Progress as Bar

        bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("{task.fields[amount]}", markup=False),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
            redirect_stdout=False,
        )
        with self._lock:
            if self._timer is None:
                return
            self._bar, self._task = bar, bar.add_task(self._what, total=None, amount="")
            self._update()
            bar.start()

    def _update(self) -> None:
        if self._bar is not None:
            self._bar.update(
                self._task,
                description=self._what,
                completed=self._done,
                total=self._total or None,
                amount=self._amount(),
            )

    def _amount(self) -> str:
        if not self._total:
            return ""
        return f"{format_bytes(self._done)} of {format_bytes(self._total)}"


class _Sending:
    """A client that tells how much of a snapshot it has sent."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client = client
        self._progress = progress
        self._done = self._total = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def post(self, path: str, json: Any = None, **options: Any) -> Any:
        if path == "/blobs":
            options["data"] = _Counted(options["data"], self._done, self._count)
            answer = self._client.post(path, json, **options)
            self._done += int(options["length"])
            return answer
        answer = self._client.post(path, json, **options)
        if path.endswith("/snapshots") and answer["missing"]:
            sizes = {file["digest"]: int(file["size"]) for file in json["files"]}
            self._total = self._done + sum(sizes.get(digest, 0) for digest in answer["missing"])
            self._progress.say("sending files")
        return answer

    def _count(self, done: int) -> None:
        self._progress.step(done, max(self._total, done))


class _Counted:
    """Content to be sent; it may be sent again from its start."""

    def __init__(self, content: Any, before: int, count: Any) -> None:
        self._content = content
        self._before = before
        self._count = count

    def __iter__(self) -> Iterator[bytes]:
        done = self._before
        for piece in self._content:
            yield piece
            done += len(piece)
            self._count(done)


def sending(client: Client, progress: Progress) -> Client:
    """The client, with its uploads shown."""
    return cast("Client", _Sending(client, progress))
