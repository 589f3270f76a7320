"""A run in a container, from submission to result, beside a bare ``podman run``."""

from __future__ import annotations

import os
import subprocess
import sys

from tests import podman

from benchmarks.measure import Row, medians_s, ratio_row, server_home
from wherry import Environment, Experiment, ScriptRunConfig, Workspace

ROUNDS = 15


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
        config = ScriptRunConfig(
            source_directory=str(source),
            script="noop.py",
            environment=Environment.from_docker_image("boxed", podman.BASE),
        )
        mount = ["--volume", f"{source}:{source}", "--network", "host"]
        argv = engine.argv("run", "--rm", *mount, podman.BASE, "python3", f"{source}/noop.py")

        def run() -> None:
            result = experiment.submit(config)
            result.wait_for_completion()
            assert result.get_status() == "Completed"

        def bare() -> None:
            subprocess.run(argv, env=engine.environment, check=True, capture_output=True)

        run()
        whole, alone = medians_s(run, bare, ROUNDS)
    return [ratio_row("no-op run in a container", whole, "podman run --rm", alone, 1.5)]
