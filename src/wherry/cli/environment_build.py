"""``wherry environment build|lock|list-built|prune``: what happens to environments on a target."""

from __future__ import annotations

import json
import tempfile
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import click

from ..core.errors import UserErrorException
from ..core.sizes import format_bytes, parse_bytes
from .command import Command, completing, pass_session
from .duration import parse_duration, show_time
from .ending import Usage
from .output import count, emit
from .session import Session
from .table import Column

if TYPE_CHECKING:
    from ..sdk.environment_build import ImageBuildDetails

Decorated = Callable[..., Any]


def _named(function: Decorated) -> Decorated:
    name = click.argument("name", shell_complete=completing("environments"))
    version = click.option("-v", "--version", help="Which version.  [default: the newest]")
    return name(version(_on_target(function)))


def _on_target(function: Decorated) -> Decorated:
    return click.option(
        "-t",
        "--target",
        default="local",
        show_default=True,
        shell_complete=completing("targets"),
        help="The target on whose machine.",
    )(function)


def _age(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[str]:
    seconds = None if value is None else parse_duration(value)
    if value is not None and seconds is None:
        raise click.BadParameter(f"{value!r} is no age: write it like 12h or 30d", ctx, param)
    return f"{seconds:.0f}s" if seconds is not None else None


def _size(ctx: click.Context, param: click.Parameter, value: Optional[str]) -> Optional[str]:
    try:
        return None if value is None else str(parse_bytes(value))
    except UserErrorException:
        said = f"{value!r} is no size: write it like 500MB or 20GB"
        raise click.BadParameter(said, ctx, param) from None


@click.command(
    "build",
    cls=Command,
    examples=[
        "wherry environment build Wherry-sklearn",
        "wherry environment build train -v 3",
        "wherry environment build requirements.txt",
    ],
)
@_named
@pass_session
def build(session: Session, name: str, version: Optional[str], target: str) -> None:
    """Make an environment ahead, so that the first run need not wait.

    NAME is a registered or curated one, or a file that describes one, as for wherry run
    --environment. It is made once for a machine. What is there already is found in milliseconds.
    """
    details = _built(session, name, version, target)
    if session.asked_for_data:
        emit(session, details.run.record)


@click.command(
    "lock",
    cls=Command,
    examples=[
        "wherry environment lock train > train.lock.json",
        "wherry environment lock train --query 'pypi[].[name, version]' -o tsv",
    ],
)
@_named
@pass_session
def lock(session: Session, name: str, version: Optional[str], target: str) -> None:
    """Print what an environment consists of, to the last digit: versions and hashes.

    NAME is a registered or curated one, or a file that describes one. It is built first where it
    is not there. The same is made again by wherry run --environment train.lock.json, or by
    Environment.from_lock.
    """
    found = _built(session, name, version, target).get_lock()
    if session.asked_for_data:
        emit(session, found)
    else:
        session.write(json.dumps(found, indent=2))


@click.command(
    "list-built",
    cls=Command,
    examples=[
        "wherry environment list-built",
        "wherry environment list-built -t node1 --query 'sum([].size)'",
    ],
)
@_on_target
@pass_session
def list_built(session: Session, target: str) -> None:
    """List what was built on a target's machine, with its size: environments and images.

    A file that environments share counts for each of them, what images share for none.
    """
    answer = _asked(session, "built", [], target, "list environments")
    if answer["trouble"]:
        session.say(f"images are not among them: {answer['trouble']}")
    columns = [
        Column("KIND", lambda row: str(row["kind"])),
        Column("NAME", lambda row: str(row["name"])),
        Column("SIZE", lambda row: format_bytes(row["size"])),
        Column("LAST USED", lambda row: show_time(row["used_at"])),
    ]
    emit(session, answer["items"], columns)


@click.command(
    "prune",
    cls=Command,
    examples=[
        "wherry environment prune --older-than 30d",
        "wherry environment prune --limit 20GB",
        "wherry environment prune --all",
    ],
)
@click.option(
    "--older-than", metavar="AGE", callback=_age, help="What was not used for so long: 12h, 30d."
)
@click.option(
    "--limit", metavar="SIZE", callback=_size, help="As much as it takes to come down to 20GB, say."
)
@click.option("--all", "everything", is_flag=True, help="All that nothing uses.")
@_on_target
@pass_session
def prune(
    session: Session,
    older_than: Optional[str],
    limit: Optional[str],
    everything: bool,
    target: str,
) -> None:
    """Remove environments from a target's machine, and images that were built for them.

    They can be made again. What a run uses at the moment always stays. Without this command,
    environments that were not used for longest go when all of them take more than the setting
    environments_limit, and so do images.
    """
    words = ["--all"] if everything else []
    words += ["--older-than", older_than] if older_than else []
    words += ["--limit", limit] if limit else []
    if not words:
        raise Usage("nothing says what is to go", hint="give --older-than 30d, --limit or --all")
    answer = _asked(session, "pruning", words, target, "prune environments")
    if session.asked_for_data:
        emit(session, answer)
        return
    for each in answer["removed"]:
        session.write(f"{each['name'] or each['key']}  {format_bytes(each['size'])}")
    if answer["trouble"]:
        session.say(f"images were left as they are: {answer['trouble']}")
    removed = count(len(answer["removed"]), "environment")
    session.say(
        f"{removed} removed, {format_bytes(answer['freed'])} freed; "
        f"{format_bytes(answer['size'])} are in use or kept"
    )


def _built(session: Session, name: str, version: Optional[str], target: str) -> ImageBuildDetails:
    from ..sdk.environment import Environment
    from . import follow
    from .environment_choice import choose

    if version is None:
        environment = choose(session, name)
    else:
        environment = Environment.get(session.workspace, name, version)
    details = environment.build(session.workspace, target)
    session.say(f"run {details.run.id} makes it on {target}")
    follow.conclude(session, follow.watch_build(session, details.run), shown=False)
    return details


def _asked(
    session: Session, what: str, words: List[str], target: str, title: str
) -> Dict[str, Any]:
    """By a run on the target: that is where they lie."""
    from ..sdk.environment_build import EXPERIMENT
    from ..sdk.script_run_config import ScriptRunConfig
    from . import follow
    from .submit import submit

    with tempfile.TemporaryDirectory(prefix="wherry-") as nothing:
        command = ["python3", "-m", f"wherry.runner.{what}", *words]
        config = ScriptRunConfig(nothing, command=command, compute_target=target)
        run = submit(session, EXPERIMENT, config, {"display_name": title})
    record = follow.ended(session, run)
    if record["status"] != "Completed":
        follow.conclude(session, record, shown=False)
    text = bytearray()
    run.stream_logs(text.extend, follow=False)
    answer: Dict[str, Any] = json.loads(text)
    return answer
