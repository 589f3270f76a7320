"""An environment built ahead: a run on a target that does nothing else."""

from __future__ import annotations

import tempfile
from typing import Any, Dict

import wherry  # the lazy surface: see run.py

EXPERIMENT = "prepare_image"
LOCK = "environment/lock.json"

_STATES = {"Completed": "Succeeded", "Failed": "Failed", "Canceled": "Canceled"}


class ImageBuildDetails:
    """A build that is under way. ``run`` is where it takes place.

    >>> build = env.build(ws)
    >>> build.wait_for_completion(show_output=True)
    """

    def __init__(self, run: wherry.Run) -> None:
        self.run = run

    @classmethod
    def start(
        cls, environment: wherry.Environment, workspace: wherry.Workspace, target: Any
    ) -> ImageBuildDetails:
        with tempfile.TemporaryDirectory(prefix="wherry-") as nothing:
            config = wherry.ScriptRunConfig(
                nothing,
                command=["python", "-c", "pass"],
                environment=environment,
                compute_target=target,
            )
            name = f"build {environment.name or 'environment'}"
            run = wherry.Experiment(workspace, EXPERIMENT).submit(config, display_name=name)
        return cls(run)

    @property
    def status(self) -> str:
        """``Queued``, ``Running``, ``Succeeded``, ``Failed`` or ``Canceled``."""
        status = self.run.get_status()
        return _STATES.get(status, "Queued" if status in ("NotStarted", "Queued") else "Running")

    def wait_for_completion(
        self, show_output: bool = False, raise_on_error: bool = True
    ) -> ImageBuildDetails:
        """Wait for its end. With ``show_output`` it shows what is said meanwhile."""
        self.run.wait_for_completion(show_output=show_output, raise_on_error=raise_on_error)
        return self

    def get_lock(self) -> Dict[str, Any]:
        """What was installed, to the last digit; ``Environment.from_lock`` takes it."""
        import json

        with tempfile.TemporaryDirectory(prefix="wherry-") as folder:
            path = f"{folder}/lock.json"
            self.run.download_file(LOCK, path)
            with open(path, encoding="utf-8") as file:
                lock: Dict[str, Any] = json.load(file)
        return lock

    def __repr__(self) -> str:
        return f"ImageBuildDetails(run={self.run.id!r}, status={self.status!r})"
