"""Tells the server where the session is, by tags of its run, and never waits for it."""

from __future__ import annotations

import threading
from typing import Any, Callable, Dict

from wherry.core.errors import WherryError
from wherry.sdk.client import quote
from wherry.sdk.connection import connect
from wherry.sdk.settings import run_context

from .saying import say

_LONGEST = 2000
_PAUSES_S = (1.0, 2.0, 5.0, 10.0, 30.0)

Send = Callable[[Dict[str, str]], object]


class Telling:
    """What was told last is what the server gets to know, as soon as it can be reached."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._waiting: Dict[str, str] = {}
        self._changed = threading.Condition()
        self._busy = False
        self._thread = threading.Thread(target=self._work, name="telling", daemon=True)
        self._thread.start()

    def tell(self, **facts: str) -> None:
        """``phase="Ready"`` becomes the tag ``session.phase``."""
        named = {f"session.{name}": _shortened(value) for name, value in facts.items()}
        with self._changed:
            self._waiting.update(named)
            self._changed.notify_all()

    def flush(self, timeout_s: float) -> bool:
        """Whether all of it was heard in that time."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._waiting and not self._busy, timeout_s)

    def _work(self) -> None:
        failures = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: bool(self._waiting))
                facts, self._waiting, self._busy = self._waiting, {}, True
            heard = self._sent(facts, failures)
            failures = 0 if heard else failures + 1
            with self._changed:
                self._busy = False
                if not heard:
                    self._waiting = {**facts, **self._waiting}
                self._changed.notify_all()
                if not heard:  # what is told meanwhile goes along with the next try
                    self._changed.wait(_PAUSES_S[min(failures, len(_PAUSES_S)) - 1])

    def _sent(self, facts: Dict[str, str], failures: int) -> bool:
        try:
            self._send(facts)
        except (WherryError, OSError) as error:
            if not failures:
                say(f"the server does not hear that {_shown(facts)}: {error}; it is told again")
            return False
        return True


def to_own_run() -> Telling:
    """By the token of this attempt."""
    context = run_context()

    def send(facts: Dict[str, str]) -> Any:
        if context is None:
            return None  # started by hand
        return connect().patch(f"/runs/{quote(context.run_id)}", {"tags": facts})

    return Telling(send)


def _shortened(value: str) -> str:
    """Its first line and its end, which say the most."""
    if len(value) <= _LONGEST:
        return value
    first = value.partition("\n")[0][: _LONGEST // 2]
    return f"{first}\n...{value[len(first) + 4 - _LONGEST :]}"


def _shown(facts: Dict[str, str]) -> str:
    said = {name: value.splitlines()[0] for name, value in facts.items() if value}
    return ", ".join(f"{name} is {value!r}" for name, value in said.items())
