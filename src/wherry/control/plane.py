"""The control plane's parts in one place: what every decision needs."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from wherry.blobs.base import BlobStore, LogStore
from wherry.blobs.folder import FolderLogStore
from wherry.blobs.opening import open_blobs
from wherry.blobs.partials import Partials
from wherry.core import private_files
from wherry.core.errors import ServerUnavailableError, WherryError
from wherry.core.settings import Settings
from wherry.core.sizes import parse_bytes
from wherry.core.targets import CONTAINER_INSTANCE, LOCAL
from wherry.core.trees import Tree
from wherry.core.vm_sizes import Size
from wherry.drivers.base import Closing, Driver, Health
from wherry.drivers.container_instances import ContainerInstances
from wherry.drivers.local import LocalDriver
from wherry.store import tokens, workspaces
from wherry.store.database import Database, sqlite_url
from wherry.store.migrate import migrate

from .claims import Claim
from .hearing import Hearing
from .instance_codes import Codes
from .recent import Recent
from .resealing import seal_all
from .sightings import Place, Sighting
from .signals import Signals
from .store_choice import check_store
from .traffic import Traffic

DEFAULT_WORKSPACE = "default"
_MAX_OWNER = 64
_KEY_BYTES = 32
# Longer than any pause between passes, shorter than the silence that counts.
ABSENCE = timedelta(seconds=45)


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass
class Plane:
    """``hint`` wakes the reconciler of a target, ``hint_queued`` where a new run may be news to it.

    ``computes_changed`` has reconcilers made and stopped as compute targets come and go.
    ``problems`` says of targets what keeps them from working, ``rooms`` of clusters how many more
    nodes their sites could give, ``shortages`` of dedicated ones how many their sites lack,
    and ``claims`` what of it the others there are to give back.

    Silence counts from ``attentive_since`` on: the start, or the end of a pause in which the
    server itself could not hear (a suspended machine, a stopped process). ``last_pass`` is when a
    reconciler last looked. ``good_attempts`` says until when their tokens are known to be good.
    Who gives away ``room`` of this machine holds that, since several targets share it; those of
    them that are ``at_rest`` surely have no attempts.
    """

    settings: Settings
    database: Database
    blobs: BlobStore
    logs: LogStore
    drivers: Mapping[str, Driver]
    secret: bytes
    url: str = ""
    now: Callable[[], datetime] = _now
    signals: Signals = field(default_factory=Signals)
    hint: Callable[[str], None] = lambda _target: None
    hint_queued: Callable[[str], None] = lambda _target: None
    computes_changed: Callable[[], None] = lambda: None
    problems: dict[str, str] = field(default_factory=dict)
    rooms: dict[str, int] = field(default_factory=dict)
    shortages: dict[str, tuple[str, Size, int]] = field(default_factory=dict)
    claims: dict[str, Claim] = field(default_factory=dict)
    doings: dict[str, str] = field(default_factory=dict)  # what is being done for a node
    local_health: tuple[float, Health] | None = None
    machines: dict[str, Health] = field(default_factory=dict)  # of attached ones, as last seen
    sightings: dict[Place, Sighting] = field(default_factory=dict)
    started_at: datetime = field(default_factory=_now)
    attentive_since: datetime = field(default_factory=_now)
    hearing: Hearing = field(default_factory=Hearing)
    last_pass: datetime | None = None
    good_attempts: dict[str, datetime] = field(default_factory=dict)
    traffic: dict[str, Traffic] = field(default_factory=dict)  # by target, through the proxy
    codes: Codes = field(default_factory=Codes)
    recent_trees: Recent[Tree] = field(default_factory=lambda: Recent(8))
    recent_archives: Recent[bytes | None] = field(default_factory=lambda: Recent(32))
    at_rest: set[str] = field(default_factory=set)
    room: threading.Lock = field(default_factory=threading.Lock)
    partials: Partials = field(init=False)
    _pending: threading.local = field(default_factory=threading.local)

    def __post_init__(self) -> None:
        self.partials = Partials(Path(self.settings.home, "blobs", "partial"), self.blobs)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction. Those who wait are told of its changes once it is on disk."""
        changed: list[str] = []
        self._pending.run_ids = changed
        try:
            with self.database.write() as connection:
                yield connection
        finally:
            self._pending.run_ids = None
        for run_id in changed:
            self.signals.notify(run_id)

    def changed(self, run_id: str) -> None:
        """Tell those who wait for the run: now, or when this thread's transaction is done."""
        pending: list[str] | None = getattr(self._pending, "run_ids", None)
        if pending is None:
            self.signals.notify(run_id)
        else:
            pending.append(run_id)

    @property
    def owner(self) -> str:
        """Who holds leases. A server started again is the same owner: one at a time has a home."""
        if not self.settings.database_url:
            return "home"  # whose lock there is; a laptop's name changes with its network
        name = f"{socket.gethostname()}:{self.settings.home}"
        if len(name) <= _MAX_OWNER:
            return name
        return f"{name[:31]}~{hashlib.sha256(name.encode()).hexdigest()[:32]}"

    @property
    def server_id(self) -> str:
        """What every answer carries, for ever the same: an address may become another home's."""
        return hmac.new(self.secret, b"server", hashlib.sha256).hexdigest()[:32]

    def close(self) -> None:
        for driver in self.drivers.values():
            if isinstance(driver, Closing):
                driver.close()
        self.database.close()


