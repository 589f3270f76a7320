"""``wherry job create``: a run from a file."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, Optional, Tuple

import click

from .command import Command, pass_session
from .options import Existing
from .session import Session

if TYPE_CHECKING:
    from .job_file import Job


@click.command(
    cls=Command,
    examples=[
        "wherry job create -f job.yml --stream",
        "wherry job create -f job.yml --set inputs.epochs=20 --set display_name=long",
        "run_id=$(wherry job create -f job.yml --query id -o tsv)",
    ],
)
@click.option(
    "-f",
    "--file",
    "path",
    required=True,
    type=Existing(folder=False),
    metavar="FILE",
    help="The job, in the form of Azure ML's command jobs (CLI v2).",
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Change a field of the file, such as inputs.epochs=10; may be repeated.",
)
@click.option("--stream", is_flag=True, help="Watch it; the exit code is that of the run.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be executed; run and store nothing."
)
@click.option("--active", envvar="VIRTUAL_ENV", hidden=True)
@pass_session
def create(
    session: Session,
    path: str,
    changes: Tuple[str, ...],
    stream: bool,
    dry_run: bool,
    active: Optional[str],
) -> None:
    """Submit the job that a file describes.

    A file may look like this; paths in it are counted from where it lies:

    \b
    command: python train.py --epochs ${{inputs.epochs}}
    code: src
    inputs: {epochs: 10}
    environment: {python: {interpreter_path: /opt/torch/bin/python}}
    compute: local
    experiment_name: churn
    limits: {timeout: 2h}

    \b
    On two nodes of a cluster, each with its part of a PyTorch job:

    \b
    compute: azureml:cpu-cluster
    resources: {instance_count: 2}
    distribution: {type: pytorch, process_count_per_instance: 1}
    queue_settings: {priority: high}

    Without --stream its id is printed and it is left to itself.
    """
    from . import submit
    from .job_file import read

    job = read(path, changes)
    with _configured(session, job, active) as (experiment, config, labels):
        if dry_run:
            submit.describe(session, experiment, config, labels)
            return
        run = submit.submit(session, experiment, config, labels)
    if stream:
        submit.watch(session, run)
    else:
        submit.leave(session, run)


@contextmanager
def _configured(
    session: Session, job: Job, active: Optional[str]
) -> Iterator[Tuple[str, Any, Dict[str, Any]]]:
    """The job as the SDK wants it. A job without code runs in an empty folder."""
    from ..sdk.environment import Environment
    from ..sdk.run_configuration import RunConfiguration
    from ..sdk.script_run_config import ScriptRunConfig
    from .interpreter import choose, with_python
    from .source import experiment_of

    environment, command = job.environment, job.command
    if isinstance(environment, str):
        environment = Environment._referred(session.workspace, environment)
    elif environment is None:
        environment = Environment()
        environment.python.interpreter_path = choose(session, job.interpreter, active, job.target)
        environment.python._implied = job.interpreter is None
        command = with_python(job.command, environment.python.interpreter_path)
    run_config = RunConfiguration()
    run_config.environment_variables = job.variables
    run_config.node_count = job.nodes
    run_config.priority = job.priority
    labels = {
        "display_name": job.display_name,
        "description": job.description,
        "tags": job.tags,
        "properties": job.properties,
    }
    with tempfile.TemporaryDirectory() as nothing:
        config = ScriptRunConfig(
            source_directory=job.code or nothing,
            run_config=run_config,
            compute_target=job.target,
            environment=environment,
            max_run_duration_seconds=job.timeout_s,
            command=command,
            resources=job.resources,
            distributed_job_config=job.distribution,
        )
        yield job.experiment or experiment_of(job.code or "."), config, labels
