"""A look at a machine before anything runs there: what it has, or precisely what is wrong."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from wherry.core.errors import TargetUnavailableError
from wherry.core.resources import Resources

from . import agent_answers, agent_lines, ssh_connection
from .agent import LEAST_FREE
from .agent_answers import number, text
from .agent_driver import ROOT
from .agent_line import Line, Link
from .agent_talk import LostError
from .ssh_connection import Opened
from .ssh_host import Host

LIMIT_S = 60.0
_ANSWER_S = 30.0
_LITTLE_FREE = 1 << 30
_CLOCK_S = 30.0


@dataclass(frozen=True)
class Findings:
    """The host keys are to be kept: a machine that shows another one later is refused."""

    host_key: str
    jump_host_keys: tuple[str, ...]
    hostname: str
    python: str
    version: str
    system: str
    resources: Resources
    gpus: tuple[str, ...]
    disk_free: int
    clock_skew_s: float
    warnings: tuple[str, ...] = ()


def preflight(host: Host, root: str = ROOT, server: str = "") -> Findings:
    """Changes nothing there but the agent's files. Raises ``TargetUnavailableError``, with the kind
    of trouble as ``cause`` among its fields.
    """
    found = agent_lines.lines.loop.run(_preflight(host, root, server), LIMIT_S)
    agent_lines.lines.wake(host)
    return found


async def _preflight(host: Host, root: str, server: str) -> Findings:
    line = Line(host, server, lambda _root, _reports: None, ssh_connection.connect)
    try:
        link = await line.link()
        with agent_answers.making_sense(host):
            if server:
                await _check_way(host, link)
            return await _findings(host, link, root)
    except (TimeoutError, LostError):
        raise TargetUnavailableError(
            f"the connection to {host} was lost during the check", cause="lost"
        ) from None
    finally:
        await line.close()


async def _check_way(host: Host, link: Link) -> None:
    trouble = (await _ask(link, do="reach", url=link.way, limit_s=_ANSWER_S / 2))["trouble"]
    if trouble is not None:
        raise TargetUnavailableError(
            f"a port of {host} is forwarded to this server, but from there {text(trouble)}",
            hint="look for a firewall on that machine's own loopback address",
            cause="tunnel",
        )


async def _findings(host: Host, link: Link, root: str) -> Findings:
    limits: dict[str, None] = {}
    node = agent_answers.nodes(await _ask(link, do="check", root=root, limits=limits))[0]
    asked_at = _now()
    around = await _ask(link, do="look_around", root=root)
    skew = number(around["time"]) - (asked_at + _now()) / 2
    free = int(number(around["free"]))
    _check_room(host, free, around)
    hello, opened = link.agent.hello, cast(Opened, link.opened)
    return Findings(
        host_key=opened.host_key,
        jump_host_keys=opened.jump_host_keys,
        hostname=hello["host"],
        python=hello["python"],
        version=hello["version"],
        system=hello["system"],
        resources=node.resources,
        gpus=tuple(node.gpus),
        disk_free=free,
        clock_skew_s=round(skew, 3),
        warnings=tuple(_warnings(host, free, skew)),
    )


def _check_room(host: Host, free: int, around: Mapping[str, Any]) -> None:
    if free < LEAST_FREE:
        raise TargetUnavailableError(
            f"{host}: the disk with {text(around['root'])} is full: {_size(free)} are free",
            hint="make room there",
            cause="disk_full",
        )
    if around["trouble"]:
        raise TargetUnavailableError(
            f"{host}: {text(around['trouble'])}",
            hint="the user must be able to write there",
            cause="home",
        )


def _warnings(host: Host, free: int, skew_s: float) -> list[str]:
    found = []
    if free < _LITTLE_FREE:
        found.append(f"{host} has only {_size(free)} free for runs")
    if abs(skew_s) > _CLOCK_S:
        way = "ahead" if skew_s > 0 else "behind"
        found.append(f"the clock of {host} is {abs(skew_s):.0f} s {way}: times of runs will be off")
    return found


def _now() -> float:
    return time.time()


def _size(count: int) -> str:
    return f"{count / (1 << 20):.0f} MiB"


async def _ask(link: Link, **fields: Any) -> dict[str, Any]:
    answer, _ = await link.agent.ask(fields, b"", _ANSWER_S)
    return answer
