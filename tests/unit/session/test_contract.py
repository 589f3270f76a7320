from __future__ import annotations

import json

import pytest

from wherry.core.sessions import joined, variables
from wherry.session.contract import Script, read


def test_what_is_not_said_has_a_value() -> None:
    contract = read(json.dumps({"jupyter_token": "t", "base_url": "/instances/w/nb"}))
    assert contract.base_url == "/instances/w/nb/"
    assert (contract.home, contract.create, contract.kernels) == ("", False, [])
    assert contract.creation_script is None


def test_scripts_and_kernels() -> None:
    fields = {
        "jupyter_token": "t",
        "startup_script": {"content": "echo", "arguments": "a b", "timeout_minutes": 3},
        "creation_script": {"content": " \n"},
        "kernels": [{"name": "mine", "version": 3, "specification": {"python": {}}}],
    }
    contract = read(json.dumps(fields))
    assert contract.startup_script == Script("echo", "a b", 3.0)
    assert contract.creation_script is None
    assert str(contract.kernels[0]) == "environment 'mine' version 3"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("", "does not hold a JSON object"), ("[]", "JSON object"), ("{}", "no token for JupyterLab")],
)
def test_what_is_no_contract_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(text)


def test_what_is_too_long_for_one_variable_goes_into_several() -> None:
    text = json.dumps({"content": "x" * 250_000})
    told = variables(text)
    assert list(told) == ["WHERRY_SESSION", "WHERRY_SESSION_1", "WHERRY_SESSION_2"]
    assert all(len(piece) <= 100_000 for piece in told.values())
    assert joined({"OTHER": "1", **told}) == text
    assert joined({}) == ""
