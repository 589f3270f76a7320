"""Models that runs log, the registry of models, and the datasets of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    _make_logged_models()
    _make_datasets()
    _make_registry()


def _make_logged_models() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "logged_models",
        sa.Column("seq", row_id, autoincrement=True),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("workspace_id", sa.String(36), nullable=False),
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("model_type", sa.String(500), nullable=False),
        sa.Column("source_run_id", sa.String(300)),
        sa.Column("status", sa.String(16), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.Column("deleted_at", sa.BigInteger()),
        sa.PrimaryKeyConstraint("seq", name="pk_logged_models"),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name="fk_logged_models_workspace_id"
        ),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_logged_models_experiment_id"
        ),
        sa.UniqueConstraint("id", name="uq_logged_models_id"),
    )
    op.create_index("ix_logged_models_experiment_id_seq", "logged_models", ["experiment_id", "seq"])
    op.create_index("ix_logged_models_source_run_id", "logged_models", ["source_run_id"])
    op.create_index("ix_logged_models_workspace_id", "logged_models", ["workspace_id"])
    op.create_table(
        "model_metrics",
        sa.Column("model_seq", row_id, nullable=False),
        sa.Column("name", sa.String(1000), nullable=False),
        sa.Column("run_id", sa.String(300), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("dataset_name", sa.String(500)),
        sa.Column("dataset_digest", sa.String(255)),
        sa.PrimaryKeyConstraint(
            "model_seq", "name", "run_id", "at", "step", name="pk_model_metrics"
        ),
        sa.ForeignKeyConstraint(
            ["model_seq"], ["logged_models.seq"], name="fk_model_metrics_model_seq"
        ),
    )
    op.create_table(
        "run_models",
        sa.Column("run_seq", row_id, nullable=False),
        sa.Column("direction", sa.String(8), nullable=False),
        sa.Column("model_id", sa.String(40), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("run_seq", "direction", "model_id", name="pk_run_models"),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_run_models_run_seq"),
    )


def _make_datasets() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "input_datasets",
        sa.Column("seq", row_id, autoincrement=True),
        sa.Column("experiment_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(500), nullable=False),
        sa.Column("digest", sa.String(255), nullable=False),
        sa.Column("source_type", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("schema", sa.Text()),
        sa.Column("profile", sa.Text()),
        sa.PrimaryKeyConstraint("seq", name="pk_input_datasets"),
        sa.ForeignKeyConstraint(
            ["experiment_id"], ["experiments.id"], name="fk_input_datasets_experiment_id"
        ),
        sa.UniqueConstraint(
            "experiment_id", "name", "digest", name="uq_input_datasets_experiment_id_name_digest"
        ),
    )
    op.create_table(
        "run_datasets",
        sa.Column("run_seq", row_id, nullable=False),
        sa.Column("dataset_seq", row_id, nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.PrimaryKeyConstraint("run_seq", "dataset_seq", name="pk_run_datasets"),
        sa.ForeignKeyConstraint(["run_seq"], ["runs.seq"], name="fk_run_datasets_run_seq"),
        sa.ForeignKeyConstraint(
            ["dataset_seq"], ["input_datasets.seq"], name="fk_run_datasets_dataset_seq"
        ),
    )
    op.create_index("ix_run_datasets_dataset_seq", "run_datasets", ["dataset_seq"])


def _make_registry() -> None:
    row_id = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "registered_models",
        sa.Column("seq", row_id, autoincrement=True),
        sa.Column("workspace_id", sa.String(36), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("last_version", sa.Integer(), nullable=False),
        sa.Column("created_by", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_registered_models"),
        sa.ForeignKeyConstraint(
            ["workspace_id"], ["workspaces.id"], name="fk_registered_models_workspace_id"
        ),
        sa.UniqueConstraint("workspace_id", "name", name="uq_registered_models_workspace_id_name"),
    )
    op.create_table(
        "model_versions",
        sa.Column("seq", row_id, autoincrement=True),
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("model_seq", row_id, nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("stage", sa.String(16), nullable=False),
        sa.Column("status", sa.String(24), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("has_files", sa.Boolean(), nullable=False),
        sa.Column("run_id", sa.String(300)),
        sa.Column("run_link", sa.Text()),
        sa.Column("logged_model_id", sa.String(40)),
        sa.Column("framework", sa.String(255)),
        sa.Column("framework_version", sa.String(255)),
        sa.Column("tags", sa.JSON(), nullable=False),
        sa.Column("properties", sa.JSON(), nullable=False),
        sa.Column("created_by", sa.String(255), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("modified_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("seq", name="pk_model_versions"),
        sa.ForeignKeyConstraint(
            ["model_seq"], ["registered_models.seq"], name="fk_model_versions_model_seq"
        ),
        sa.UniqueConstraint("id", name="uq_model_versions_id"),
        sa.UniqueConstraint("model_seq", "version", name="uq_model_versions_model_seq_version"),
    )
    op.create_index("ix_model_versions_run_id", "model_versions", ["run_id"])
    op.create_index("ix_model_versions_logged_model_id", "model_versions", ["logged_model_id"])
    op.create_table(
        "model_aliases",
        sa.Column("model_seq", row_id, nullable=False),
        sa.Column("alias", sa.String(255), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("model_seq", "alias", name="pk_model_aliases"),
        sa.ForeignKeyConstraint(
            ["model_seq"], ["registered_models.seq"], name="fk_model_aliases_model_seq"
        ),
    )
