"""Tokens of attempts: made from the server's key, never stored, good as long as the attempt is."""

from __future__ import annotations

import hmac
from datetime import datetime, timedelta

from wherry.core.errors import AuthenticationException
from wherry.core.gang import GIVEN_UP
from wherry.store import attempts

from .plane import ABSENCE, Plane

MARK = "wa."
AFTER_THE_END = timedelta(minutes=5)  # what was sent before the end may arrive after it
_MOST_KEPT = 10_000


def make(plane: Plane, attempt_id: str, run_id: str) -> str:
    return f"{MARK}{attempt_id}.{run_id}.{_seal(plane, attempt_id, run_id)}"


def read(plane: Plane, token: str) -> tuple[str, str]:
    """The attempt and run that a token of ours names, whether or not they go on."""
    try:
        _, attempt_id, rest = token.split(".", 2)
        run_id, seal = rest.rsplit(".", 1)
    except ValueError:
        raise AuthenticationException("the token is not valid") from None
    if not hmac.compare_digest(seal.encode(), _seal(plane, attempt_id, run_id).encode()):
        raise AuthenticationException("the token is not valid")
    return attempt_id, run_id


def known_good(plane: Plane, attempt_id: str) -> bool:
    """Whether it is still good without asking the database.

    One that had not ended a moment ago is good for as long as one that ends right now.
    """
    until = plane.good_attempts.get(attempt_id)
    return until is not None and plane.now() <= until


def started(plane: Plane, attempt_id: str) -> None:
    """The attempt is about to send something; that it goes on need not be read again."""
    _keep(plane, attempt_id, plane.now() + AFTER_THE_END)


def end(plane: Plane, attempt_id: str) -> None:
    """What it sends from now on is looked at anew."""
    plane.good_attempts.pop(attempt_id, None)


def check(plane: Plane, attempt_id: str, run_id: str) -> None:
    """Refuse the token of an attempt that is long over."""
    with plane.database.read() as connection:
        attempt = attempts.find(connection, attempt_id)
    if attempt is None or attempt.run_id != run_id:
        raise AuthenticationException(f"the token is of an attempt that run {run_id} has no more")
    if attempt.stop_reason == GIVEN_UP:
        raise AuthenticationException(
            f"the token of run {run_id} is no longer valid: its machine was declared lost"
        )
    now = plane.now()
    until = now + AFTER_THE_END
    if attempt.ended_at is not None:
        until = min(until, _heard_since(plane, now, attempt.ended_at) + AFTER_THE_END)
    if now > until:
        raise AuthenticationException(
            f"the token of run {run_id} is no longer valid: its attempt ended more than "
            f"{AFTER_THE_END.seconds // 60} minutes ago"
        )
    _keep(plane, attempt_id, until)


def _heard_since(plane: Plane, now: datetime, ended_at: datetime) -> datetime:
    """The end; or later, if the server was away or suspended then and nobody could send anything.

    An end that lies far ahead was recorded before the clock was set back.
    """
    suspended = plane.last_pass is not None and now - plane.last_pass > ABSENCE
    listening = now if suspended else plane.attentive_since
    return listening if ended_at > now + AFTER_THE_END else max(ended_at, listening)


def _keep(plane: Plane, attempt_id: str, until: datetime) -> None:
    if len(plane.good_attempts) >= _MOST_KEPT:
        plane.good_attempts.clear()
    plane.good_attempts[attempt_id] = until


def _seal(plane: Plane, attempt_id: str, run_id: str) -> str:
    return hmac.digest(plane.secret, f"{attempt_id}\n{run_id}".encode(), "sha256").hex()
