"""The campaign of ``make fuzz`` in a short form."""

from __future__ import annotations

import pytest

from tests.fuzz.campaign import Campaign
from tests.fuzz.target import Target

pytestmark = pytest.mark.attack


def test_every_answer_is_documented_and_none_is_a_failure(target: Target) -> None:
    campaign = Campaign(target, seed=1)
    campaign.run(examples=10)
    assert campaign.faults == []
    assert campaign.requests > 400
    assert {200, 201, 400, 403, 404, 409} <= set(campaign.answers)
