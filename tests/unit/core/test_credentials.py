"""What lets somebody in is covered, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest

from wherry.core.credentials import covered, without_credentials

SECRET = "geheim"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("--index-url https://me:geheim@host/simple", "--index-url https://***@host/simple"),
        ("--index-url=https://geheim@host/simple", "--index-url=https://***@host/simple"),
        ("a @ git+https://geheim@host/a.git@main", "a @ git+https://***@host/a.git@main"),
        ("https://host/t/geheim/own", "https://host/t/***/own"),
        ("https://host/a.whl?sv=1&sig=geheim", "https://host/a.whl?sv=1&sig=***"),
        ("https://host/a.whl?Access_Token=geheim#x", "https://host/a.whl?Access_Token=***#x"),
        ("FROM a\nRUN b -i http://u:geheim@h x", "FROM a\nRUN b -i http://***@h x"),
    ],
)  # fmt: skip
def test_an_address_lets_nobody_in(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text", ["", "numpy>=1,<2", "me@host", "a?token=b", "https://host/a@1.whl", "file:///a?b=1"]
)
def test_all_else_stays(text: str) -> None:
    assert without_credentials(text) == text


def test_a_specification_is_covered_wherever_it_says_so() -> None:
    address = f"https://me:{SECRET}@host/simple"
    spec: dict[str, Any] = {
        "python": {
            "conda": {
                "channels": [f"https://host/t/{SECRET}/own"],
                "dependencies": ["six", {"pip": [f"-i {address}", "private"]}],
            },
            "lines": {f"-i {address}": 7},
            "lock": {"options": ["-i", address], "pylock": f"url = '{address}'"},
        },
        "docker": {
            "dockerfile": f"FROM a\nRUN pip install -i {address} x\n",
            "arguments": ["-e", f"A={SECRET}", "--env", f"B={SECRET}", f"-e C={SECRET}\n{SECRET}",
                          f"--env=D={SECRET}", "--label", "E=5", "-v", "/a:/b"],
        },
    }  # fmt: skip
    shown = covered(spec)
    assert SECRET not in str(shown)
    assert SECRET in str(spec)
    assert shown["docker"]["arguments"] == [
        "-e", "A=***", "--env", "B=***", "-e C=***", "--env=D=***", "--label", "E=5", "-v", "/a:/b"
    ]  # fmt: skip
    assert shown["python"]["conda"]["dependencies"][0] == "six"


def test_without_a_secret_it_is_the_same_object() -> None:
    spec = {"python": {"conda": {"dependencies": ["six", {"pip": ["a"]}]}}, "docker": {}}
    assert covered(spec) is spec


@pytest.mark.parametrize("piece", ["://", "?", "&a=", "://a/t/", "://@", "?token", "-e A="])
def test_no_text_takes_the_square_of_its_length(piece: str) -> None:
    """That would be hours."""
    without_credentials("://" + piece * 200_000)
