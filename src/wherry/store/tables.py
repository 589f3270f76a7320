"""All tables, the same on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    literal_column,
    text,
    type_coerce,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeDecorator

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


class Timestamp(TypeDecorator[datetime]):
    """An aware UTC time, kept as microseconds since 1970: exact, small and sortable anywhere."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> int | None:
        return None if value is None else round(value.timestamp() * 1_000_000)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return None if value is None else datetime.fromtimestamp(value / 1_000_000, UTC)


# SQLite counts by itself only in a column of exactly this type.
RowId = BigInteger().with_variant(Integer, "sqlite")

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False, unique=True),
    Column("description", Text, nullable=False, default=""),
    Column("tags", JSON, nullable=False),
    Column("created_at", Timestamp, nullable=False),
)

experiments = Table(
    "experiments",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("tags", JSON, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("archived_at", Timestamp),
    Column("run_count", Integer, nullable=False, default=0),
    UniqueConstraint("workspace_id", "name"),
)

snapshots = Table(
    "snapshots",
    metadata,
    Column("workspace_id", ForeignKey("workspaces.id"), primary_key=True),
    Column("id", String(64), primary_key=True),
    Column("file_count", Integer, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("base_id", String(64)),
    Column("changes", JSON(none_as_null=True)),
)

environments = Table(
    "environments",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("version", String(255), nullable=False),
    Column("spec", JSON, nullable=False),
    # What the version promises, by the server's key: it may hold a password.
    Column("fingerprint", String(64), nullable=False),
    Column("hash", String(64), nullable=False),
    Column("context_id", String(64)),
    Column("description", Text, nullable=False, default=""),
    Column("tags", JSON, nullable=False),
    Column("created_by", String(255), nullable=False, default=""),
    Column("created_at", Timestamp, nullable=False),
    UniqueConstraint("workspace_id", "name", "version"),
    Index("ix_environments_workspace_id_name_seq", "workspace_id", "name", "seq"),
    Index("ix_environments_context_id", "context_id"),
)

environment_labels = Table(
    "environment_labels",
    metadata,
    Column("workspace_id", ForeignKey("workspaces.id"), primary_key=True),
    Column("name", String(255), primary_key=True),
    Column("label", String(255), primary_key=True),
    Column("version", String(255), nullable=False),
)

# Files for environments, by content: of one name there may be several.
wheels = Table(
    "wheels",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("digest", String(64), nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    Column("created_by", String(255), nullable=False, default=""),
    Column("created_at", Timestamp, nullable=False),
    UniqueConstraint("workspace_id", "digest", "name"),
    Index("ix_wheels_workspace_id_name", "workspace_id", "name"),
)

runs = Table(
    "runs",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("id", String(300), nullable=False, unique=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("experiment_id", ForeignKey("experiments.id"), nullable=False),
    Column("parent_id", String(300)),
    Column("root_id", String(300), nullable=False),
    Column("number", Integer, nullable=False),
    Column("type", String(64)),
    Column("display_name", Text, nullable=False, default=""),
    Column("description", Text, nullable=False, default=""),
    Column("status", String(20), nullable=False),
    Column("reason", String(32)),
    Column("message", Text, nullable=False, default=""),
    Column("error", JSON),
    Column("target", String(255)),
    Column("spec", JSON),
    Column("cpu", Double, nullable=False, default=0.0),
    Column("memory_bytes", BigInteger, nullable=False, default=0),
    Column("gpu", Integer, nullable=False, default=0),
    Column("snapshot_id", String(64)),
    Column("context_id", String(64)),
    Column("submission_key", String(255)),
    Column("submitted_by", String(255), nullable=False, default=""),
    Column("submitted_at", Timestamp, nullable=False),
    Column("started_at", Timestamp),
    Column("ended_at", Timestamp),
    Column("cancel_requested_at", Timestamp),
    Column("archived_at", Timestamp),
    Column("heartbeat_at", Timestamp),
    Column("attempt_count", Integer, nullable=False, default=0),
    Column("version", Integer, nullable=False, default=0),
    # Given by the database: most runs have none of these.
    Column("node_count", Integer, nullable=False, server_default="1"),
    Column("priority", Integer, nullable=False, server_default="0"),
    Column("preemptions", Integer, nullable=False, server_default="0"),
    # Of the command, where it has one.
    Column("limit_s", Double),
    UniqueConstraint("workspace_id", "submission_key"),
    Index("ix_runs_workspace_id_seq", "workspace_id", "seq"),
    Index("ix_runs_experiment_id_seq", "experiment_id", "seq"),
    Index("ix_runs_target_status_seq", "target", "status", "seq"),
    Index("ix_runs_workspace_id_status_seq", "workspace_id", "status", "seq"),
    Index("ix_runs_workspace_id_target_seq", "workspace_id", "target", "seq"),
    Index("ix_runs_workspace_id_type_seq", "workspace_id", "type", "seq"),
    Index("ix_runs_experiment_id_status_seq", "experiment_id", "status", "seq"),
    Index("ix_runs_parent_id_seq", "parent_id", "seq"),
    Index("ix_runs_snapshot_id", "snapshot_id"),
)


def _partial(name: str, condition: str, *columns: str) -> None:
    """An index of the rows alone that questions about them look for."""
    chosen = [runs.c[column] for column in columns]
    Index(name, *chosen, sqlite_where=text(condition), postgresql_where=text(condition))


_partial("ix_runs_listed", "parent_id IS NULL AND archived_at IS NULL", "workspace_id", "seq")
_partial("ix_runs_archived", "archived_at IS NOT NULL", "workspace_id", "seq")
_partial("ix_runs_open", "ended_at IS NULL", "status")
_partial("ix_runs_context_id", "context_id IS NOT NULL", "context_id")
_partial("ix_runs_canceling", "cancel_requested_at IS NOT NULL", "workspace_id", "status", "seq")
_partial("ix_runs_canceling_on", "cancel_requested_at IS NOT NULL", "target", "status", "seq")
_partial("ix_runs_preferred", "priority <> 0", "target", "status", "priority", "seq")


def head_of(text: Any) -> ColumnElement[str]:
    """As much of a text as an index of PostgreSQL holds."""
    return func.substr(text, literal_column("1"), literal_column("100"))


def equals(text: Any, value: str) -> list[ColumnElement[bool]]:
    """Conditions that an index of the text's head serves.

    Of a long text in two halves: told that the whole is equal, SQLite no longer sees the index'
    expression.
    """
    head = head_of(text) == value[:100]
    rest = func.substr(text, literal_column("101"))
    return [head] if len(value) < 100 else [head, rest == value[100:]]


class bytewise(FunctionElement[str]):
    """A text that is compared byte by byte, whatever language the database was made for."""

    type = String()
    inherit_cache = True


@compiles(bytewise)
def _plain(element: bytewise, compiler: Any, **options: Any) -> str:
    return str(compiler.process(element.clauses, **options))


@compiles(bytewise, "postgresql")
def _collated(element: bytewise, compiler: Any, **options: Any) -> str:
    return f'({compiler.process(element.clauses, **options)} COLLATE "C")'


def ending_of(run_id: Any) -> ColumnElement[str]:
    """What follows the last underscore: by its random digits people know a run."""
    others = func.replace(run_id, literal_column("'_'"), literal_column("''"))
    head = func.length(func.rtrim(run_id, others))
    return func.substr(run_id, head + literal_column("1"))


def _or_zero(moment: Column[Any]) -> ColumnElement[int]:
    return func.coalesce(type_coerce(moment, BigInteger), literal_column("0"))


# What listings are ordered by; literals, since an index serves only the very same expression.
ORDERS: dict[str, ColumnElement[Any]] = {
    "submitted_at": runs.c.seq,
    "number": runs.c.number,
    "started_at": _or_zero(runs.c.started_at),
    "ended_at": _or_zero(runs.c.ended_at),
    "status": runs.c.status,
    "display_name": head_of(runs.c.display_name),
}
Index("ix_runs_by_number", runs.c.workspace_id, ORDERS["number"], runs.c.seq)
Index("ix_runs_by_started", runs.c.workspace_id, ORDERS["started_at"], runs.c.seq)
Index("ix_runs_by_ended", runs.c.workspace_id, ORDERS["ended_at"], runs.c.seq)
Index("ix_runs_by_display_name", runs.c.workspace_id, ORDERS["display_name"], runs.c.seq)
Index("ix_runs_by_id", runs.c.workspace_id, head_of(bytewise(runs.c.id)))
Index("ix_runs_by_ending", runs.c.workspace_id, ending_of(runs.c.id))

# How many runs ended how: each end adds a row, and now and then they are summed up. One row that
# everybody adds to would make everybody wait.
tallies = Table(
    "tallies",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("status", String(20), nullable=False),
    Column("change", Integer, nullable=False),
)

labels = Table(
    "run_labels",
    metadata,
    Column("run_seq", ForeignKey("runs.seq"), primary_key=True),
    Column("kind", String(8), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("value", Text, nullable=False),
)
Index(
    "ix_run_labels_by_value",
    labels.c.kind,
    labels.c.key,
    head_of(labels.c.value),
    labels.c.run_seq,
)

attempts = Table(
    "attempts",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("run_id", String(300), nullable=False),
    Column("number", Integer, nullable=False),
    Column("target", String(255), nullable=False),
    Column("handle", Text),
    Column("stage", String(16)),
    Column("exit", JSON),
    Column("phase", String(16), nullable=False, default="unknown"),
    Column("detail", Text, nullable=False, default=""),
    Column("cpu", Double, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("gpus", JSON, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("heartbeat_at", Timestamp),
    Column("gone_since", Timestamp),
    Column("cancel_sent_at", Timestamp),
    Column("force_sent_at", Timestamp),
    Column("ended_at", Timestamp),
    Column("released_at", Timestamp),
    # Which of the run's nodes; each has a row of its own, with the same number.
    Column("rank", Integer, nullable=False, server_default="0"),
    Column("node_id", String(36)),
    Column("stop_wanted_at", Timestamp),
    Column("stop_reason", String(32)),
    # The ports of a node of a distributed run: one to meet at, one for each process.
    Column("meeting", JSON(none_as_null=True)),
    # Of one that fills a gap: by then its command runs, or it gives its nodes back.
    Column("ready_by", Timestamp),
    UniqueConstraint("run_id", "number", "rank"),
    Index("ix_attempts_target_released_at_ended_at", "target", "released_at", "ended_at"),
)

events = Table(
    "events",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("run_id", String(300), nullable=False, index=True),
    Column("at", Timestamp, nullable=False),
    Column("from_status", String(20)),
    Column("to_status", String(20), nullable=False),
    Column("reason", String(32)),
    Column("message", Text, nullable=False, default=""),
)

files = Table(
    "files",
    metadata,
    Column("run_id", String(300), primary_key=True),
    Column("path", String(1024), primary_key=True),
    Column("digest", String(64), nullable=False, index=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
    # Which node of the run it comes from.
    Column("rank", Integer, nullable=False, server_default="0"),
)

# What a run logged under one name. ``last_*`` are of the point with the highest step, and of those
# the youngest: MLflow's rule. ``last_data`` is what a double does not hold exactly.
series = Table(
    "metric_series",
    metadata,
    Column("id", RowId, primary_key=True, autoincrement=True),
    Column("run_seq", ForeignKey("runs.seq"), nullable=False),
    Column("experiment_id", String(36), nullable=False),
    Column("name", String(1000), nullable=False),
    Column("kind", String(8), nullable=False),
    Column("point_count", BigInteger, nullable=False),
    # Where the last chunk begins; the count where the next point begins one.
    Column("tail_seq", BigInteger, nullable=False),
    Column("newest_at", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    Column("last_value", Double),
    Column("last_data", Text),
    UniqueConstraint("run_seq", "name"),
)
Index(
    "ix_metric_series_by_value",
    series.c.experiment_id,
    head_of(series.c.name),
    series.c.last_value,
    series.c.run_seq,
    sqlite_where=text("last_value IS NOT NULL"),
    postgresql_where=text("last_value IS NOT NULL"),
)

# Its points, thousands to a row: see ``points.py``.
chunks = Table(
    "metric_chunks",
    metadata,
    Column("metric_id", ForeignKey("metric_series.id"), primary_key=True),
    Column("seq", BigInteger, primary_key=True),
    Column("count", Integer, nullable=False),
    Column("oldest_at", BigInteger, nullable=False),
    Column("newest_at", BigInteger, nullable=False),
    Column("form", String(1), nullable=False),
    Column("times", LargeBinary, nullable=False),
    Column("steps", LargeBinary),
    Column("data", LargeBinary, nullable=False),
)

streams = Table(
    "streams",
    metadata,
    Column("run_id", String(300), primary_key=True),
    Column("name", String(100), primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
)

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("name", String(255), nullable=False),
    Column("hash", String(64), nullable=False, unique=True),
    Column("created_at", Timestamp, nullable=False),
    Column("revoked_at", Timestamp),
)

leases = Table(
    "leases",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("owner", String(64), nullable=False),
    Column("expires_at", Timestamp, nullable=False),
)

# Where nodes come from. This machine is one without a row.
sites = Table(
    "sites",
    metadata,
    Column("name", String(255), primary_key=True),
    Column("kind", String(32), nullable=False),
    Column("config", JSON, nullable=False),
    Column("secrets", Text),
    Column("created_at", Timestamp, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
)

computes = Table(
    "computes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String(64), nullable=False),
    # What runs, attempts and nodes name it by: the workspace's name is in it.
    Column("target", String(255), nullable=False, unique=True),
    Column("type", String(32), nullable=False),
    Column("kind", String(32), nullable=False),
    Column("config", JSON, nullable=False),
    Column("secrets", Text),
    Column("tags", JSON, nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("provisioning_state", String(32), nullable=False),
    Column("provisioning_errors", JSON, nullable=False),
    Column("created_by", String(255), nullable=False, server_default=""),
    Column("created_at", Timestamp, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
    Column("stopped_at", Timestamp),
    Column("deleting_at", Timestamp),
    UniqueConstraint("workspace_id", "name"),
)

nodes = Table(
    "nodes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("target", String(255), nullable=False),
    Column("site", String(255), nullable=False),
    Column("name", String(255), nullable=False, default=""),
    Column("state", String(16), nullable=False),
    Column("reason", Text, nullable=False, default=""),
    Column("config", JSON, nullable=False),
    Column("cpu", Double, nullable=False),
    Column("memory_bytes", BigInteger, nullable=False),
    Column("gpus", JSON, nullable=False),
    Column("size", String(255), nullable=False),
    Column("price", Double, nullable=False),
    Column("tries", Integer, nullable=False, default=0),
    Column("created_at", Timestamp, nullable=False),
    Column("ready_at", Timestamp),
    Column("idle_since", Timestamp),
    Column("state_since", Timestamp, nullable=False),
    Column("removed_at", Timestamp),
    Index("ix_nodes_target_removed_at", "target", "removed_at"),
)

# What becomes of a compute instance: the run that is its session now, the last operation.
# ``failures`` are sessions in a row that did not live for long; ``created`` says that one came up,
# once, with its creation script. Schedules were looked at until ``scheduled_at``.
instances = Table(
    "instances",
    metadata,
    Column("target", String(255), primary_key=True),
    Column("session_id", String(300)),
    Column("sessions", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("created", Boolean, nullable=False),
    Column("restarting", Boolean, nullable=False),
    Column("operation", JSON, nullable=False),
    Column("session_at", Timestamp),
    Column("active_at", Timestamp, nullable=False),
    Column("scheduled_at", Timestamp, nullable=False),
)

# Folders that outlive the nodes of a target; ``config`` says where one lies. A row before the
# folder, and until there is none any more. The id is that of the compute target.
homes = Table(
    "homes",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("site", String(255), nullable=False),
    Column("config", JSON, nullable=False),
)

# Declared lost by somebody: ``handles`` are of attempts that may still be there. A row goes when
# the machine has answered and they are cleared; until then its host is given to nobody.
lost_machines = Table(
    "lost_machines",
    metadata,
    Column("id", String(36), primary_key=True),
    Column("target", String(255), nullable=False),
    Column("site", String(255), nullable=False),
    Column("config", JSON, nullable=False),
    Column("secrets", Text),
    Column("handles", JSON, nullable=False),
    Column("given_up_by", String(255), nullable=False),
    Column("given_up_at", Timestamp, nullable=False),
)

# What was used, by day. The rows without a run are what the target's nodes took in all.
costs = Table(
    "costs",
    metadata,
    Column("target", String(255), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("run_id", String(300), primary_key=True),
    Column("workspace_id", String(36), nullable=False, index=True),
    Column("node_seconds", Double, nullable=False),
    Column("cost", Double, nullable=False),
)
