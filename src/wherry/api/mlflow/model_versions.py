"""Versions of registered models: registered, described, staged, found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wherry.control import model_sources, registry
from wherry.core.search import ATTRIBUTE, NUMBER, TAG, TEXT, Vocabulary, parse_filter, parse_order
from wherry.store import logged_models as logged_rows
from wherry.store import model_versions as rows

from . import logged_models, model_shapes
from .calls import Call, endpoint
from .registered_models import refuse_prompts, version_of, without_prompts

_WORDS = Vocabulary(
    frozenset({ATTRIBUTE, TAG}),
    {
        "name": TEXT,
        "version_number": NUMBER,
        "run_id": TEXT,
        "source_path": TEXT,
        "creation_timestamp": NUMBER,
        "last_updated_timestamp": NUMBER,
    },
    {"version": "version_number", "source": "source_path"},
)
_MOST = 200_000


@endpoint("POST", "model-versions/create")
def create(call: Call) -> Mapping[str, Any]:
    name, tags = call.text("name"), call.pairs("tags")
    refuse_prompts(tags)
    fields = {
        "source": call.text("source"),
        "run_id": call.maybe("run_id") or None,
        "run_link": call.maybe("run_link"),
        "description": call.maybe("description"),
        "tags": tags,
        "logged_model_id": call.maybe("model_id") or None,
    }
    number = registry.register(call.plane, call.workspace, name, fields, call.caller.name)
    return _shown(call, name, number)


@endpoint("GET", "model-versions/get")
def get(call: Call) -> Mapping[str, Any]:
    return _shown(call, call.text("name"), version_of(call))


@endpoint("PATCH", "model-versions/update")
def update(call: Call) -> Mapping[str, Any]:
    name, version = call.text("name"), version_of(call)
    changes = {"description": call.maybe("description") or ""}
    registry.change_version(call.plane, call.workspace, name, version, changes)
    return _shown(call, name, version)


@endpoint("POST", "model-versions/transition-stage")
def transition_stage(call: Call) -> Mapping[str, Any]:
    name, version, stage = call.text("name"), version_of(call), call.text("stage")
    alone = str(call.given.get("archive_existing_versions", "")).lower() == "true"
    registry.to_stage(call.plane, call.workspace, name, version, stage, alone=alone)
    return _shown(call, name, version)


@endpoint("DELETE", "model-versions/delete")
def delete(call: Call) -> Mapping[str, Any]:
    call.only_people("delete a version of a model")
    registry.remove_version(call.plane, call.workspace, call.text("name"), version_of(call))
    return {}


@endpoint("GET", "model-versions/search")
def search(call: Call) -> Mapping[str, Any]:
    conditions = without_prompts(parse_filter(call.maybe("filter"), _WORDS))
    orders = [parse_order(str(each), _WORDS) for each in call.several("order_by")]
    limit = call.number("max_results", 10_000, 1, _MOST)
    if conditions is None:
        return {"model_versions": []}
    with call.plane.database.read() as connection:
        found, following = rows.page(
            connection, call.workspace, conditions, orders, limit, call.maybe("page_token")
        )
        versions = model_shapes.versions(connection, found)
    return {"model_versions": versions, **({"next_page_token": following} if following else {})}


@endpoint("GET", "model-versions/get-download-uri")
def get_download_uri(call: Call) -> Mapping[str, Any]:
    """The version's own files; where they never lay here, what it was registered from."""
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, call.text("name"), version_of(call))
        return {"artifact_uri": _place(call, connection, row)}


def _place(call: Call, connection: Any, row: Any) -> str:
    """A version that was copied from another lies where that one does."""
    if row.has_files:
        return f"mlflow-artifacts:/{model_sources.VERSIONS}/{row.id}/artifacts"
    if row.source.startswith("models:"):
        copied = model_sources.copied_from(connection, call.workspace, row.source)
        if copied is not None and copied.seq < row.seq:
            return _place(call, connection, copied)
        if row.logged_model_id:
            model = logged_rows.get(connection, call.workspace, row.logged_model_id, gone=True)
            shown = logged_models.shown(call, connection, [model])[0]
            return str(shown["info"]["artifact_uri"])
    return str(row.source)


@endpoint("POST", "model-versions/set-tag")
def set_tag(call: Call) -> Mapping[str, Any]:
    name, version = call.text("name"), version_of(call)
    tags = {call.text("key"): call.maybe("value") or ""}
    registry.change_version(call.plane, call.workspace, name, version, {"tags": tags})
    return {}


@endpoint("DELETE", "model-versions/delete-tag")
def delete_tag(call: Call) -> Mapping[str, Any]:
    call.only_people("take a tag from a version of a model")
    name, version = call.text("name"), version_of(call)
    registry.remove_version_tag(call.plane, call.workspace, name, version, call.text("key"))
    return {}


def _shown(call: Call, name: str, version: int) -> dict[str, Any]:
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, name, version)
        return {"model_version": model_shapes.versions(connection, [row])[0]}
