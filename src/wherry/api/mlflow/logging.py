"""What is logged into a run: metrics, parameters, tags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from wherry.control import tracked_runs
from wherry.core.errors import UserErrorException
from wherry.core.metrics import SCALAR, Logged

from .calls import Call, endpoint, missing, real, whole, wrong

_NOTHING: Mapping[str, str] = MappingProxyType({})


@endpoint("POST", "runs/log-metric", of_run=True)
def log_metric(call: Call) -> Mapping[str, Any]:
    _ = call.run_id  # what is wrong with it is said first
    points = [_point(call.given)]
    _log(call, points, about=_of_models([call.given]))
    return {}


@endpoint("POST", "runs/log-parameter", of_run=True)
def log_param(call: Call) -> Mapping[str, Any]:
    _log(call, params=_pair(call))
    return {}


@endpoint("POST", "runs/set-tag", of_run=True)
def set_tag(call: Call) -> Mapping[str, Any]:
    _log(call, tags=_pair(call))
    return {}


@endpoint("POST", "runs/delete-tag", of_run=True)
def delete_tag(call: Call) -> Mapping[str, Any]:
    tracked_runs.remove_tag(call.plane, call.run(write=True).id, call.text("key"))
    return {}


@endpoint("POST", "runs/log-batch", of_run=True)
def log_batch(call: Call) -> Mapping[str, Any]:
    given = call.objects("metrics")
    points = [_point(each, f"metrics[{place}].") for place, each in enumerate(given)]
    params = call.pairs("params")
    if len(params) < len(call.objects("params")):
        _check_twice(call)
    about = _of_models(given)
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


def _pair(call: Call) -> dict[str, str]:
    _ = call.run_id  # what is wrong with it is said first
    return {call.text("key"): call.maybe("value") or ""}


def _point(given: Mapping[str, Any], place: str = "") -> Logged:
    for name in ("key", "value", "timestamp"):
        if given.get(name) in (None, ""):
            raise missing(f"{place}{name}")
    if not isinstance(given["key"], str):
        raise wrong(f"{place}key", given["key"])
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
    for each in call.objects("params"):
        if seen.setdefault(each["key"], each.get("value")) != each.get("value"):
            raise UserErrorException(
                f"Duplicate parameter keys have been submitted: {each['key']!r} has two values."
            )
