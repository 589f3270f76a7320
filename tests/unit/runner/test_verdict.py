from __future__ import annotations

import os
import signal

import pytest

from wherry.runner.verdict import READ_BACK, conclude, find_exception, last_lines

WORK = "/nodes/a1/work"

PLAIN = f"""\
epoch 1
Traceback (most recent call last):
  File "{WORK}/train.py", line 4, in <module>
    main()
    ~~~~^^
  File "{WORK}/train.py", line 3, in main
    lib.check(3)
  File "{WORK}/pkg/lib.py", line 2, in check
    raise ValueError("bad value: %r" % x)
ValueError: bad value: 3
"""
RELATIVE = """\
Traceback (most recent call last):
  File "train.py", line 4, in <module>
    main()
  File "/usr/lib/python3.8/json/decoder.py", line 353, in raw_decode
    obj, end = self.scan_once(s, idx)
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
CHAINED = f"""\
Traceback (most recent call last):
  File "{WORK}/train.py", line 4, in load
    json.loads("{{")
json.decoder.JSONDecodeError: Expecting property name: line 1 column 2 (char 1)

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "{WORK}/train.py", line 7, in <module>
    load()
  File "{WORK}/train.py", line 6, in load
    raise RuntimeError("cannot read the config") from e
RuntimeError: cannot read the config
"""
SYNTAX = f"""\
  File "{WORK}/train.py", line 1
    def f(:
          ^
SyntaxError: invalid syntax
"""
IMPORTED_SYNTAX = f"""\
Traceback (most recent call last):
  File "{WORK}/train.py", line 1, in <module>
    import syn
  File "{WORK}/syn.py", line 9
    def f(:
          ^
SyntaxError: invalid syntax
"""
GROUP = f"""\
  + Exception Group Traceback (most recent call last):
  |   File "{WORK}/group.py", line 9, in <module>
  |     raise ExceptionGroup("both failed", errors)
  | ExceptionGroup: both failed (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "{WORK}/group.py", line 4, in two
    |     raise KeyError("second")
    | KeyError: 'second'
    +------------------------------------
"""
RANKS = f"""\
[rank0]: Traceback (most recent call last):
[rank0]:   File "{WORK}/train.py", line 12, in <module>
[rank0]:     dist.init()
[rank0]: RuntimeError: no peers
"""
LONG_MESSAGE = f"""\
Traceback (most recent call last):
  File "{WORK}/train.py", line 5, in <module>
    net.load_state_dict(state)
  File "/venv/lib/python3.11/site-packages/torch/nn/module.py", line 2000, in load_state_dict
    raise RuntimeError(...)
RuntimeError: Error(s) in loading state_dict for Net:
\tMissing key(s) in state_dict: "a".
  and more of it, indented
wandb: done
"""


@pytest.mark.parametrize(
    ("log", "exception", "file", "line", "source"),
    [
        (
            PLAIN,
            "ValueError: bad value: 3",
            "pkg/lib.py",
            2,
            'raise ValueError("bad value: %r" % x)',
        ),
        (
            RELATIVE,
            "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
            "train.py",
            4,
            "main()",
        ),
        (
            CHAINED,
            "RuntimeError: cannot read the config",
            "train.py",
            6,
            'raise RuntimeError("cannot read the config") from e',
        ),
        (SYNTAX, "SyntaxError: invalid syntax", "train.py", 1, "def f(:"),
        (IMPORTED_SYNTAX, "SyntaxError: invalid syntax", "syn.py", 9, "def f(:"),
        (GROUP, "KeyError: 'second'", "group.py", 4, 'raise KeyError("second")'),
        (RANKS, "RuntimeError: no peers", "train.py", 12, "dist.init()"),
        (
            LONG_MESSAGE,
            "RuntimeError: Error(s) in loading state_dict for Net",
            "train.py",
            5,
            "net.load_state_dict(state)",
        ),
    ],
    ids=["plain", "relative", "chained", "syntax", "imported", "group", "ranks", "long"],
)
def test_the_exception_and_the_line_of_their_file(
    log: str, exception: str, file: str, line: int, source: str
) -> None:
    record = conclude(exited(1), log.encode(), WORK)
    error = record["error"]
    assert (error["exception"], error["file"], error["line"]) == (exception, file, line)
    assert error["source"] == source
    assert error["message"] == f"exited with code 1: {exception} ({file}, line {line})"
    assert error["tail"] == log.rstrip()


def test_a_success_has_no_error() -> None:
    record = conclude(exited(0), PLAIN.encode(), WORK)
    assert record["error"] is None
    assert record["exit_code"] == 0
    assert not record["out_of_memory"]


def test_an_exit_code_without_an_exception() -> None:
    error = conclude(exited(3), b"usage: train.py FILE\n", WORK)["error"]
    assert error["message"] == "exited with code 3"
    assert error["tail"] == "usage: train.py FILE"
    assert "exception" not in error


def test_an_exception_that_was_survived_is_not_the_cause() -> None:
    log = PLAIN + "".join(f"epoch {number}\n" for number in range(50))
    assert "exception" not in conclude(exited(1), log.encode(), WORK)["error"]
    assert "exception" not in conclude(exited(3), (PLAIN + "giving up\n").encode(), WORK)["error"]


def test_a_long_message_belongs_to_its_exception() -> None:
    missing = "".join(f"\tsize mismatch for layer.{number}.weight\n" for number in range(300))
    log = PLAIN.replace("bad value: 3\n", "Error(s) in loading state_dict:\n" + missing)
    error = conclude(exited(1), log.encode(), WORK)["error"]
    assert error["exception"] == "ValueError: Error(s) in loading state_dict"
    assert (error["file"], error["line"]) == ("pkg/lib.py", 2)


def test_a_message_of_many_bytes_is_cut() -> None:
    log = PLAIN.replace("bad value: 3", "x" * 200_000).encode()
    error = conclude(exited(1), log[-READ_BACK:], WORK)["error"]
    assert error["exception"].startswith("ValueError: xxx")
    assert len(error["exception"]) <= 500


def test_an_exception_class_of_a_function() -> None:
    log = PLAIN.replace("ValueError: bad", "main.<locals>.Bad: bad")
    error = conclude(exited(1), log.encode(), WORK)["error"]
    assert error["exception"] == "main.<locals>.Bad: bad value: 3"


def test_an_exception_that_is_the_last_word_counts_with_any_code() -> None:
    assert conclude(exited(120), PLAIN.encode(), WORK)["error"]["file"] == "pkg/lib.py"


def test_a_frame_in_an_environment_inside_the_directory_is_not_theirs() -> None:
    log = PLAIN.replace(f"{WORK}/pkg/lib.py", f"{WORK}/.venv/lib/site-packages/lib.py")
    assert conclude(exited(1), log.encode(), WORK)["error"]["file"] == "train.py"


def test_no_frame_of_theirs_leaves_the_place_out() -> None:
    found = find_exception(last_lines(PLAIN.replace(WORK, "/elsewhere").encode()), WORK)
    assert found == {"exception": "ValueError: bad value: 3"}


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_signal_is_kept(number: int) -> None:
    record = conclude(number, b"", WORK)
    assert (record["exit_code"], record["signal"]) == (None, number)
    assert record["error"]["message"] == f"killed by signal {int(number)}"
    assert not record["out_of_memory"]


@pytest.mark.parametrize("status", [signal.SIGKILL, 137 << 8], ids=["signal", "shell"])
def test_a_kill_while_the_kernel_ran_out_of_memory(status: int) -> None:
    assert conclude(status, b"", WORK, memory_kills=True)["out_of_memory"]
    assert conclude(status, b"", WORK, memory_kills=True)["error"]["message"] == "ran out of memory"
    assert not conclude(status, b"", WORK)["out_of_memory"]
    assert not conclude(status, b"", WORK, memory_kills=True, killed_by_us=True)["out_of_memory"]
    assert not conclude(status, b"", WORK, memory_kills=True, canceled=True)["out_of_memory"]


@pytest.mark.parametrize(
    "name", ["MemoryError", "numpy.core._exceptions._ArrayMemoryError", "torch.OutOfMemoryError"]
)
def test_a_memory_error_is_out_of_memory(name: str) -> None:
    log = PLAIN.replace("ValueError: bad value: 3", f"{name}: Unable to allocate 8 GiB")
    assert conclude(exited(1), log.encode(), WORK)["out_of_memory"]


@pytest.mark.parametrize(
    "words",
    [
        "subprocess.CalledProcessError: Command 'x' died with <Signals.SIGKILL: 9>.",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.",
        "concurrent.futures.process.BrokenProcessPool: A process was terminated abruptly",
    ],
)
def test_a_worker_killed_for_its_memory(words: str) -> None:
    log = PLAIN.replace("ValueError: bad value: 3", words).encode()
    assert conclude(exited(1), log, WORK, memory_kills=True)["out_of_memory"]
    assert not conclude(exited(1), log, WORK)["out_of_memory"]
    assert not conclude(exited(1), PLAIN.encode(), WORK, memory_kills=True)["out_of_memory"]


def test_another_signal_while_memory_ran_out_elsewhere() -> None:
    assert not conclude(signal.SIGSEGV, b"", WORK, memory_kills=True)["out_of_memory"]


def test_canceled_and_timed_out() -> None:
    canceled = conclude(signal.SIGTERM, b"", WORK, canceled=True)
    assert canceled["canceled"]
    assert canceled["error"] is None
    late = conclude(exited(0), b"", WORK, timed_out=True)
    assert late["error"]["message"] == "ran longer than its time limit and was ended"


def test_the_tail_is_what_a_terminal_would_show() -> None:
    log = b"10%\r50%\r100%\r\n\xff\xfe odd\n" + b"x" * 5000 + b"\nend\n\n"
    lines = last_lines(log)
    assert lines[0] == "100%"
    assert lines[1] == "\ufffd\ufffd odd"
    assert len(lines[2]) == 500
    assert lines[-1] == "end"


def test_the_tail_is_short() -> None:
    log = "\n".join("y" * 400 for _ in range(1000)).encode()
    assert len(conclude(exited(2), log[-READ_BACK:], WORK)["error"]["tail"]) <= 4000


@pytest.mark.parametrize("log", [b"", b"\n", b"  File \n", b"Traceback\n  x\nE", b"\x00" * 100])
def test_any_log_is_survived(log: bytes) -> None:
    assert conclude(exited(1), log, WORK)["exit_code"] == 1


def exited(code: int) -> int:
    status = code << 8
    assert os.WEXITSTATUS(status) == code
    return status
