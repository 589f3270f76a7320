"""Tables of models and of what runs were given: beside those of ``tables``."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    String,
    Table,
    Text,
    UniqueConstraint,
)

from .tables import RowId, Timestamp, metadata

every_table = metadata  # these among them

# What a run made of its training. Its files are in ``files``, under its id.
logged_models = Table(
    "logged_models",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("experiment_id", ForeignKey("experiments.id"), nullable=False),
    Column("name", String(500), nullable=False),
    Column("model_type", String(500), nullable=False, default=""),
    Column("source_run_id", String(300)),
    Column("status", String(16), nullable=False),
    Column("tags", JSON, nullable=False),
    Column("params", JSON, nullable=False),
    Column("created_at", Timestamp, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
    Column("deleted_at", Timestamp),
    Index("ix_logged_models_experiment_id_seq", "experiment_id", "seq"),
    Index("ix_logged_models_source_run_id", "source_run_id"),
    Index("ix_logged_models_workspace_id", "workspace_id"),
)

# How good one is; ``at`` in milliseconds. A value that is none is not a number.
model_metrics = Table(
    "model_metrics",
    metadata,
    Column("model_seq", ForeignKey("logged_models.seq"), primary_key=True),
    Column("name", String(1000), primary_key=True),
    Column("run_id", String(300), primary_key=True),
    Column("at", BigInteger, primary_key=True),
    Column("step", BigInteger, primary_key=True),
    Column("value", Double),
    Column("dataset_name", String(500)),
    Column("dataset_digest", String(255)),
)

# What a run took in, and what it gave: logged models by their ids.
run_models = Table(
    "run_models",
    metadata,
    Column("run_seq", ForeignKey("runs.seq"), primary_key=True),
    Column("direction", String(8), primary_key=True),
    Column("model_id", String(40), primary_key=True),
    Column("step", BigInteger, nullable=False),
)

input_datasets = Table(
    "input_datasets",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("experiment_id", ForeignKey("experiments.id"), nullable=False),
    Column("name", String(500), nullable=False),
    Column("digest", String(255), nullable=False),
    Column("source_type", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("schema", Text),
    Column("profile", Text),
    UniqueConstraint("experiment_id", "name", "digest"),
)

run_datasets = Table(
    "run_datasets",
    metadata,
    Column("run_seq", ForeignKey("runs.seq"), primary_key=True),
    Column("dataset_seq", ForeignKey("input_datasets.seq"), primary_key=True),
    Column("tags", JSON, nullable=False),
    Index("ix_run_datasets_dataset_seq", "dataset_seq"),
)

# ``last_version`` only grows: the number of a version that is gone is not given again.
registered_models = Table(
    "registered_models",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("workspace_id", ForeignKey("workspaces.id"), nullable=False),
    Column("name", String(255), nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("tags", JSON, nullable=False),
    Column("last_version", Integer, nullable=False),
    Column("created_by", String(255), nullable=False, default=""),
    Column("created_at", Timestamp, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
    UniqueConstraint("workspace_id", "name"),
)

# Its files, if it has any, are in ``files`` under its id: they stay when the run is gone that
# they come from.
model_versions = Table(
    "model_versions",
    metadata,
    Column("seq", RowId, primary_key=True, autoincrement=True),
    Column("id", String(40), nullable=False, unique=True),
    Column("model_seq", ForeignKey("registered_models.seq"), nullable=False),
    Column("version", Integer, nullable=False),
    Column("description", Text, nullable=False, default=""),
    Column("stage", String(16), nullable=False),
    Column("status", String(24), nullable=False),
    Column("source", Text, nullable=False),
    Column("has_files", Boolean, nullable=False),
    Column("run_id", String(300)),
    Column("run_link", Text),
    Column("logged_model_id", String(40)),
    Column("framework", String(255)),
    Column("framework_version", String(255)),
    Column("tags", JSON, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("created_by", String(255), nullable=False, default=""),
    Column("created_at", Timestamp, nullable=False),
    Column("modified_at", Timestamp, nullable=False),
    UniqueConstraint("model_seq", "version"),
    Index("ix_model_versions_run_id", "run_id"),
    Index("ix_model_versions_logged_model_id", "logged_model_id"),
)

model_aliases = Table(
    "model_aliases",
    metadata,
    Column("model_seq", ForeignKey("registered_models.seq"), primary_key=True),
    Column("alias", String(255), primary_key=True),
    Column("version", Integer, nullable=False),
)
