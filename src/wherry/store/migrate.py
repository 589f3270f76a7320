"""Brings a database to the present schema, under a lock, on start."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from wherry.core.errors import WherryError
from wherry.core.version import VERSION

from .database import Database

HEAD = "0019"
_LOCK = 0x57686572


def migrate(database: Database, revision: str = HEAD) -> None:
    """Apply what is missing; a database from a newer Wherry is refused."""
    with database.write() as connection:
        if not database.is_sqlite:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        present = _present(connection)
        if present == revision:
            return
        # Alembic takes a third of a second to import: only when there is something to do.
        from alembic import command
        from alembic.config import Config
        from alembic.script import ScriptDirectory

        config = Config()
        config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
        script = ScriptDirectory.from_config(config)
        known = {revision.revision for revision in script.walk_revisions()}
        if present is not None and present not in known:
            raise WherryError(
                f"the database {database.name} is at revision {present}, which Wherry {VERSION} "
                "does not know",
                hint="a newer Wherry has written it: pip install --upgrade 'wherry[server]', or "
                "name another folder with WHERRY_HOME",
            )
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def present_revision(database: Database) -> str | None:
    """What the database was last brought to; None if it is new."""
    with database.read() as connection:
        return _present(connection)


def _present(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
