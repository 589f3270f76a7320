"""What is logged into a run: metrics, parameters, tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from wherry.control import tracked_runs
from wherry.core.errors import UserErrorException
from wherry.core.metrics import SCALAR, Logged

from .calls import Call, endpoint, real, whole

_NOTHING: Mapping[str, str] = MappingProxyType({})


@endpoint("POST", "runs/log-metric", of_run=True)
def log_metric(call: Call) -> Mapping[str, Any]:
    points = [_point(call.given)]
    _log(call, points, about=_of_models([call.given]))
    return {}


@endpoint("POST", "runs/log-parameter", of_run=True)
def log_param(call: Call) -> Mapping[str, Any]:
    _log(call, params={call.text("key"): call.maybe("value") or ""})
    return {}


@endpoint("POST", "runs/set-tag", of_run=True)
def set_tag(call: Call) -> Mapping[str, Any]:
    _log(call, tags={call.text("key"): call.maybe("value") or ""})
    return {}


@endpoint("POST", "runs/delete-tag", of_run=True)
def delete_tag(call: Call) -> Mapping[str, Any]:
    tracked_runs.remove_tag(call.plane, call.run(write=True).id, call.text("key"))
    return {}


@endpoint("POST", "runs/log-batch", of_run=True)
def log_batch(call: Call) -> Mapping[str, Any]:
    points = [_point(each) for each in call.several("metrics")]
    params = call.pairs("params")
    if len(params) < len(call.several("params")):
        _check_twice(call)
    about = _of_models(call.several("metrics"))
    _log(call, points, params, call.pairs("tags"), about)
    return {}


def _log(
    call: Call,
    points: Sequence[Logged] = (),
    params: Mapping[str, str] = _NOTHING,
    tags: Mapping[str, str] = _NOTHING,
    about: Sequence[Mapping[str, Any]] = (),
) -> None:
    tracked_runs.log(call.plane, call.run_id, points, params, tags, about, check=call.check)


def _point(given: Any) -> Logged:
    if not isinstance(given, Mapping) or not isinstance(given.get("key"), str):
        raise UserErrorException("Missing value for required parameter 'key'.")
    if given.get("value") is None:
        raise UserErrorException("Missing value for required parameter 'value'.")
    if given.get("timestamp") is None:
        raise UserErrorException("Missing value for required parameter 'timestamp'.")
    return Logged(
        at=whole("timestamp", given["timestamp"]) / 1000,
        kind=SCALAR,
        name=given["key"],
        value=real("value", given["value"]),
        step=whole("step", given.get("step") or 0),
    )


def _of_models(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The points, already looked at, that are about models: what the models are told of them."""
    return [
        {
            "model_id": str(each["model_id"]),
            "name": each["key"],
            "value": real("value", each["value"]),
            "at": whole("timestamp", each["timestamp"]),
            "step": whole("step", each.get("step") or 0),
            "dataset_name": each.get("dataset_name") or None,
            "dataset_digest": each.get("dataset_digest") or None,
        }
        for each in given
        if each.get("model_id")
    ]


def _check_twice(call: Call) -> None:
    """A parameter that comes twice in one batch must have the same value."""
    seen: dict[str, Any] = {}
    for each in call.several("params"):
        if seen.setdefault(each["key"], each.get("value")) != each.get("value"):
            raise UserErrorException(
                f"Duplicate parameter keys have been submitted: {each['key']!r} has two values."
            )
