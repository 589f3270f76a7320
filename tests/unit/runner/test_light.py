from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.runner.light import dumps, loads, suppress

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(VALUES)
def test_writes_and_reads_what_json_does(value: object) -> None:
    assert dumps(value) == json.dumps(value)
    assert loads(json.dumps(value)) == value
    assert loads(f" \n{json.dumps(value, ensure_ascii=False, indent=1)} \n") == value


@pytest.mark.parametrize("text", ["", " ", "{", "{} x", "nope", '{"a": }', "[1,]"])
def test_what_is_not_json_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match=r".*"):
        loads(text)


def test_what_cannot_be_json_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        dumps({"a": object()})


def test_suppress() -> None:
    with suppress(KeyError, OSError):
        raise FileNotFoundError
    with pytest.raises(ValueError, match="x"), suppress(KeyError):
        raise ValueError("x")


def test_the_runner_imports_nothing_slow() -> None:
    code = (
        "import sys; before = set(sys.modules); import wherry.runner.__main__;"
        "print(*sorted(set(sys.modules) - before))"
    )
    stub = (
        "import sys; stub = type(sys)('wherry'); stub.__path__ = [sys.argv[1]];"
        "sys.modules['wherry'] = stub;"
    )
    package = sys.modules["wherry"].__path__[0]
    argv = [sys.executable, "-I", "-S", "-c", stub + code, package]
    loaded = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    slow = {"json", "re", "enum", "typing", "socket", "signal", "threading", "subprocess", "http"}
    slow |= {
        "tarfile",
        "zipfile",
        "tempfile",
        "contextlib",
        "urllib",
        "email",
        "ssl",
        "dataclasses",
    }
    assert "wherry.runner.shipping" in loaded
    assert not slow & set(loaded)
