"""A run of many members ends once, when all of them have, and says which one failed."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from wherry.core.gang import PREEMPTED, SERVED, SIBLING, Member, together
from wherry.core.lifecycle import (
    GONE_GRACE_S,
    MOST_ATTEMPTS,
    SILENCE_LIMIT_S,
    Decision,
    ExitRecord,
    Facts,
    Phase,
    Reason,
    Stage,
    Status,
    decide,
)

WELL = Facts(Stage.FINALIZING, ExitRecord(exit_code=0, started_at=1.0, ended_at=9.0))
FAILED = Facts(Stage.FINALIZING, ExitRecord(exit_code=3, started_at=2.0, ended_at=7.0))
KILLED = Facts(Stage.FINALIZING, ExitRecord(signal=9, ended_at=8.0))
CANCELED = Facts(Stage.FINALIZING, ExitRecord(exit_code=0, canceled=True, ended_at=9.0))
RUNS = Facts(Stage.RUNNING, phase=Phase.RUNNING)
PREPARES = Facts(Stage.PREPARING, phase=Phase.RUNNING)
STARTS = Facts(None, phase=Phase.PENDING)
GOING = Facts(Stage.RUNNING, phase=Phase.GONE, gone_for_s=GONE_GRACE_S - 1)
LOST = Facts(Stage.RUNNING, phase=Phase.GONE, gone_for_s=GONE_GRACE_S)
DOUBT = Facts(Stage.RUNNING, phase=Phase.UNKNOWN, silent_for_s=SILENCE_LIMIT_S + 1)
ALL = [WELL, FAILED, KILLED, CANCELED, RUNS, PREPARES, STARTS, GOING, LOST, DOUBT]


def members(*facts: Facts, stop: tuple[str | None, ...] = ()) -> list[Member]:
    stops = [*stop, *[None] * len(facts)]
    return [Member(n, f"host {'abc'[n]}", each, stops[n]) for n, each in enumerate(facts)]


@pytest.mark.parametrize("facts", ALL)
def test_a_run_of_one_is_as_it_was(facts: Facts) -> None:
    found = together(members(facts))
    assert found.facts is facts
    assert (found.stop, found.returns, found.tell("exited")) == ((), "", "exited")


def test_one_that_fails_ends_the_others_and_is_named() -> None:
    found = together(members(RUNS, FAILED, RUNS))
    assert (found.stop, found.reason) == ((0, 2), SIBLING)
    assert decide(Status.RUNNING, found.facts) is None
    ended = together(members(CANCELED, FAILED, KILLED, stop=(SIBLING, None, SIBLING)))
    decision = decide(Status.RUNNING, ended.facts)
    assert decision is not None
    assert (decision.status, decision.reason) == (Status.FAILED, Reason.EXIT_CODE)
    assert ended.tell("exited with code 3") == "node 1 (host b) exited with code 3"
    assert not ended.returns


def test_those_that_were_asked_are_not_asked_again() -> None:
    assert together(members(RUNS, FAILED, RUNS, stop=(SIBLING,))).stop == (2,)


def test_of_several_failures_the_first_is_the_cause() -> None:
    assert together(members(KILLED, FAILED)).cause == members(KILLED, FAILED)[1]


def test_a_node_that_is_lost_is_named() -> None:
    found = together(members(RUNS, LOST))
    assert (found.stop, found.reason) == ((0,), SIBLING)
    ended = together(members(CANCELED, LOST, stop=(SIBLING,)))
    decision = decide(Status.RUNNING, ended.facts)
    assert decision is not None
    assert decision.reason is Reason.RUNNER_LOST
    assert ended.tell("its runner ended").startswith("node 1 (host b): its runner ended")
    both = together(members(FAILED, LOST, stop=(None, SIBLING)))
    assert both.tell("exited with code 3") == (
        "node 0 (host a) exited with code 3; node 1 (host b) could not be found any more"
    )


def test_success_is_the_success_of_all_and_keeps_their_warnings() -> None:
    warned = Facts(exit=ExitRecord(exit_code=0, ended_at=3.0, warnings=["x is too large"]))
    found = together(members(WELL, warned)).facts
    assert found.exit is not None
    assert (found.exit.exit_code, found.exit.started_at, found.exit.ended_at) == (0, 1.0, 9.0)
    assert found.exit.warnings == ["node 1 (host b): x is too large"]


def test_the_run_is_as_far_as_its_last_member() -> None:
    for facts, status in [
        ((RUNS, PREPARES), Status.PREPARING),
        ((RUNS, WELL), Status.RUNNING),
        ((RUNS, DOUBT), Status.NOT_RESPONDING),
        ((RUNS, GOING), Status.RUNNING),
    ]:
        decision = decide(Status.STARTING, together(members(*facts)).facts)
        assert decision is not None
        assert decision.status is status
    assert decide(Status.STARTING, together(members(RUNS, STARTS)).facts) is None


def test_preemption_takes_the_whole_run_and_is_nobodys_fault() -> None:
    found = together(members(RUNS, RUNS, RUNS, stop=(PREEMPTED,)))
    assert (found.stop, found.reason) == ((1, 2), PREEMPTED)
    assert not found.returns
    assert together(members(CANCELED, FAILED, stop=(PREEMPTED,))).returns
    assert together(members(KILLED, stop=(PREEMPTED,))).returns
    assert not together(members(WELL, WELL, stop=(PREEMPTED,))).returns
    assert not together(members(WELL, stop=(PREEMPTED,))).returns


def test_servers_end_when_those_they_serve_have() -> None:
    server = replace(members(RUNS)[0], serves=True)
    workers = [replace(each, rank=each.rank + 1) for each in members(WELL, RUNS)]
    assert together([server, *workers]).stop == ()
    done = [replace(each, facts=WELL) for each in workers]
    found = together([server, *done])
    assert (found.stop, found.reason) == ((0,), SERVED)
    ended = together([replace(server, facts=KILLED, stop=SERVED), *done])
    decision = decide(Status.RUNNING, ended.facts)
    assert decision is not None
    assert decision.status is Status.COMPLETED


@pytest.mark.parametrize("count", [2, 3])
def test_every_combination(count: int) -> None:
    for facts in product(ALL, repeat=count):
        group = members(*facts)
        found = together(group)
        live = [each.rank for each in group if not each.ended]
        decision = decide(Status.RUNNING, found.facts)
        assert set(found.stop) <= set(live)
        assert bool(found.stop) == (found.cause is not None and bool(live))
        if live:
            assert decision is None or decision.status is Status.NOT_RESPONDING
            continue
        assert decision is not None
        assert decision.status.terminal
        assert (decision.status is Status.COMPLETED) == all(each == WELL for each in facts)
        assert (found.cause is None) == (decision.status is Status.COMPLETED)


UNSTARTED = Facts(
    Stage.PREPARING, ExitRecord(lost=True, unstarted=True, ended_at=5.0), Phase.EXITED, number=1
)
WITHDRAWN = Facts(Stage.FINALIZING, ExitRecord(canceled=True, ended_at=6.0))


def test_a_run_of_which_nothing_was_executed_anywhere_is_tried_again() -> None:
    ended = together(members(UNSTARTED, WITHDRAWN, stop=(None, SIBLING)))
    decision = decide(Status.PREPARING, ended.facts)
    assert decision == Decision(Status.QUEUED, Reason.RUNNER_LOST)
    assert ended.tell("its runner was killed") == "node 0 (host a): its runner was killed"
    both = together(members(UNSTARTED, UNSTARTED))
    assert decide(Status.PREPARING, both.facts) == decision


@pytest.mark.parametrize("other", [WELL, FAILED, KILLED, CANCELED])
def test_a_run_that_may_have_been_executed_on_one_node_is_not(other: Facts) -> None:
    ended = together(members(UNSTARTED, other, stop=(None, SIBLING)))
    decision = decide(Status.PREPARING, ended.facts)
    assert decision is not None
    assert decision.status is Status.FAILED


def test_it_is_not_tried_for_ever() -> None:
    last = replace(UNSTARTED, number=MOST_ATTEMPTS)
    ended = together(members(last, WITHDRAWN, stop=(None, SIBLING)))
    decision = decide(Status.PREPARING, ended.facts)
    assert decision == Decision(Status.FAILED, Reason.RUNNER_LOST)
