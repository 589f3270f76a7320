"""Timing, a home of one's own, and the table that every benchmark prints."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Row:
    """One line of the table. ``holds`` is None where there is no goal."""

    what: str
    measured: str
    baseline: str = ""
    ratio: str = ""
    goal: str = ""
    holds: bool | None = None


def ratio_row(
    what: str, measured_s: float, baseline: str, baseline_s: float, at_most: float
) -> Row:
    """Times in the same run; the ratio must not exceed ``at_most``."""
    ratio = measured_s / baseline_s
    return Row(
        what,
        f"{measured_s * 1000:.1f} ms",
        f"{baseline}: {baseline_s * 1000:.1f} ms",
        f"{ratio:.2f}x",
        f"<= {at_most:g}x",
        ratio <= at_most,
    )


def medians_s(
    measured: Callable[[], object],
    baseline: Callable[[], object],
    rounds: int,
    before: Callable[[], object] = lambda: None,
) -> tuple[float, float]:
    """Of both, over rounds in which they take turns: what disturbs the one disturbs the other.

    ``before`` each round, something that is not measured.
    """
    taken: list[tuple[float, float]] = []
    for _ in range(rounds):
        before()
        taken.append((_time_s(measured), _time_s(baseline)))
    return statistics.median(t[0] for t in taken), statistics.median(t[1] for t in taken)


def _time_s(act: Callable[[], object]) -> float:
    started = time.perf_counter()
    act()
    return time.perf_counter() - started


def command(*argv: str | Path) -> Callable[[], object]:
    """Runs a program to its end, its output dropped."""
    words = [str(word) for word in argv]

    def act() -> None:
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return act


PYTHON = sys.executable
WHERRY = str(Path(sys.executable).with_name("wherry"))


@contextmanager
def scratch() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="wherry-bench-"))
    try:
        yield folder
    finally:
        _end_processes(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _end_processes(folder: Path) -> None:
    """Runners outlive their server, and would wait for it for ever once its home is gone."""
    for process in psutil.process_iter(["cmdline"]):
        if any(str(folder) in word for word in process.info["cmdline"] or ()):
            with contextlib.suppress(psutil.Error):
                for each in [*process.children(recursive=True), process]:
                    each.kill()


@contextmanager
def server_home() -> Iterator[Path]:
    """An empty home, whose server is stopped in the end."""
    with scratch() as folder:
        saved = dict(os.environ)
        os.environ.update(WHERRY_HOME=str(folder / "home"), WHERRY_CACHE=str(folder / "cache"))
        try:
            yield folder
        finally:
            subprocess.run([WHERRY, "server", "stop"], capture_output=True)
            os.environ.clear()
            os.environ.update(saved)


def pss_mb(pid: int) -> float:
    """A process' proportional share of memory (Linux)."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1024
    return float("nan")


@contextmanager
def peak_pss_mb(*pids: int) -> Iterator[list[float]]:
    """The highest memory of each process, while the block lasts, told when it ends."""
    peaks, stopping = [0.0] * len(pids), threading.Event()

    def watch() -> None:
        while not stopping.wait(0.1):
            for place, pid in enumerate(pids):
                with contextlib.suppress(OSError):
                    peaks[place] = max(peaks[place], pss_mb(pid))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield peaks
    finally:
        stopping.set()
        watcher.join()


def print_table(rows: Sequence[Row]) -> None:
    """In Markdown, which can also be read as it is."""
    cells = [("what", "measured", "baseline", "ratio", "goal", "")]
    for row in rows:
        mark = {None: "", True: "ok", False: "**missed**"}[row.holds]
        cells.append((row.what, row.measured, row.baseline, row.ratio, row.goal, mark))
    widths = [max(len(line[column]) for line in cells) for column in range(6)]
    cells.insert(1, tuple("-" * width for width in widths))  # type: ignore[arg-type]
    for line in cells:
        print(f"| {' | '.join(cell.ljust(w) for cell, w in zip(line, widths, strict=True))} |")
