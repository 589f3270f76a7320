"""The drills of the campaign in a short form: ``make drills``.

They wait more than they work, so some are held at once, each in a process and a home of its own.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor

import pytest
from chaos.drills import DRILLS, Outcome, hold
from chaos.world import Unavailable

pytestmark = pytest.mark.chaos

AT_ONCE = 4


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Outcome]]]:
    """Those of the drills that were asked for."""
    asked = [item.callspec.params["name"] for item in request.session.items]  # type: ignore[attr-defined]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(AT_ONCE, context, max_tasks_per_child=1) as pool:
        yield {name: pool.submit(hold, name, DRILLS[name].short, 1) for name in asked}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", DRILLS)
def test_afterwards_the_books_balance(name: str, outcomes: dict[str, Future[Outcome]]) -> None:
    try:
        outcome = outcomes[name].result()
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert outcome.wrong == []
