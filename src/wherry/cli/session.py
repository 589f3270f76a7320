"""What every command shares: the settings, the server, and the two ways to speak."""

from __future__ import annotations

import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, NamedTuple, Optional

import click

if TYPE_CHECKING:
    from ..core.settings import Settings
    from ..sdk.client import Client
    from ..sdk.run import Run
    from ..sdk.workspace import Workspace


class ReaderGone(Exception):
    """Whoever read our output, such as ``head``, has had enough."""


FORMATS = ("table", "json", "yaml", "tsv")
_NAMED = 5


class Choice(NamedTuple):
    """A workspace, and what chose it: a word of the settings, or the path of a file."""

    name: str
    origin: str


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
        self._choice: Optional[Choice] = None
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

    def reach(self, timeout_s: float) -> Optional[Client]:
        """A client with little patience that starts no server; None where none runs."""
        if self._client is None:
            from ..sdk.client import Address, Client
            from ..sdk.connection import home_server

            settings = self.settings
            address = Address(settings.server, settings.token) if settings.server else None
            found = address or home_server(settings).find()
            return Client(found, timeout_s=timeout_s) if found is not None else None
        return self._client

    @property
    def choice(self) -> Choice:
        """The workspace of this call."""
        if self._choice is None:
            from ..core.ids import check_name

            self._choice = choose_workspace(self.settings, lambda: self.client)
            check_name("workspace", self._choice.name)
        return self._choice

    @property
    def workspace(self) -> Workspace:
        """The workspace of this call; it is not looked up before something in it is asked for."""
        if self._workspace is None:
            from ..sdk.workspace import Workspace

            self._workspace = Workspace(
                workspace_name=self.choice.name,
                _disable_service_check=True,
                _client=self.client,
            )
        return self._workspace

    def run(self, text: Optional[str]) -> Run:
        """The run that an id, a part of one or a name means; without any, the newest.

        A whole id is found in any workspace, the rest in that of this call.
        """
        from ..core.errors import NotFoundError, UserErrorException

        if text is not None:
            if "/" in text:
                raise NotFoundError(
                    f"workspace {self.workspace.name!r} has no run {text!r}",
                    hint="wherry ps lists the runs",
                )
            try:
                return self.workspace.resolve_run(text)
            except NotFoundError:
                with suppress(UserErrorException):  # no such id either, or no id at all
                    return self.workspace.get_run(text)
                raise
        newest = self.workspace.list_runs(limit=1).items
        if not newest:
            hints = ["start one with: wherry run train.py", self.elsewhere()]
            raise NotFoundError(
                f"workspace {self.workspace.name!r} has no runs yet",
                hint="; ".join(each for each in hints if each),
            )
        return self.workspace.get_run(newest[0]["id"])

    def elsewhere(self) -> str:
        """Which other workspaces there are and how to look there; nothing where there are none."""
        items = self.client.get("/workspaces")["items"]
        names = [each["name"] for each in items if each["name"] != self.workspace.name]
        if not names:
            return ""
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        one = names[0] if len(names) == 1 else "NAME"
        return (
            f"there is also {', '.join(names[:_NAMED])}{more}: 'wherry ps -w {one}' looks there, "
            f"'wherry workspace use {one}' makes it the one in use"
        )

    def runs(self, texts: List[str]) -> List[Run]:
        """All of them looked up before anything is done to the first."""
        found = {run.id: run for run in [self.run(text) for text in texts]}
        return list(found.values())

    def way_in(self, hint: Optional[str]) -> Optional[str]:
        """How to be let in by the server that this call talks to."""
        with suppress(Exception):  # an error is being told already
            server, home = self.settings.server, self.settings.home
            if server:
                return (
                    f"WHERRY_TOKEN must hold the token of {server}: the file 'token' in the home "
                    "of that server"
                )
            if hint and "WHERRY_HOME/token" in hint:
                return (
                    f"{home}/token is not the token that this server has: wherry server stop, "
                    "and the next one takes it"
                )
        return hint

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


def choose_workspace(settings: Settings, client: Callable[[], Optional[Client]]) -> Choice:
    """What an option, WHERRY_WORKSPACE or 'workspace use' says; else a ``config.json`` from here
    upwards, if it names a workspace of this server; else the default.

    ``client`` is asked for only where there is such a file. Without one the file is believed.
    """
    from ..core.errors import NotFoundError
    from ..core.settings import DEFAULT
    from ..sdk import config_file
    from ..sdk.client import quote

    chosen = Choice(settings.workspace, settings.origin("workspace"))
    if chosen.origin != DEFAULT:
        return chosen
    found = config_file.naming_a_workspace(settings.server)
    if found is None:
        return chosen
    path, file = found
    server = client()
    try:
        if server is not None:
            server.get(f"/workspaces/{quote(file.workspace_name)}")
    except NotFoundError:
        return chosen
    return Choice(file.workspace_name, path)


@contextmanager
def reading() -> Iterator[None]:
    """Around every write to stdout. Not as ``BrokenPipeError``, which click takes for its own."""
    try:
        yield
    except BrokenPipeError:
        raise ReaderGone from None
    except OSError as error:
        error.filename = error.filename or "the output"
        raise
