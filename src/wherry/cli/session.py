"""What every command shares: the settings, the server, and the two ways to speak."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Optional

import click

if TYPE_CHECKING:
    from ..core.settings import Settings
    from ..sdk.client import Client
    from ..sdk.run import Run
    from ..sdk.workspace import Workspace


class ReaderGone(Exception):
    """Whoever read our output, such as ``head``, has had enough."""


FORMATS = ("table", "json", "yaml", "tsv")


class Session:
    """One call of ``wherry``. Options fill it in; what costs time is loaded when it is used."""

    def __init__(self, client: Optional[Client] = None) -> None:
        self.flags: Dict[str, Any] = {}
        self.query: Optional[str] = None
        self.quiet = False
        self.debug = False
        self.color: Optional[bool] = None
        self._client = client
        self._settings: Optional[Settings] = None
        self._workspace: Optional[Workspace] = None

    @property
    def settings(self) -> Settings:
        if self._settings is None:
            from ..sdk.settings import load

            self._settings = load(**self.flags)
        return self._settings

    @property
    def output(self) -> str:
        return self.settings.output

    @property
    def asked_for_data(self) -> bool:
        """Whether this call, not a setting, asks for a record in a form that programs read."""
        return self.query is not None or self.flags.get("output") not in (None, "table")

    @property
    def client(self) -> Client:
        if self._client is None:
            from ..sdk.connection import connect

            self._client = connect(self.settings)
        return self._client

    @property
    def workspace(self) -> Workspace:
        """The workspace of this call; it is not looked up before something in it is asked for."""
        if self._workspace is None:
            from ..sdk.workspace import Workspace

            self._workspace = Workspace(
                workspace_name=self.settings.workspace,
                _disable_service_check=True,
                _client=self.client,
            )
        return self._workspace

    def run(self, text: Optional[str]) -> Run:
        """The run that an id, a part of one or a name means; without any, the newest."""
        if text:
            return self.workspace.resolve_run(text)
        newest = self.workspace.list_runs(limit=1).items
        if not newest:
            from ..core.errors import NotFoundError

            raise NotFoundError(
                f"workspace {self.workspace.name!r} has no runs yet",
                hint="start one with: wherry run train.py",
            )
        return self.workspace.get_run(newest[0]["id"])

    def runs(self, texts: List[str]) -> List[Run]:
        """All of them looked up before anything is done to the first."""
        found = {run.id: run for run in [self.run(text) for text in texts]}
        return list(found.values())

    def say(self, sentence: str) -> None:
        """Talk: to stderr, unless --quiet."""
        if not self.quiet:
            self.write_error(f"wherry: {sentence}")

    def write(self, text: str, *, newline: bool = True) -> None:
        """Data: to stdout."""
        with reading():
            click.echo(text, nl=newline, color=self.color)

    def write_error(self, text: str) -> None:
        with suppress(OSError, ValueError):  # nobody listens
            click.echo(text, err=True, color=self.color)

    def style(self, text: str, **style: Any) -> str:
        return click.style(text, **style) if style and self.color is not False else text

    def on_terminal(self) -> bool:
        """Whether someone watches stderr."""
        return not self.quiet and sys.stderr.isatty()


@contextmanager
def reading() -> Iterator[None]:
    """Around every write to stdout. Not as ``BrokenPipeError``, which click takes for its own."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