def open_plane(settings: Settings) -> Plane:
    """Everything from one home folder, migrated and ready."""
    home = Path(settings.home)
    private_files.make_home(settings.home)
    for name in ("blobs", "logs", "nodes"):
        private_files.make_folder(str(home / name))
    database = Database(settings.database_url or _sqlite(home / "wherry.db"))
    secret = _key(home / "secret.key")
    try:
        seal_all(database, secret)
        migrate(database)
    except SQLAlchemyError as error:
        cause = error.orig if isinstance(error, DBAPIError) else error
        raise ServerUnavailableError(
            f"the database {database.name} cannot be used: {_first_line(cause)}",
            hint="WHERRY_DATABASE_URL names another; empty, it is a file in WHERRY_HOME",
        ) from None
    blobs = open_blobs(settings.blobs, home / "blobs")
    check_store(database, blobs, settings.blobs, home)
    plane = Plane(
        settings=settings,
        database=database,
        blobs=blobs,
        logs=FolderLogStore(home / "logs"),
        drivers=_drivers(settings),
        secret=secret,
    )
    owner_token = _secret_file(home / "token")
    with database.write() as connection:
        tokens.ensure(connection, "owner", owner_token, plane.now())
        if workspaces.find(connection, DEFAULT_WORKSPACE) is None:
            workspaces.create(connection, DEFAULT_WORKSPACE, plane.now(), "", {})
    return plane


def _sqlite(path: Path) -> str:
    if not path.exists():  # made here, for its mode: what SQLite puts beside it gets the same
        os.close(private_files.open_private(str(path), os.O_RDWR))
    return sqlite_url(path)


def _first_line(cause: object) -> str:
    return str(cause).strip().split("\n")[0]


def _drivers(settings: Settings) -> dict[str, Driver]:
    """This machine's: runs as they are, and in containers."""
    nodes = Path(settings.home) / "nodes"
    owned: dict[str, Any] = {
        "cpus": settings.local_cpus,
        "memory_bytes": parse_bytes(settings.local_memory) if settings.local_memory else None,
        "gpus": settings.local_gpus,
    }
    return {
        LOCAL: LocalDriver(nodes / LOCAL, **owned),
        CONTAINER_INSTANCE: ContainerInstances(nodes / CONTAINER_INSTANCE, **owned),
    }


def _secret_file(path: Path) -> str:
    """64 hexadecimal digits, made once, readable by the owner alone."""
    found = private_files.read_secret(str(path))
    if found is None:
        private_files.make_secret(str(path), secrets.token_hex(32))
        found = private_files.read_secret(str(path))
    if not found:
        raise WherryError(f"{path} is empty", hint="remove it: a new one is made")
    return found


def _key(path: Path) -> bytes:
    try:
        key = bytes.fromhex(_secret_file(path))
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES:
        raise WherryError(
            f"{path} does not hold the {2 * _KEY_BYTES} hexadecimal digits that it was made with",
            hint="put it back from a backup. If it is lost, remove it: a new one is made, but runs "
            "that go on cannot report then, and variables that were sealed stay so",
        )
    return key
