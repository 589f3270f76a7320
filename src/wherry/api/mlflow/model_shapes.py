"""Registered models and their versions in the form that MLflow's clients read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from wherry.store import model_versions, registered_models

from .calls import milliseconds, tags_of


def models(connection: Connection, rows: Sequence[Any]) -> list[dict[str, Any]]:
    """Each with the youngest version in each stage."""
    seqs = [row.seq for row in rows]
    aliases = registered_models.aliases(connection, seqs)
    latest = model_versions.latest(connection, seqs)
    return [
        {
            "name": row.name,
            "creation_timestamp": milliseconds(row.created_at),
            "last_updated_timestamp": milliseconds(row.modified_at),
            "user_id": row.created_by,
            "description": row.description,
            "latest_versions": [_version(each, aliases[row.seq]) for each in latest[row.seq]],
            "tags": tags_of(row.tags),
            "aliases": [
                {"alias": alias, "version": str(version)}
                for alias, version in aliases[row.seq].items()
            ],
        }
        for row in rows
    ]


def versions(connection: Connection, rows: Sequence[Any]) -> list[dict[str, Any]]:
    aliases = registered_models.aliases(connection, sorted({row.model_seq for row in rows}))
    return [_version(row, aliases[row.model_seq]) for row in rows]


def _version(row: Any, aliases: Mapping[str, int]) -> dict[str, Any]:
    told = {"run_id": row.run_id, "run_link": row.run_link, "model_id": row.logged_model_id}
    return {
        "name": row.name,
        "version": str(row.version),
        "creation_timestamp": milliseconds(row.created_at),
        "last_updated_timestamp": milliseconds(row.modified_at),
        "user_id": row.created_by,
        "current_stage": row.stage,
        "description": row.description,
        "source": row.source,
        "status": row.status,
        "tags": tags_of(row.tags),
        "aliases": [alias for alias, version in aliases.items() if version == row.version],
        **{name: value for name, value in told.items() if value},
    }
