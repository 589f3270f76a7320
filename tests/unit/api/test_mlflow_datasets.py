"""Datasets that runs take in, in MLflow's own words."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi.testclient import TestClient

from .test_mlflow import ask, run_id, shown

__all__ = ["run_id"]


def dataset(name: str, context: str = "", digest: str = "1", **more: Any) -> dict[str, Any]:
    tags = [{"key": "mlflow.data.context", "value": context}] if context else []
    told = {"name": name, "digest": digest, "source_type": "code", "source": "{}", **more}
    return {"dataset": told, "tags": tags}


def searched(api: TestClient, filter: str) -> list[str]:
    found = ask(api, "runs/search", {"experiment_ids": ["0"], "filter": filter})["runs"]
    return [each["info"]["run_name"] for each in found]


def test_a_run_shows_what_it_was_given(api: TestClient, run_id: str) -> None:
    given = [dataset("iris", "train", schema="{}"), dataset("iris", "eval", digest="2")]
    for _ in range(2):
        ask(api, "runs/log-inputs", {"run_id": run_id, "datasets": given})
    assert shown(api, run_id)["inputs"]["dataset_inputs"] == given
    found = ask(api, "runs/search", {"experiment_ids": ["0"]})["runs"]
    assert found[0]["inputs"]["dataset_inputs"] == given


@pytest.mark.parametrize("missing", ["name", "digest", "source", "source_type"])
def test_half_a_dataset_is_refused_whole(api: TestClient, run_id: str, missing: str) -> None:
    bad = dataset("b")
    del bad["dataset"][missing]
    body = {"run_id": run_id, "datasets": [dataset("a"), bad]}
    ask(api, "runs/log-inputs", body, "INVALID_PARAMETER_VALUE")
    assert shown(api, run_id)["inputs"]["dataset_inputs"] == []


def test_runs_are_found_by_their_datasets(api: TestClient, run_id: str) -> None:
    other = ask(api, "runs/create", {"experiment_id": "0", "run_name": "other"})["run"]["info"]
    ask(api, "runs/create", {"experiment_id": "0", "run_name": "none"})
    ask(api, "runs/log-inputs", {"run_id": run_id, "datasets": [dataset("iris", "train")]})
    more = [dataset("Iris", "eval", digest="2"), dataset("wine")]
    ask(api, "runs/log-inputs", {"run_id": other["run_id"], "datasets": more})
    assert searched(api, "datasets.name = 'iris'") == ["r"]
    assert searched(api, "dataset.name ILIKE 'IRIS'") == ["other", "r"]
    assert searched(api, "datasets.name LIKE 'w%' and datasets.digest = '2'") == ["other"]
    assert searched(api, "datasets.context IN ('train', 'test')") == ["r"]
    assert searched(api, "datasets.name IS NULL") == ["none"]
    asked = {"experiment_ids": ["0"], "filter": "datasets.size = '1'"}
    ask(api, "runs/search", asked, "INVALID_PARAMETER_VALUE")


def test_the_datasets_of_experiments_are_listed(api: TestClient, run_id: str) -> None:
    given = [dataset("iris", "train"), dataset("wine")]
    ask(api, "runs/log-inputs", {"run_id": run_id, "datasets": given})
    found = ask(api, "experiments/search-datasets", {"experiment_ids": ["0"]})
    told = {(each["name"], each.get("context")) for each in found["dataset_summaries"]}
    assert told == {("iris", "train"), ("wine", None)}
    ask(api, "experiments/search-datasets", {}, "INVALID_PARAMETER_VALUE")
