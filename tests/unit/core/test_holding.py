from __future__ import annotations

from wherry.core.holding import SETUP_S, STORING_S, longest_s, until

LIMIT_S, GRACE_S = 100.0, 30.0
WHOLE_S = SETUP_S + LIMIT_S + GRACE_S + STORING_S


def test_set_up_the_last_moments_and_the_outputs_count() -> None:
    assert longest_s(LIMIT_S, GRACE_S) == WHOLE_S
    assert longest_s(None, GRACE_S) is None


def test_the_limit_counts_from_the_moment_that_the_command_runs() -> None:
    end = 1050.0 + LIMIT_S + GRACE_S + STORING_S
    assert until(LIMIT_S, GRACE_S, 1000.0, 1050.0, 1051.0) == end
    assert until(LIMIT_S, GRACE_S, 1000.0, 1050.0, end) == end
    assert until(LIMIT_S, GRACE_S, 1000.0, 1050.0, end + 1) is None


def test_a_set_up_that_takes_longer_than_it_may_has_no_known_end() -> None:
    assert until(LIMIT_S, GRACE_S, 1000.0, None, 1000.0 + SETUP_S) == 1000.0 + WHOLE_S
    assert until(LIMIT_S, GRACE_S, 1000.0, None, 1001.0 + SETUP_S) is None


def test_without_a_limit_there_is_no_end() -> None:
    assert until(None, GRACE_S, 1000.0, 1001.0, 1002.0) is None
