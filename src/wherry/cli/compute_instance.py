"""``wherry compute open`` and ``logs``: JupyterLab of a compute instance."""

from __future__ import annotations

from typing import Any, Dict, Optional

import click

from .command import Command, pass_session, whole_number_option
from .compute_path import compute_path, names_one, the_name
from .ending import Failure, Usage
from .session import Session


@click.command(
    "open",
    cls=Command,
    examples=[
        "wherry compute open my-notebooks",
        "wherry compute open my-notebooks --start",
        "wherry compute open my-notebooks --print",
    ],
)
@names_one("compute")
@click.option("--start", is_flag=True, help="Start it first if it is stopped.")
@click.option("--print", "--no-browser", "only_print", is_flag=True, help="Only print the address.")
@pass_session
def open_instance(
    session: Session, name: Optional[str], named: Optional[str], start: bool, only_print: bool
) -> None:
    """Open the JupyterLab of a compute instance in the browser.

    It goes through the server, so that whatever reaches the server reaches JupyterLab. The address
    is always printed; that of --print signs in whoever has it, once, for a minute or so.
    """
    which = the_name(name, named, "wherry compute open NAME")
    record = _instance(session, which)
    record = _running(session, record, start)
    answer = session.client.post(f"{compute_path(session, which)}/open", json={})
    address = session.client.url + str(answer["url"])
    if not only_print:
        from .browser import show

        if show(address):
            session.say(f"opened JupyterLab of {which}")
            session.write(address.partition("?")[0])
            return
        session.say("there is no browser here; this address signs in once, and not for long:")
    session.write(address)


@click.command(
    cls=Command,
    examples=["wherry compute logs my-notebooks", "wherry compute logs my-notebooks -f"],
)
@names_one("compute")
@click.option("-f", "--follow", is_flag=True, help="Go on until it is stopped.")
@whole_number_option("-l", "--lines", help="Only the last lines.")
@pass_session
def logs(
    session: Session,
    name: Optional[str],
    named: Optional[str],
    follow: bool,
    lines: Optional[int],
) -> None:
    """Show what a compute instance has said since it was last started.

    That is what its scripts have printed, and JupyterLab after them. Before there is any of it, it
    is what was said while the environment of JupyterLab was made.
    """
    from ..sdk.handle import BUILD_LOG, STD_LOG
    from ..sdk.run import Run
    from . import follow as following
    from .logs import log_size, tail_offset

    which = the_name(name, named, "wherry compute logs NAME")
    run_id = _instance(session, which)["instance"].get("session_run_id")
    if not run_id:
        session.say(f"compute instance {which} has said nothing yet")
        return
    run = Run(None, run_id, _client=session.client)  # of an experiment that no list shows
    sizes = {each: log_size(run, each) for each in (STD_LOG, BUILD_LOG)}
    log = BUILD_LOG if sizes[STD_LOG] is None and sizes[BUILD_LOG] else STD_LOG
    if sizes[log] is None and not follow:
        session.say(f"compute instance {which} has said nothing yet")
        return
    offset = tail_offset(run, sizes[log] or 0, lines, log) if lines is not None else 0
    output = following.Output()
    run.stream_logs(output.write, name=log, follow=follow, offset=offset)
    output.end_line()


def _instance(session: Session, name: str) -> Dict[str, Any]:
    record: Dict[str, Any] = session.client.get(compute_path(session, name))
    if record["kind"] != "instance":
        raise Usage(
            f"{name} is no compute instance, but of type {record['type']}: it has no JupyterLab",
            hint="wherry compute create NAME --type computeinstance makes one",
        )
    return record


def _running(session: Session, record: Dict[str, Any], start: bool) -> Dict[str, Any]:
    from . import instance_wait as waiting

    name = record["name"]
    if waiting.state_of(record) in ("Stopped", "Stopping"):
        if not start:
            raise Failure(
                f"compute instance {name} is {waiting.state_of(record)}",
                hint=f"wherry compute open {name} --start",
            )
        record = session.client.post(f"{compute_path(session, name)}/start", json={})
    if waiting.state_of(record) == "UserSetupFailed":
        session.say(f"its script has failed: wherry compute logs {name}")
        return record
    record = waiting.settled(session, record, "starting")
    if waiting.state_of(record) in waiting.STOPPED:
        raise Failure(
            f"compute instance {name} was stopped meanwhile",
            hint=f"wherry compute open {name} --start",
        )
    return record
