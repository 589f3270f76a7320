"""``python -m wherry.api``: the server of one home, until it is told to stop."""

from __future__ import annotations

import asyncio
import fcntl
import gc
import json
import logging
import os
import socket
import sys
import time
from pathlib import Path
from typing import IO

import uvicorn
import uvloop

from wherry.control.plane import Plane, open_plane
from wherry.control.target_lease import claim_targets
from wherry.core import private_files
from wherry.core.errors import ServerUnavailableError, UserErrorException, WherryError
from wherry.core.records import iso
from wherry.core.settings import FILE_NAME, Settings, home_of, resolve
from wherry.core.version import API, VERSION

from .app import create_app
from .connections import configured, watch

log = logging.getLogger("wherry")
# How long one thread keeps the interpreter while others wait: a tenth of what Python allows, since
# a request changes threads twice and would wait for its turn each time.
_TURN_S = 0.0005
_DYING_S = 2.0


def main() -> int:
    try:
        settings = _settings()
        logging.basicConfig(
            level=settings.log_level.upper(),
            format="%(asctime)s %(levelname)s %(name)s: %(message)s",
            stream=sys.stderr,
        )
        for talkative in ("alembic.runtime.plugins", "asyncssh"):
            logging.getLogger(talkative).setLevel(logging.WARNING)
        return _serve(settings)
    except WherryError as error:
        return _fail(str(error))
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        reason = (error.strerror or str(error)).lower()
        return _fail(f"{place}{reason}\n\nhint: WHERRY_HOME names another folder")
    except Exception as error:
        log.exception("the server cannot start")
        return _fail(f"unexpected {type(error).__name__}: {error}")


def _fail(sentence: str) -> int:
    """The last that is written: whoever started the server in the background repeats it."""
    sys.stderr.write(f"\nerror: {sentence}\n")
    return ServerUnavailableError.exit_code


def _settings() -> Settings:
    env = dict(os.environ)
    path = Path(home_of({}, env)) / FILE_NAME
    try:
        text = path.read_text(encoding="utf-8") if path.exists() else None
    except UnicodeDecodeError:
        raise UserErrorException(
            f"the settings file {path} cannot be read: it is not a text file in UTF-8",
            hint="move it away, or write one 'name = value' on each line",
        ) from None
    if text:
        private_files.check_settings(str(path), text)
    return resolve({}, env, text)


def _serve(settings: Settings) -> int:
    home = Path(settings.home)
    private_files.make_home(settings.home)
    with os.fdopen(private_files.open_private(str(home / "server.lock"), os.O_RDWR), "w") as lock:
        _claim(lock, home)
        plane = open_plane(settings)
        claim_targets(plane)
        listener = _listen(settings, home / "server.json")
        plane.url = f"http://{settings.host}:{listener.getsockname()[1]}"
        gc.freeze()
        sys.setswitchinterval(_TURN_S)
        uvloop.run(_run(plane, listener, home / "server.json"))
    return 0


def _claim(lock: IO[str], home: Path) -> None:
    """A server that was killed may hold its files for a moment after it looks dead."""
    until = time.monotonic() + _DYING_S
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise ServerUnavailableError(
                    f"another server looks after {home}, and does not answer",
                    hint="wherry server status says how it is, wherry server stop ends it",
                ) from None
        time.sleep(0.05)


async def _run(plane: Plane, listener: socket.socket, address_file: Path) -> None:
    server = uvicorn.Server(configured(create_app(plane), plane.server_id))
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    watching = asyncio.create_task(watch(server.server_state.connections))
    while not server.started and not serving.done():
        await asyncio.sleep(0.005)
    if server.started:
        _publish(plane, address_file)
        log.info("serving %s at %s", plane.settings.home, plane.url)
    try:
        await serving
    finally:
        watching.cancel()
        log.info("stopped")


def _listen(settings: Settings, address_file: Path) -> socket.socket:
    """The configured port, or the last one, or any: runners remember where they reported to."""
    # Named, since asyncio turns off Nagle's algorithm only where the protocol says TCP.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    last = _last_port(address_file)
    try:
        _bind(listener, settings.host, settings.port or last)
    except ServerUnavailableError:
        if settings.port:
            raise
        _bind(listener, settings.host, 0)
    return listener


def _bind(listener: socket.socket, host: str, port: int) -> None:
    try:
        listener.bind((host, port))
    except OSError as error:
        what = f"port {port} of {host}" if port else f"the address {host}"
        raise ServerUnavailableError(
            f"{what} cannot be used: {(error.strerror or str(error)).lower()}",
            hint="WHERRY_HOST and WHERRY_PORT name the address; unset, any free port is taken",
        ) from None


def _last_port(address_file: Path) -> int:
    try:
        return int(json.loads(address_file.read_text())["url"].rsplit(":", 1)[1])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return 0


def _publish(plane: Plane, address_file: Path) -> None:
    facts = {
        "url": plane.url,
        "id": plane.server_id,
        "pid": os.getpid(),
        "version": VERSION,
        "api": API,
        "started_at": iso(plane.started_at),
    }
    temporary = address_file.with_suffix(".tmp")
    descriptor = private_files.open_private(str(temporary), os.O_WRONLY | os.O_TRUNC)
    with os.fdopen(descriptor, "w") as file:
        json.dump(facts, file)
    temporary.replace(address_file)


if __name__ == "__main__":
    sys.exit(main())
