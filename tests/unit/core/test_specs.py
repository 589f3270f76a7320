"""Bad input is named; good input survives storage."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.core.errors import UserErrorException, from_problem
from wherry.core.resources import Resources
from wherry.core.sizes import format_bytes, parse_bytes
from wherry.core.specs import RunSpec


def fields(**changes: Any) -> dict[str, Any]:
    return {"experiment": "e", "script": "train.py", **changes}


def test_a_spec_survives_storage() -> None:
    spec = RunSpec.parse(
        fields(
            arguments=["--n", 3],
            environment={"python": {"interpreter_path": "/usr/bin/python3"}},
            resources={"cpu": 2, "memory": "4GB", "gpu": 1},
            max_run_duration_s=60,
            tags={"a": 1},
        )
    )
    assert spec.arguments == ["--n", "3"]
    assert spec.tags == {"a": "1"}
    assert RunSpec.stored(spec.to_dict()) == spec


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"experiment": "no spaces!"}, "experiment name"),
        ({"experiment": None}, "experiment name"),
        ({"script": ""}, "either a script or a command"),
        ({"command": "ls"}, "either a script or a command"),
        ({"arguments": "--x"}, "arguments must be a list"),
        ({"arguments": [None]}, "arguments contains None"),
        ({"arguments": ["a\0b"]}, "arguments contains"),
        ({"environment_variables": {"A=B": "1"}}, "environment_variables"),
        ({"tags": ["x"]}, "tags must map"),
        ({"resources": {"cpu": 0}}, "cannot be asked for"),
        ({"resources": {"cpu": "many"}}, "not a number"),
        ({"resources": {"cpus": 1}}, "no field 'cpus'"),
        ({"resources": {"memory": "lots"}}, "is not a size"),
        ({"resources": {"cpu": float("nan")}}, "cannot be asked for"),
        ({"max_run_duration_s": -1}, "outside"),
        ({"max_run_duration_s": "soon"}, "not a number"),
        ({"parent_id": "../x"}, "not a valid run id"),
        ({"parent_id": "v-" + 32 * "a"}, "models have ids like this"),
    ],
)
def test_the_field_at_fault_is_named(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(UserErrorException, match=words):
        RunSpec.parse(fields(**changes))


@pytest.mark.parametrize(
    ("text", "size"), [("4GB", 4 * 10**9), ("512Mi", 2**29), ("1.5k", 1500), (7, 7), ("10", 10)]
)
def test_sizes(text: Any, size: int) -> None:
    assert parse_bytes(text) == size


def test_sizes_for_people() -> None:
    assert format_bytes(999) == "999 B"
    assert format_bytes(1_500_000) == "1.5 MB"
    assert str(Resources(2, 4 * 10**9, 1)) == "2 CPUs, 4.0 GB of memory, 1 GPU"


def test_errors_travel_as_problems_and_come_back_as_themselves() -> None:
    error = UserErrorException("no", hint="do", path="x")
    back = from_problem(error.problem())
    assert type(back) is UserErrorException
    assert (back.message, back.hint, back.fields) == ("no", "do", {"path": "x"})


def test_sizes_beyond_all_floats() -> None:
    with pytest.raises(UserErrorException, match="more than any machine has"):
        parse_bytes("9" * 400 + "GB")
    assert format_bytes(10**400).endswith(" TB")
    with pytest.raises(UserErrorException):
        Resources.parse({"memory": "9" * 400})
