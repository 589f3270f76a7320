"""The short way: an environment that is here already."""

from __future__ import annotations

from typing import List, Optional

from wherry.builds.cache import Cache
from wherry.builds.prepared import Prepared, variables_of
from wherry.builds.recipe import Recipe


def find(cache: Cache, key: str, recipe: Recipe) -> Optional[Prepared]:
    """A few small files are read, nothing is started."""
    answer = cache.answer(key)
    if answer is None:
        return None
    notices = [*recipe.notices, *answer["notices"]]
    return open_environment(cache, answer["environment"], notices, built=False)


def open_environment(
    cache: Cache, environment: str, notices: List[str], built: bool
) -> Optional[Prepared]:
    use = cache.mark_used(environment)
    marker = cache.finished(environment)
    if marker is None:
        use.close()
        return None
    return Prepared(
        interpreter=marker["interpreter"],
        variables=variables_of(marker),
        lock=marker["lock"],
        notices=list(notices),
        prefix=marker["prefix"],
        built=built,
        use=use,
    )
