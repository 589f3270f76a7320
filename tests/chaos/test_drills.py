"""The drills of the campaign in a short form: ``make drills``."""

from __future__ import annotations

import pytest
from chaos.drills import DRILLS, Unavailable, hold

ROUNDS = {"server killed": 50, "client killed": 5, "runner killed": 3, "everything killed": 3}

pytestmark = pytest.mark.chaos


@pytest.mark.parametrize("name", DRILLS)
def test_afterwards_the_books_balance(name: str) -> None:
    try:
        outcome = hold(name, ROUNDS.get(name, 2), seed=1)
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert outcome.wrong == []
