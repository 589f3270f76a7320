"""What it takes to make an environment, to find it again, and to make it for ten runs at once."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from itertools import count
from pathlib import Path

from benchmarks.measure import (
    PYTHON,
    REPOSITORY,
    Row,
    command,
    medians_s,
    ratio_row,
    scratch,
    server_home,
)
from wherry import CondaDependencies, Environment, Experiment, ScriptRunConfig, Workspace

PACKAGES = ("scikit-learn", "pandas", "matplotlib")
ROUNDS = 5
_BASE = getattr(sys, "_base_executable", sys.executable)
# As a run's process would: it has loaded nothing of this before.
_WARM = """
import json, sys, time
started = time.perf_counter()
from wherry.builds import prepare
prepared = prepare(json.load(open(sys.argv[1])), sys.argv[2])
print(time.perf_counter() - started)
assert not prepared.built
"""


def rows() -> list[Row]:
    with scratch() as folder:
        uv = find_uv()
        spec = folder / "spec.json"
        conda = {
            "dependencies": [
                f"python={sys.version_info[0]}.{sys.version_info[1]}",
                {"pip": list(PACKAGES)},
            ]
        }
        spec.write_text(json.dumps({"name": "bench", "python": {"conda": conda}}))
        made = [*_cold(folder, spec, uv), _warm(folder, spec), _ten(folder, spec, uv)]
    return [*made, _whole_run()]


def find_uv() -> str:
    own = REPOSITORY / ".tools" / "bin" / "uv"
    return shutil.which("uv") or str(own)


def _build(spec: Path, root: Path, uv: str) -> list[str]:
    return [PYTHON, "-m", "wherry.builds", str(spec), "--root", str(root), "--uv", uv]


def _cold(folder: Path, spec: Path, uv: str) -> list[Row]:
    """Nothing is cached on either side, so both download everything: the best of some rounds,
    in turns, since what varies is the network."""
    rounds = count()

    def ours() -> None:
        command(*_build(spec, folder / f"root{next(rounds)}", uv))()

    def plain() -> None:
        here = folder / f"plain{next(rounds)}"
        cache = ["--cache-dir", str(here / "cache")]
        command(uv, "venv", *cache, "-p", _BASE, here / "env")()
        command(uv, "pip", "install", *cache, "-p", here / "env/bin/python", *PACKAGES)()

    def pip() -> None:
        here = folder / "pip"
        command(_BASE, "-m", "venv", here)()
        command(here / "bin/pip", "install", "--no-cache-dir", *PACKAGES)()

    taken = [medians_s(ours, plain, 1) for _ in range(ROUNDS)]
    made_s, plain_s = min(each[0] for each in taken), min(each[1] for each in taken)
    again_s, pip_s = medians_s(ours, pip, 1)
    what = f"an environment of {', '.join(PACKAGES)}, nothing cached"
    return [
        ratio_row(what, made_s, "uv venv && uv pip install", plain_s, at_most=1.3),
        ratio_row("the same", again_s, "python -m venv && pip install", pip_s, at_most=1.0),
    ]


def _warm(folder: Path, spec: Path) -> Row:
    words = [PYTHON, "-I", "-c", _WARM, str(spec), str(folder / "root0")]
    taken = [float(subprocess.check_output(words)) for _ in range(9)]
    taken_ms = statistics.median(taken) * 1000
    measured = f"{taken_ms:.1f} ms"
    return Row(
        "find it again, the code loaded for it", measured, goal="<= 50 ms", holds=taken_ms <= 50
    )


def _whole_run() -> Row:
    """From submission to result, in turns with the same run on the node's own Python."""
    with server_home() as folder:
        (folder / "src").mkdir()
        (folder / "src" / "noop.py").write_text("pass\n")
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "noop")
        wanted = Environment("tiny")
        wanted.python.user_managed_dependencies = False
        wanted.python.conda_dependencies = CondaDependencies.create(pip_packages=["six==1.16.0"])

        def run(environment: Environment | None) -> None:
            source = str(folder / "src")
            config = ScriptRunConfig(source, "noop.py", environment=environment)
            result = experiment.submit(config)
            result.wait_for_completion()
            assert result.get_status() == "Completed"

        for environment in (wanted, None, wanted, None):
            run(environment)
        with_it, without = medians_s(lambda: run(wanted), lambda: run(None), 25)
    added_ms = (with_it - without) * 1000
    return Row(
        "a no-op run whose environment is there",
        f"{with_it * 1000:.1f} ms",
        f"without one: {without * 1000:.1f} ms",
        f"+{added_ms:.1f} ms",
        "<= 50 ms more",
        added_ms <= 50,
    )


def _ten(folder: Path, spec: Path, uv: str) -> Row:
    """Nothing is cached here either."""
    built: list[int] = []

    def at_once() -> None:
        started = [
            subprocess.Popen(
                _build(spec, folder / "many", uv), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
            for _ in range(10)
        ]
        answers = [json.loads(each.communicate()[0]) for each in started]
        built.append(sum(answer["built"] for answer in answers))

    many_s, one_s = medians_s(at_once, command(*_build(spec, folder / "one", uv)), 1)
    return Row(
        "ten runs that need it at once",
        f"{many_s * 1000:.1f} ms, {built[0]} build",
        f"one: {one_s * 1000:.1f} ms",
        f"{many_s / one_s:.2f}x",
        "1 build",
        built == [1],
    )
