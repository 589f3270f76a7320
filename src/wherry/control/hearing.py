"""How long runners have been silent, by a clock that nobody sets."""

from __future__ import annotations

import time


class Hearing:
    """What this process has heard. An earlier one's times are of no use: silence starts anew.

    Times that are stored follow the clock on the wall, which people and machines set; nothing may
    end, be repeated or be waited for because of that.
    """

    def __init__(self) -> None:
        self._attentive_since = time.monotonic()
        self._heard: dict[str, float] = {}
        self._since: dict[tuple[str, str], float] = {}

    def heard(self, attempt_id: str) -> None:
        self._heard[attempt_id] = time.monotonic()

    def quiet_s(self, attempt_id: str) -> float:
        """Since it was heard, or else first asked about."""
        now = time.monotonic()
        return now - self._heard.setdefault(attempt_id, now)

    def silent_s(self, attempt_id: str) -> float:
        """The same, without the time in which this process itself was away."""
        return min(self.quiet_s(attempt_id), time.monotonic() - self._attentive_since)

    def was_away(self) -> None:
        self._attentive_since = time.monotonic()

    def lasting_s(self, attempt_id: str, what: str) -> float:
        """Since this was first asked and not over in between."""
        now = time.monotonic()
        return now - self._since.setdefault((attempt_id, what), now)

    def over(self, attempt_id: str, what: str) -> None:
        self._since.pop((attempt_id, what), None)

    def forget(self, attempt_id: str) -> None:
        self._heard.pop(attempt_id, None)
        for what in (GONE, CANCELED):
            self.over(attempt_id, what)


GONE = "gone"
CANCELED = "canceled"
