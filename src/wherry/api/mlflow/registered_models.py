"""Registered models: made, described, renamed, found, and their aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from wherry.control import registry
from wherry.core.errors import UserErrorException
from wherry.core.search import (
    ATTRIBUTE,
    NUMBER,
    TAG,
    TEXT,
    Condition,
    Vocabulary,
    parse_filter,
    parse_order,
)
from wherry.store import model_versions
from wherry.store import registered_models as rows

from . import model_shapes
from .calls import Call, endpoint, whole
from .unserved import UnservedError

_WORDS = Vocabulary(
    frozenset({ATTRIBUTE, TAG}),
    {"name": TEXT, "creation_timestamp": NUMBER, "last_updated_timestamp": NUMBER},
    {"timestamp": "last_updated_timestamp"},
)
_IS_PROMPT = "mlflow.prompt.is_prompt"
_MOST = 1000


@endpoint("POST", "registered-models/create")
def create(call: Call) -> Mapping[str, Any]:
    name, tags = call.text("name"), call.pairs("tags")
    refuse_prompts(tags)
    described = call.maybe("description") or ""
    registry.create(call.plane, call.workspace, name, described, tags, call.caller.name)
    return _shown(call, name)


@endpoint("POST", "registered-models/rename")
def rename(call: Call) -> Mapping[str, Any]:
    call.only_people("rename a registered model")
    name, new_name = call.text("name"), call.text("new_name")
    registry.change(call.plane, call.workspace, name, {"name": new_name})
    return _shown(call, new_name)


@endpoint("PATCH", "registered-models/update")
def update(call: Call) -> Mapping[str, Any]:
    name = call.text("name")
    changes = {"description": call.maybe("description") or ""}
    registry.change(call.plane, call.workspace, name, changes)
    return _shown(call, name)


@endpoint("DELETE", "registered-models/delete")
def delete(call: Call) -> Mapping[str, Any]:
    call.only_people("delete a registered model")
    registry.remove(call.plane, call.workspace, call.text("name"))
    return {}


@endpoint("GET", "registered-models/get")
def get(call: Call) -> Mapping[str, Any]:
    return _shown(call, call.text("name"))


@endpoint("GET", "registered-models/search")
def search(call: Call) -> Mapping[str, Any]:
    conditions = without_prompts(parse_filter(call.maybe("filter"), _WORDS))
    orders = [parse_order(str(each), _WORDS) for each in call.several("order_by")]
    limit = call.number("max_results", 100, 1, _MOST)
    if conditions is None:
        return {"registered_models": []}
    with call.plane.database.read() as connection:
        found, following = rows.page(
            connection, call.workspace, conditions, orders, limit, call.maybe("page_token")
        )
        models = model_shapes.models(connection, found)
    return {
        "registered_models": models,
        **({"next_page_token": following} if following else {}),
    }


@endpoint("GET", "registered-models/get-latest-versions")
@endpoint("POST", "registered-models/get-latest-versions")
def get_latest_versions(call: Call) -> Mapping[str, Any]:
    wanted = {registry.check_stage(str(each)) for each in call.several("stages")}
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, call.text("name"))
        latest = model_versions.latest(connection, [row.seq])[row.seq]
        chosen = [each for each in latest if not wanted or each.stage in wanted]
        return {"model_versions": model_shapes.versions(connection, chosen)}


@endpoint("POST", "registered-models/set-tag")
def set_tag(call: Call) -> Mapping[str, Any]:
    tags = {call.text("key"): call.maybe("value") or ""}
    registry.change(call.plane, call.workspace, call.text("name"), {"tags": tags})
    return {}


@endpoint("DELETE", "registered-models/delete-tag")
def delete_tag(call: Call) -> Mapping[str, Any]:
    call.only_people("take a tag from a registered model")
    registry.remove_tag(call.plane, call.workspace, call.text("name"), call.text("key"))
    return {}


@endpoint("POST", "registered-models/alias")
def set_alias(call: Call) -> Mapping[str, Any]:
    name, alias, version = call.text("name"), call.text("alias"), version_of(call)
    registry.set_alias(call.plane, call.workspace, name, alias, version)
    return {}


@endpoint("DELETE", "registered-models/alias")
def delete_alias(call: Call) -> Mapping[str, Any]:
    call.only_people("delete an alias of a registered model")
    registry.remove_alias(call.plane, call.workspace, call.text("name"), call.text("alias"))
    return {}


@endpoint("GET", "registered-models/alias")
def get_by_alias(call: Call) -> Mapping[str, Any]:
    name, alias = call.text("name"), call.text("alias")
    with call.plane.database.read() as connection:
        row = registry.by_alias(connection, call.workspace, name, alias)
        return {"model_version": model_shapes.versions(connection, [row])[0]}


def version_of(call: Call) -> int:
    version = call.text("version")
    try:
        return whole("version", version)
    except UserErrorException:
        raise UserErrorException(
            f"Parameter 'version' must be an integer, got {version!r}."
        ) from None


def refuse_prompts(tags: Mapping[str, str]) -> None:
    """MLflow keeps them as models with this tag."""
    if tags.get(_IS_PROMPT, "").lower() == "true":
        raise UnservedError("Wherry does not serve prompts of MLflow")


def without_prompts(conditions: Sequence[Condition]) -> list[Condition] | None:
    """What is asked of models, which are all no prompts; None where prompts are asked for."""
    left = [each for each in conditions if (each.entity, each.key) != (TAG, _IS_PROMPT)]
    asked = [each for each in conditions if each not in left]
    prompts = any((each.operator == "=") == (each.value == "true") for each in asked)
    return None if prompts else left


def _shown(call: Call, name: str) -> dict[str, Any]:
    with call.plane.database.read() as connection:
        row = rows.get(connection, call.workspace, name)
        return {"registered_model": model_shapes.models(connection, [row])[0]}
