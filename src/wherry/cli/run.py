"""``wherry run``: a script or a command, here and now."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Sequence, Tuple

import click

from .command import Command, completing, pass_session, whole_number_option
from .duration import duration_option
from .ending import Usage
from .options import Existing, size_option
from .session import Session


class RunCommand(Command):
    """Tells options of the script from options of ours."""

    def parse_args(self, ctx: click.Context, args: List[str]) -> List[str]:
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Usage as error:
            error.hint = _after_dashes(error.hint, error.message, given)
            raise


def _positive(ctx: click.Context, param: click.Parameter, value: Any) -> Optional[float]:
    try:
        if value is None or float(value) > 0:
            return None if value is None else float(value)
    except ValueError:
        pass
    raise click.BadParameter(f"{value!r} is not a number above 0", ctx, param)


def _priority(ctx: click.Context, param: click.Parameter, value: Any) -> Optional[int]:
    from .job_nodes import parse_priority

    found = None if value is None else parse_priority(value)
    if value is not None and found is None:
        raise click.BadParameter(f"{value!r} is none of low, medium, high or a number", ctx, param)
    return found


@click.command(
    cls=RunCommand,
    examples=[
        "wherry run train.py",
        "wherry run train.py -- --epochs 10 --lr 0.1",
        "wherry run --name baseline --tag data=v2 --timeout 2h train.py",
        "wherry run --env ~/envs/torch --gpu 1 --memory 8GB train.py",
        "wherry run --environment Wherry-sklearn train.py",
        "wherry run --environment conda.yml train.py",
        'wherry run --command "python prepare.py && python train.py"',
        "wherry run --target cpu-cluster --nodes 2 --priority high train.py",
        "wherry run --dry-run train.py",
    ],
)
@click.argument("script", required=False, type=click.Path(readable=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGUMENTS...]")
@click.option("--command", metavar="TEXT", help="Run this shell command instead of a script.")
@click.option(
    "--target",
    default="local",
    show_default=True,
    metavar="NAME",
    shell_complete=completing("targets"),
    help="Where it runs.",
)
@click.option(
    "--env",
    metavar="PATH",
    help="The Python that runs it: an interpreter, the folder of a virtual environment, or its "
    "name.  [default: the one that runs wherry; on another machine, its own]",
)
@click.option(
    "--environment",
    metavar="NAME",
    shell_complete=completing("environments"),
    help="What it needs installed: a registered or curated environment, such as train:3 or "
    "Wherry-sklearn, or a file: conda's, pip's requirements (.txt) or a lock (.json).",
)
@click.option(
    "--experiment",
    metavar="NAME",
    shell_complete=completing("experiments"),
    help="The series of runs that it belongs to.  [default: the name of the source folder]",
)
@click.option("--name", metavar="TEXT", help="A name for this run; it can be used like its id.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A label; may be repeated.")
@click.option(
    "--cpu",
    callback=_positive,
    metavar="N",
    help="CPUs that it needs.  [default: 1]",
)
@click.option(
    "--memory", callback=size_option, metavar="SIZE", help="Memory that it needs, such as 4GB."
)
@whole_number_option("--gpu", help="GPUs that it needs.  [default: 0]")
@whole_number_option("--nodes", help="Whole nodes of a cluster that it needs.  [default: 1]")
@click.option(
    "--priority",
    callback=_priority,
    metavar="PRIORITY",
    help="low, medium, high or a number: whoever has more goes first.  [default: medium]",
)
@click.option(
    "--timeout",
    callback=duration_option,
    metavar="TIME",
    help="End it after this time, such as 30m or 2h.",
)
@click.option(
    "--source",
    type=Existing(folder=True),
    metavar="DIRECTORY",
    help="The folder that is captured and that it runs in.  [default: the current folder if the "
    "script is in it, else the script's]",
)
@click.option(
    "--env-var",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Set a variable; without a value, to the one that it has here, which others do not see "
    "in the list of processes. May be repeated.",
)
@click.option("--detach", is_flag=True, help="Print its id and leave it to itself.")
@click.option(
    "--dry-run", is_flag=True, help="Print what would be executed; run and store nothing."
)
@click.option("--active", envvar="VIRTUAL_ENV", hidden=True)
@pass_session
def run(
    session: Session,
    script: Optional[str],
    arguments: Tuple[str, ...],
    command: Optional[str],
    detach: bool,
    dry_run: bool,
    **options: Any,
) -> None:
    """Run a script or a command on a target and watch it.

    The source folder is captured as it is, less what .gitignore, .amlignore or .wherryignore
    leaves out. What the script prints goes to stdout. Ctrl-C ends the watching, not the run. The
    exit code is 0 when the run completed and 3 when it failed or was canceled.

    Options of the script come after '--'.
    """
    from .submit import describe, leave, submit, watch

    if bool(script) == bool(command):
        raise _what_to_run(script)
    experiment, config, labels = _configuration(session, script, list(arguments), command, options)
    if dry_run:
        describe(session, experiment, config, labels)
        return
    started = submit(session, experiment, config, labels)
    if detach:
        leave(session, started)
    else:
        watch(session, started)


def pairs(option: str, texts: Sequence[str]) -> Dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            what = "name before the '='" if equals else "'='"
            raise Usage(f"{option} {text!r} has no {what}", hint=f"write it as {option} name=value")
        found[key] = value
    return found


def _variables(texts: Sequence[str]) -> Dict[str, str]:
    from ..sdk.settings import variable

    given = [text for text in texts if "=" in text]
    found = pairs("--env-var", given)
    for name in (text for text in texts if "=" not in text):
        value = variable(name)
        if value is None:
            raise Usage(
                f"--env-var {name!r} has no '=', and there is no such variable here",
                hint=f"write it as --env-var name=value, or export {name} first",
            )
        found[name] = value
    return found


def _configuration(
    session: Session,
    script: Optional[str],
    arguments: List[str],
    command: Optional[str],
    options: Dict[str, Any],
) -> Tuple[str, Any, Dict[str, Any]]:
    from ..sdk.run_configuration import RunConfiguration
    from ..sdk.script_run_config import ScriptRunConfig
    from .source import experiment_of, source_of

    source = source_of(script, options["source"])
    if source.notice:
        session.say(source.notice)
    environment, command = _environment(session, command, options)
    run_config = RunConfiguration()
    run_config.environment_variables = _variables(options["variables"])
    run_config.node_count = 1 if options["nodes"] is None else options["nodes"]
    run_config.priority = options["priority"]
    config = ScriptRunConfig(
        source_directory=source.directory,
        script=source.script,
        arguments=arguments,
        run_config=run_config,
        compute_target=options["target"],
        environment=environment,
        max_run_duration_seconds=options["timeout"],
        command=command,
        resources=_resources(options),
    )
    labels = {"display_name": options["name"], "tags": pairs("--tag", options["tags"])}
    return options["experiment"] or experiment_of(source.directory), config, labels


def _environment(
    session: Session, command: Optional[str], options: Dict[str, Any]
) -> Tuple[Any, Optional[str]]:
    """What it runs in, and the command as it has to be given there."""
    from ..sdk.environment import Environment
    from . import environment_choice, interpreter

    wanted = options["environment"]
    if wanted and options["env"]:
        raise Usage(
            "both --env and --environment are given",
            hint="--env names a Python that is there, --environment what is to be installed",
        )
    if wanted:
        return environment_choice.choose(session, wanted), command
    environment = Environment()
    path = interpreter.choose(session, options["env"], options["active"], options["target"])
    environment.python.interpreter_path = path
    environment.python._implied = options["env"] is None
    return environment, command and interpreter.with_python(command, path)


def _resources(options: Dict[str, Any]) -> Dict[str, Any]:
    return {name: options[name] for name in ("cpu", "memory", "gpu") if options[name] is not None}


def _what_to_run(script: Optional[str]) -> Usage:
    if script:
        return Usage(
            f"both a script ({script!r}) and a --command are given",
            hint='write the arguments of a command into it: --command "python train.py --lr 0.1"',
        )
    return Usage(
        "there is nothing to run", hint='wherry run train.py, or wherry run --command "..."'
    )


def _after_dashes(hint: str, message: str, args: List[str]) -> str:
    """An option that we do not know, after the script, is most often meant for the script."""
    words = [word.split("=")[0] for word in args]
    place = next((at for at, word in enumerate(words) if f"{word!r}" in message), 0)
    if not place or words[place - 1].startswith("-"):
        return hint
    if place > 1 and words[place - 2].startswith("-") and not _is_script(words[place - 1]):
        return hint
    before, after = " ".join(args[:place]), " ".join(args[place:])
    return f"options of the script come after '--': wherry run {before} -- {after}"


def _is_script(word: str) -> bool:
    """And not the value of the option before it."""
    return word.endswith(".py") or os.path.isfile(word)
