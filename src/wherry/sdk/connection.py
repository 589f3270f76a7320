"""Which server to talk to, and with whose token."""

from __future__ import annotations

import os
from json import loads
from typing import Any, Callable, Dict, Optional, Tuple

from ..core.errors import ServerUnavailableError, UserErrorException
from ..core.settings import Settings
from .client import Address, Client
from .server import HomeServer
from .settings import RunContext, load, run_context, server_file

_clients: Dict[Tuple[Any, ...], Client] = {}


def connect(settings: Optional[Settings] = None, server: str = "") -> Client:
    """A client of the server that is meant here; the same one for the same server.

    Inside a run it is the run's server, with the run's token, and none is ever started. Otherwise
    the server that the settings name, else the one of the home folder, which is started if need
    be. ``server`` is what a configuration file asks for: a token is sent only where the settings
    say so themselves, since such files come with other people's folders.
    """
    context = run_context()
    if context is not None:
        return _kept(("run", context.run_id, context.token), lambda: _client_of_run(context))
    settings = settings or load()
    if server and server.rstrip("/") != settings.server:
        raise UserErrorException(
            f"the configuration file names the server {server}, which the settings do not",
            hint=f"if you trust it, set WHERRY_SERVER={server} and WHERRY_TOKEN",
        )
    if settings.server:
        key = ("server", settings.server, settings.token, server_file())
        return _kept(key, lambda: _client_of_settings(settings))
    return _kept(("home", settings.home), lambda: _client_of_home(settings))


def home_server(settings: Optional[Settings] = None) -> HomeServer:
    """The embedded server, to start, stop or look at."""
    settings = settings or load()
    return HomeServer(settings.home, start_timeout_s=settings.start_timeout_s)


def forget() -> None:
    """Close every connection; the next call makes new ones."""
    while _clients:
        _clients.popitem()[1].close()


def _kept(key: Tuple[Any, ...], make: Any) -> Client:
    client = _clients.get(key)
    if client is None:
        client = _clients.setdefault(key, make())
    return client


def _client_of_home(settings: Settings) -> Client:
    server = home_server(settings)
    return Client(
        server.find() or server.ensure(),
        relocate=server.relocate,
        server_file=server.file_path,
        timeout_s=settings.request_timeout_s,
    )


def _client_of_settings(settings: Settings) -> Client:
    """In a compute instance the server's address may change, as it may in a run."""
    path, timeout_s = server_file(), settings.request_timeout_s
    if settings.origin("server") != "environment" or not path:
        return Client(Address(settings.server, settings.token), timeout_s=timeout_s)
    relocate = _following(path, settings.server, settings.token)
    return Client(relocate(False), relocate=relocate, server_file=path, timeout_s=timeout_s)


def _following(path: str, server: str, token: str) -> Callable[[bool], Address]:
    """Where the server is by what it wrote down, else by what was said."""

    def relocate(start: bool) -> Address:
        url, server_id = _written(path)
        return Address(url or server, token, server_id)

    return relocate


def _client_of_run(context: RunContext) -> Client:
    relocate = _following(context.server_file, context.server, context.token)
    address = relocate(False)
    if not address.url:
        raise ServerUnavailableError(
            f"run {context.run_id} was not told where its server is",
            hint="WHERRY_SERVER should hold its address",
        )
    return Client(address, relocate=relocate, server_file=context.server_file)


def _written(path: str) -> Tuple[str, str]:
    """The address and the id that the server wrote down."""
    if not path or not os.path.exists(path):
        return "", ""
    try:
        with open(path, encoding="utf-8") as file:
            info = loads(file.read())
            return str(info.get("url") or ""), str(info.get("id") or "")
    except (OSError, ValueError, AttributeError):
        return "", ""
