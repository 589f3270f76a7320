"""How an end is told."""

from __future__ import annotations

import pytest

from wherry.core.endings import describe
from wherry.core.lifecycle import ExitRecord, Reason

PYTHON = {"exception": "ValueError: no", "file": "train.py", "line": 7, "tail": "..."}


@pytest.mark.parametrize(
    ("reason", "exit", "sentence"),
    [
        (Reason.SUCCEEDED, ExitRecord(exit_code=0), ""),
        (Reason.SUCCEEDED, ExitRecord(exit_code=0, warnings=["a", "b"]), "a; b"),
        (Reason.CANCELED, ExitRecord(signal=15, canceled=True), "canceled"),
        (
            Reason.EXIT_CODE,
            ExitRecord(exit_code=1, error=PYTHON),
            "exited with code 1: ValueError: no (train.py, line 7)",
        ),
        (Reason.SIGNAL, ExitRecord(signal=11), "killed by SIGSEGV"),
        (Reason.SIGNAL, ExitRecord(signal=250), "killed by signal 250"),
        (Reason.OUT_OF_MEMORY, ExitRecord(signal=9, out_of_memory=True), "ran out of memory"),
        (
            Reason.OUT_OF_MEMORY,
            ExitRecord(signal=9, out_of_memory=True, error={"memory_bytes": 2 * 10**9}),
            "ran out of memory; it may use 2.0 GB: ask for more, or let it use less",
        ),
        (
            Reason.SIGNAL,
            ExitRecord(signal=9, error={"detail": "its container was removed from outside"}),
            "killed by SIGKILL: its container was removed from outside",
        ),
        (Reason.TIME_LIMIT, ExitRecord(timed_out=True), "ran longer than its limit of 5 s"),
        (
            Reason.SETUP_FAILED,
            ExitRecord(setup_error="no python"),
            "could not be started: no python",
        ),
        (Reason.RUNNER_LOST, None, "without leaving an exit record"),
        (
            Reason.RUNNER_LOST,
            ExitRecord(lost=True, error={"message": "the machine was restarted while it ran"}),
            "the machine was restarted while it ran, and it left no exit record",
        ),
    ],
)
def test_the_sentence_names_the_cause(
    reason: Reason, exit: ExitRecord | None, sentence: str
) -> None:
    told, error = describe(reason, exit, limit_s=5)
    assert sentence in told
    if reason in (Reason.SUCCEEDED, Reason.CANCELED):
        assert error is None
    else:
        assert error is not None
        assert (error["code"], error["message"]) == (reason.value, told)


def test_the_error_keeps_what_the_runner_found() -> None:
    _, error = describe(Reason.EXIT_CODE, ExitRecord(exit_code=1, error=PYTHON))
    assert error is not None
    assert (error["exit_code"], error["file"], error["line"]) == (1, "train.py", 7)
    _, error = describe(Reason.SIGNAL, ExitRecord(signal=9))
    assert error is not None
    assert error["signal"] == "SIGKILL"


@pytest.mark.parametrize(
    ("exception", "words"),
    [
        ("ModuleNotFoundError: No module named 'torch'", "it ran in /opt/python: --env names"),
        ("FileNotFoundError: [Errno 2] No such file: 'data/x.csv'", "the files of its snapshot"),
    ],
)
def test_first_day_failures_come_with_a_remedy(exception: str, words: str) -> None:
    exit = ExitRecord(exit_code=1, error={"exception": exception})
    told, _ = describe(Reason.EXIT_CODE, exit, interpreter="/opt/python")
    assert words in told


def test_a_module_that_an_environment_lacks_is_to_be_added_to_it() -> None:
    exit = ExitRecord(exit_code=1, error={"exception": "ModuleNotFoundError: No module 'six'"})
    told, _ = describe(Reason.EXIT_CODE, exit, environment="train")
    assert "environment 'train' does not have it" in told


def test_a_missing_absolute_path_is_not_the_snapshots_fault() -> None:
    exit = ExitRecord(exit_code=1, error={"exception": "FileNotFoundError: '/data/x.csv'"})
    told, _ = describe(Reason.EXIT_CODE, exit, interpreter="/opt/python")
    assert told.endswith("'/data/x.csv'")
