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
import os, signal, sys, time
from wherry import Run

token, count, pause = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
rank = os.environ.get("RANK", "0")
mine = "" if rank == "0" else "." + rank


def enter(word):
    handle = os.open(os.environ["CHAOS_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, f"{word} {token}{mine}\\n".encode())
    os.close(handle)


def keep(number):
    if "resume" in sys.argv:
        os.makedirs("checkpoints", exist_ok=True)
        with open("checkpoints/next", "w") as file:
            file.write(str(number))


first, asked = 0, []
if "resume" in sys.argv:
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    if os.path.exists("checkpoints/next"):
        first = int(open("checkpoints/next").read())
enter("began")
run = Run.get_context()
for number in range(first, count):
    print(f"{token}{mine} {number}", flush=True)
    run.log("step" + mine, number)
    enter("said")
    if asked:
        keep(number + 1)
        sys.exit()
    time.sleep(pause)
os.makedirs("outputs", exist_ok=True)
with open("outputs/token.txt", "w") as file:
    file.write(token)
keep(count)
enter("ended")
"""
"""Each step is entered after it was printed and logged: what is entered must be in the record."""

BRIEF = """\
echo "began $0" >> "$CHAOS_LEDGER"
echo "$0 0"
echo "said $0" >> "$CHAOS_LEDGER"
echo "ended $0" >> "$CHAOS_LEDGER"
"""
"""Over before anyone looks, without metrics and files: such runs go home by another way."""


@dataclass
class Entry:
    """One submission. ``acknowledged``: the server said that it has it.

    ``brief``: it prints one line and leaves nothing else. ``followed``: the whole log, as a client
    saw it that followed the run to its end. ``nodes``: how many it has, each of which does all of
    it. ``evictions``: how often it may have been taken away; then it goes on where it was.
    ``given_up``: its machine may have been declared lost, and what it said since then refused.
    """

    token: str
    count: int
    acknowledged: bool = False
    may_be_canceled: bool = False
    may_be_lost: bool = False
    brief: bool = False
    followed: bytes | None = None
    nodes: int = 1
    evictions: int = 0
    given_up: bool = False


@dataclass(frozen=True)
class Told:
    """What the script itself entered into the ledger."""

    began: int
    said: int
    ended: int


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
        by_token: dict[str, list[Run]] = {}
        for run in all_runs():
            by_token.setdefault(token_of(run), []).append(run)
        words = Counter(ledger.read_text().splitlines())
        wrong = [
            f"a run of nobody: {run.id}"
            for token in by_token.keys() - self.entries.keys()
            for run in by_token[token]
        ]
        for token, entry in self.entries.items():
            for mine in ["", *(f".{rank}" for rank in range(1, entry.nodes))]:
                told = Told(
                    *(words[f"{word} {token}{mine}"] for word in ("began", "said", "ended"))
                )
                found = by_token.get(token, [])
                wrong += [f"{token}{mine}: {fault}" for fault in _faults(entry, found, told, mine)]
        return wrong


def all_runs() -> list[Run]:
    return list(Workspace.get(WORKSPACE).iter_runs(include_children=True, archived="all"))


def token_of(run: Run) -> str:
    """The first argument of the script, the last of a brief command."""
    spec = run.record["spec"]
    return str(spec["command"][-1] if spec["command"] else spec["arguments"][0])


def _faults(entry: Entry, found: Sequence[Run], told: Told, mine: str) -> list[str]:
    if len(found) > 1 or (entry.acknowledged and not found):
        return [f"{len(found)} runs for one submission"]
    if not found:
        return ["executed, but there is no run"] if told.began else []
    record = found[0].record
    faults = []
    if told.began > 1 + entry.evictions:
        faults.append(f"executed {told.began} times")
    if record["status"] not in _endings(entry):
        faults.append(f"is {record['status']} ({record['message']})")
    if record["status"] == "Completed" and not _whole(entry, told):
        faults.append(f"completed, but began {told.began} and ended {told.ended} times")
    return faults + _contents(entry, found[0], told, mine)


def _whole(entry: Entry, told: Told) -> bool:
    if entry.evictions:
        return told.began >= told.ended >= 1 and told.said == entry.count
    return (told.began, told.ended) == (1, 1)


def _endings(entry: Entry) -> set[str]:
    wanted = {"Completed"}
    if entry.may_be_canceled:
        wanted.add("Canceled")
    if entry.may_be_lost:
        wanted.add("Failed")
    return wanted


def _contents(entry: Entry, run: Run, told: Told, mine: str) -> list[str]:
    """The log and the metric, each line once, none missing that the script says it wrote.

    The log is that of the first node, and of the last attempt.
    """
    faults = []
    log = _log(run)
    lines = [line for line in log.decode().split("\n")[:-1] if line.startswith(entry.token)]
    kept: list[tuple[str, list[Any], list[Any]]] = []
    if not mine and not entry.evictions:
        wanted = [f"{entry.token} {number}" for number in range(entry.count)]
        kept.append(("log", lines, wanted))
    if not entry.brief:
        kept.append(("metric", _steps(run, mine), list(range(entry.count))))
    for what, got, wanted in kept:
        if got != wanted[: len(got)]:
            faults.append(f"its {what} has {len(got)} lines, doubled or in another order")
        elif len(got) < told.said and not (entry.given_up and run.record["status"] == "Failed"):
            faults.append(f"its {what} has {len(got)} of {told.said} lines")
    if (
        told.ended
        and not entry.brief
        and not entry.given_up
        and "outputs/token.txt" not in run.get_file_names()
    ):
        faults.append(f"its output is missing ({run.id}: {run.record['message']})")
    if entry.followed is not None and entry.followed != log:
        faults.append(f"a client saw {len(entry.followed)} of {len(log)} bytes of its log")
    return faults


def _log(run: Run) -> bytes:
    chunks: list[bytes] = []
    run.stream_logs(chunks.append, follow=False)
    return b"".join(chunks)


def _steps(run: Run, mine: str) -> list[Any]:
    steps = run.get_metrics().get(f"step{mine}", [])
    return list(steps) if isinstance(steps, list) else [steps]
