"""Every combination of status and facts, and random histories."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wherry.core.lifecycle import (
    GONE_GRACE_S,
    MOST_ATTEMPTS,
    SILENCE_LIMIT_S,
    TERMINAL,
    TRANSITIONS,
    Decision,
    ExitRecord,
    Facts,
    Phase,
    Reason,
    Stage,
    Status,
    decide,
    verdict,
)

EXITS = [
    None,
    ExitRecord(exit_code=0),
    ExitRecord(exit_code=3),
    ExitRecord(signal=9),
    ExitRecord(signal=9, out_of_memory=True),
    ExitRecord(exit_code=0, canceled=True),
    ExitRecord(signal=15, timed_out=True),
    ExitRecord(setup_error="no such file"),
]
ALL_FACTS = [
    Facts(stage, exit, phase, gone, silent)
    for stage, exit, phase, gone, silent in product(
        [None, *Stage], EXITS, Phase, [0.0, GONE_GRACE_S + 1], [0.0, SILENCE_LIMIT_S + 1]
    )
]


def test_the_table_covers_every_status() -> None:
    assert set(TRANSITIONS) == set(Status)
    assert all(not TRANSITIONS[end] for end in TERMINAL)


@pytest.mark.parametrize("status", Status)
def test_decisions_respect_the_table_and_the_truth_order(status: Status) -> None:
    for facts, cancel in product(ALL_FACTS, [False, True]):
        decision = decide(status, facts, cancel_requested=cancel)
        if decision is None:
            continue
        assert decision.status in TRANSITIONS[status]
        if facts.exit is not None:
            assert decision == verdict(facts.exit)
        elif decision.status in TERMINAL:
            assert facts.phase is Phase.GONE
            assert facts.gone_for_s >= GONE_GRACE_S


def test_doubt_never_ends_a_run() -> None:
    for status, stage in product(set(Status) - TERMINAL, [None, *Stage]):
        facts = Facts(stage, None, Phase.UNKNOWN, 1e9, 1e9)
        decision = decide(status, facts, cancel_requested=True)
        assert decision is None or decision.status is Status.NOT_RESPONDING


def test_an_exit_record_always_ends_an_active_run() -> None:
    for status in (Status.STARTING, Status.PREPARING, Status.RUNNING, Status.NOT_RESPONDING):
        for exit in EXITS[1:]:
            assert exit is not None
            assert decide(status, Facts(exit=exit)) == verdict(exit)


@pytest.mark.parametrize(
    ("exit", "status", "reason"),
    [
        (ExitRecord(exit_code=0), Status.COMPLETED, Reason.SUCCEEDED),
        (ExitRecord(exit_code=1), Status.FAILED, Reason.EXIT_CODE),
        (ExitRecord(signal=11), Status.FAILED, Reason.SIGNAL),
        (ExitRecord(signal=9, out_of_memory=True), Status.FAILED, Reason.OUT_OF_MEMORY),
        (ExitRecord(exit_code=0, canceled=True), Status.CANCELED, Reason.CANCELED),
        (ExitRecord(signal=9, canceled=True, timed_out=True), Status.FAILED, Reason.TIME_LIMIT),
        (ExitRecord(setup_error="x"), Status.FAILED, Reason.SETUP_FAILED),
    ],
)
def test_verdicts(exit: ExitRecord, status: Status, reason: Reason) -> None:
    decision = verdict(exit)
    assert (decision.status, decision.reason) == (status, reason)


def test_absence_counts_only_after_the_grace() -> None:
    gone = Facts(Stage.RUNNING, None, Phase.GONE, GONE_GRACE_S - 1)
    assert decide(Status.RUNNING, gone) is None
    lost = decide(Status.RUNNING, Facts(Stage.RUNNING, None, Phase.GONE, GONE_GRACE_S))
    assert lost is not None
    assert (lost.status, lost.reason) == (Status.FAILED, Reason.RUNNER_LOST)
    canceled = decide(
        Status.RUNNING,
        Facts(Stage.RUNNING, None, Phase.GONE, GONE_GRACE_S),
        cancel_requested=True,
    )
    assert canceled is not None
    assert canceled.status is Status.CANCELED


def test_a_runner_that_is_heard_again_responds_again() -> None:
    silent = Facts(Stage.RUNNING, silent_for_s=SILENCE_LIMIT_S + 1)
    decision = decide(Status.RUNNING, silent)
    assert decision is not None
    assert decision.status is Status.NOT_RESPONDING
    back = decide(Status.NOT_RESPONDING, Facts(Stage.RUNNING))
    assert back is not None
    assert back.status is Status.RUNNING


@given(st.lists(st.tuples(st.sampled_from(ALL_FACTS), st.booleans()), max_size=30))
def test_a_terminal_status_is_never_left(history: list[tuple[Facts, bool]]) -> None:
    status = Status.STARTING
    for facts, cancel in history:
        decision = decide(status, facts, cancel_requested=cancel)
        if decision is not None:
            assert not status.terminal
            status = decision.status


def test_a_lost_end_is_a_cancel_if_one_was_asked_for() -> None:
    facts = Facts(exit=ExitRecord(lost=True))
    lost = decide(Status.RUNNING, facts)
    assert lost == Decision(Status.FAILED, Reason.RUNNER_LOST)
    canceled = decide(Status.RUNNING, facts, cancel_requested=True)
    assert canceled == Decision(Status.CANCELED, Reason.CANCELED)


UNSTARTED = ExitRecord(lost=True, unstarted=True)
AGAIN = Decision(Status.QUEUED, Reason.RUNNER_LOST)
NOT_AGAIN = Decision(Status.FAILED, Reason.RUNNER_LOST)


@pytest.mark.parametrize(
    ("status", "facts", "decided"),
    [
        (Status.PREPARING, Facts(Stage.PREPARING, UNSTARTED), AGAIN),
        (Status.STARTING, Facts(None, UNSTARTED), AGAIN),
        (Status.NOT_RESPONDING, Facts(Stage.PREPARING, UNSTARTED, number=2), AGAIN),
        (Status.PREPARING, Facts(Stage.PREPARING, UNSTARTED, number=MOST_ATTEMPTS), NOT_AGAIN),
        (Status.PREPARING, Facts(Stage.PREPARING, ExitRecord(lost=True)), NOT_AGAIN),
        (Status.RUNNING, Facts(Stage.RUNNING, UNSTARTED), NOT_AGAIN),
        (Status.NOT_RESPONDING, Facts(Stage.RUNNING, UNSTARTED), NOT_AGAIN),
        (Status.FINALIZING, Facts(Stage.FINALIZING, UNSTARTED), NOT_AGAIN),
    ],
)
def test_what_was_never_started_is_tried_again(
    status: Status, facts: Facts, decided: Decision
) -> None:
    assert decide(status, facts) == decided
    canceled = decide(status, facts, cancel_requested=True)
    assert canceled == Decision(Status.CANCELED, Reason.CANCELED)
