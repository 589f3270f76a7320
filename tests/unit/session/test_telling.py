from __future__ import annotations

import threading

import pytest

from wherry.core.errors import ForbiddenError, ServerUnavailableError
from wherry.session import telling
from wherry.session.telling import Telling


def test_facts_become_tags() -> None:
    sent: list[dict[str, str]] = []
    told = Telling(sent.append)
    told.tell(phase="Ready", error="it ended\n" + "x" * 5000 + "\nthe reason")
    assert told.flush(60)
    [facts] = sent
    assert facts["session.phase"] == "Ready"
    assert len(facts["session.error"]) == 2000
    assert facts["session.error"].startswith("it ended\n...x")
    assert facts["session.error"].endswith("x\nthe reason")


def test_a_server_that_is_away_is_told_later_and_only_the_last_word(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(telling, "_PAUSES_S", (0.01,))
    sent: list[dict[str, str]] = []
    back = threading.Event()
    tried = threading.Event()

    def send(facts: dict[str, str]) -> None:
        if not back.is_set():
            tried.set()
            raise ServerUnavailableError("it cannot be reached")
        sent.append(facts)

    told = Telling(send)
    told.tell(phase="SettingUp", socket="/s")
    assert tried.wait(60)
    told.tell(phase="Ready")
    assert not told.flush(0.05)
    back.set()
    assert told.flush(60)
    assert sent[-1]["session.phase"] == "Ready"
    assert {key: value for each in sent for key, value in each.items()} == {
        "session.phase": "Ready", "session.socket": "/s",
    }  # fmt: skip
    assert capfd.readouterr().out.count("the server does not hear") == 1


def test_a_refusal_does_not_end_the_session() -> None:
    tried = threading.Event()

    def send(facts: dict[str, str]) -> None:
        tried.set()
        raise ForbiddenError("only the attempt itself may do this")

    told = Telling(send)
    told.tell(phase="Ready")
    assert tried.wait(60)
    assert not told.flush(0.01)
