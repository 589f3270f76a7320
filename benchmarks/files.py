"""A run's files up and down: one of a gigabyte, and 5,000 small ones, against ``cp``.

What was uploaded is on disk, so the copy is synced, too; what is fetched need not be.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from benchmarks.measure import Row, medians_s, ratio_row, server_home
from benchmarks.snapshots import clear, run
from wherry import Experiment, Run, Workspace

GIGABYTE = 1_000_000_000
FILES = 5_000
ROUNDS = 3


def rows() -> list[Row]:
    with server_home() as place:
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "files")
        with experiment.start_logging(snapshot_directory=None) as logged:
            return [*_large(logged, place), *_small(logged, place)]


def _large(logged: Run, place: Path) -> list[Row]:
    source, copy, back = place / "large", place / "copy", place / "back"
    with source.open("wb") as file:
        for _ in range(GIGABYTE // 1_000_000):
            file.write(os.urandom(1_000_000))

    def renew() -> None:
        """A content that the server has not."""
        with source.open("r+b") as file:
            file.write(os.urandom(64))
        copy.unlink(missing_ok=True)
        os.sync()

    def remove() -> None:
        for path in (copy, back):
            path.unlink(missing_ok=True)
        os.sync()

    up = medians_s(
        lambda: logged.upload_file("outputs/large", source), _copied(source, copy), ROUNDS, renew
    )
    down = medians_s(
        lambda: logged.download_file("outputs/large", back),
        lambda: run("cp", source, copy),
        ROUNDS,
        remove,
    )
    remove()
    source.unlink()
    return [
        _information("a file of 1 GB uploaded", *up, "cp, sync"),
        _information("fetched", *down, "cp"),
    ]


def _small(logged: Run, place: Path) -> list[Row]:
    source, copy = place / "many", place / "many-copied"
    # Into a new folder each time: a disk that still clears away the last one is slow.
    backs = (place / f"back-{number}" for number in itertools.count())
    copies = (place / f"copy-{number}" for number in itertools.count())

    def renew() -> None:
        for number in range(FILES):
            folder = source / f"part{number // 100}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / f"{number}.json").write_bytes(os.urandom(1000).hex().encode())
        clear(copy)
        os.sync()

    up = medians_s(
        lambda: logged.upload_folder("outputs/many", source), _copied(source, copy), ROUNDS, renew
    )
    down = medians_s(
        lambda: logged.download_files("outputs/many/", next(backs)),
        lambda: run("cp", "-r", source, next(copies)),
        ROUNDS,
        os.sync,
    )
    return [
        _information(f"{FILES:,} files of 2 KB uploaded", *up, "cp -r, sync"),
        _information("fetched", *down, "cp -r"),
    ]


def _copied(source: Path, copy: Path) -> Callable[[], object]:
    def act() -> None:
        run("cp", "-r", source, copy)
        run("sync", "-f", copy)

    return act


def _information(what: str, measured_s: float, baseline_s: float, baseline: str) -> Row:
    return replace(ratio_row(what, measured_s, baseline, baseline_s, 1), goal="", holds=None)
