"""A run in a container, from submission to result, beside a bare ``podman run``."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

from tests import podman

from benchmarks.measure import Row, medians_s, ratio_row, server_home
from wherry import Environment, Experiment, ScriptRunConfig, Workspace

ROUNDS = 15
LIMITS = ("--cpus=1", "--memory=2000000000", "--memory-swap=2000000000")


def rows() -> list[Row]:
    missing = podman.missing()
    if missing:
        print(f"containers are not measured: {missing}", file=sys.stderr)
        return []
    with podman.serving() as engine, server_home() as folder:
        os.environ["DOCKER_HOST"] = engine.host
        source = folder / "src"
        source.mkdir()
        (source / "noop.py").write_text("pass\n")
        experiment = Experiment(Workspace.create("bench", exist_ok=True), "noop")

        def config(target: str) -> ScriptRunConfig:
            return ScriptRunConfig(
                source_directory=str(source),
                script="noop.py",
                compute_target=target,
                environment=Environment.from_docker_image("boxed", podman.BASE),
                resources={"cpu": 1, "memory": "2GB"},
            )

        mount = ["--volume", f"{source}:{source}", "--network", "host"]
        command = [*mount, podman.BASE, "python3", f"{source}/noop.py"]

        def bare(*limits: str) -> Callable[[], None]:
            argv = engine.argv("run", "--rm", *limits, *command)
            return lambda: _output(argv, engine.environment)

        return [
            _row("no-op run in a container", experiment, config("local"), bare()),
            _row(
                "no-op container instance",
                experiment,
                config("containerinstance"),
                bare(*LIMITS),
                "podman run --rm --cpus --memory",
            ),
        ]


def _row(
    name: str,
    experiment: Experiment,
    config: ScriptRunConfig,
    bare: Callable[[], None],
    beside: str = "podman run --rm",
) -> Row:
    def run() -> None:
        result = experiment.submit(config)
        result.wait_for_completion()
        assert result.get_status() == "Completed"

    run()
    whole, alone = medians_s(run, bare, ROUNDS)
    return ratio_row(name, whole, beside, alone, 1.5)


def _output(argv: list[str], environment: dict[str, str]) -> None:
    subprocess.run(argv, env=environment, check=True, capture_output=True)
