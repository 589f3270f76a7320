"""The day that ``as_of`` means, for either resolver."""

from __future__ import annotations

import datetime

from wherry.builds.error import BuildError


def cutoff(as_of: str) -> str:
    """In UTC. A day counts whole, a time without a zone is UTC: ``2020-05-02T00:00:00Z``."""
    try:
        if len(as_of) == 10:
            moment = datetime.datetime.fromisoformat(as_of) + datetime.timedelta(days=1)
        else:
            moment = datetime.datetime.fromisoformat(as_of.replace("Z", "+00:00"))
    except ValueError:
        raise BuildError(f"there is no such day as {as_of!r}, which 'as_of' names") from None
    if moment.tzinfo is not None:
        moment = moment.astimezone(datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
