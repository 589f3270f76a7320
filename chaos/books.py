"""What was sent, and whether the server's records say the same: once each, nothing more."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wherry import Run, Workspace

TAG = "chaos"
WORKSPACE = "chaos"

SCRIPT = """\
import os, sys, time
from wherry import Run

token, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])


def enter(word):
    handle = os.open(os.environ["CHAOS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{word} {token}\\n".encode())
    os.close(handle)


enter("began")
run = Run.get_context()
for number in range(count):
    print(f"{token} {number}", flush=True)
    run.log("step", number)
    time.sleep(pause)
os.makedirs("outputs", exist_ok=True)
with open("outputs/token.txt", "w") as file:
    file.write(token)
enter("ended")
"""


@dataclass
class Entry:
    """One submission. ``acknowledged``: the server said that it has it."""

    token: str
    count: int
    acknowledged: bool = False
    may_be_canceled: bool = False
    may_be_lost: bool = False


@dataclass
class Books:
    """Filled by whoever submits, from any thread; closed by ``audit``."""

    entries: dict[str, Entry] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def open(self, token: str, count: int) -> Entry:
        entry = Entry(token, count)
        with self._lock:
            self.entries[token] = entry
        return entry

    def audit(self, ledger: Path) -> list[str]:
        """Everything that is wrong, in words."""
        runs = all_runs()
        by_token: dict[str, list[Run]] = {}
        for run in runs:
            by_token.setdefault(run.get_tags().get(TAG, ""), []).append(run)
        words = Counter(ledger.read_text().splitlines())
        wrong = [f"a run of nobody: {run.id}" for run in by_token.get("", [])]
        for entry in self.entries.values():
            found = by_token.get(entry.token, [])
            began, ended = words[f"began {entry.token}"], words[f"ended {entry.token}"]
            wrong += [f"{entry.token}: {fault}" for fault in _faults(entry, found, began, ended)]
        return wrong


def all_runs() -> list[Run]:
    return list(Workspace.get(WORKSPACE).iter_runs(include_children=True, archived="all"))


def _faults(entry: Entry, found: Sequence[Run], began: int, ended: int) -> list[str]:
    if len(found) > 1 or (entry.acknowledged and not found):
        return [f"{len(found)} runs for one submission"]
    if not found:
        return []
    run = found[0]
    record = run.record
    faults = []
    if began > 1:
        faults.append(f"executed {began} times")
    if record["status"] not in _endings(entry):
        faults.append(f"is {record['status']} ({record['message']})")
    if record["status"] == "Completed" and (began, ended) != (1, 1):
        faults.append(f"completed, but began {began} and ended {ended} times")
    return faults + _contents(entry, run, whole=bool(ended))


def _endings(entry: Entry) -> set[str]:
    wanted = {"Completed"}
    if entry.may_be_canceled:
        wanted.add("Canceled")
    if entry.may_be_lost:
        wanted.add("Failed")
    return wanted


def _contents(entry: Entry, run: Run, *, whole: bool) -> list[str]:
    """The log and the metric, each line once; all of them if the script came to its end."""
    faults = []
    whole_lines = _log(run).split("\n")[:-1]
    lines = [line for line in whole_lines if line.startswith(entry.token)]
    steps = _steps(run)
    for what, got, wanted in (
        ("log", lines, [f"{entry.token} {number}" for number in range(entry.count)]),
        ("metric", steps, list(range(entry.count))),
    ):
        expected = wanted if whole else wanted[: len(got)]
        if got != expected:
            faults.append(f"{what} has {len(got)} of {len(wanted)}, or another order")
    if whole and "outputs/token.txt" not in run.get_file_names():
        faults.append("its output is missing")
    return faults


def _log(run: Run) -> str:
    chunks: list[bytes] = []
    run.stream_logs(chunks.append, follow=False)
    return b"".join(chunks).decode()


def _steps(run: Run) -> list[Any]:
    steps = run.get_metrics().get("step", [])
    return list(steps) if isinstance(steps, list) else [steps]
