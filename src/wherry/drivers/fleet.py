"""The nodes of a cluster as one driver: each call goes to the node that it is about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from wherry.core.errors import LaunchRefusedError, NodeUnavailableError, TargetUnavailableError
from wherry.core.lifecycle import Observation, Phase

from .base import Dialing, Driver, Handle, Health, Launch, Reach, Remote, Rescuer
from .warm import Warm

_AT_ONCE = 16


class Fleet:
    """``driver_of`` knows the driver of a node; None where there is no such node any more.

    A node that cannot be reached is the trouble of its own attempts alone.
    """

    def __init__(self, driver_of: Callable[[str], Driver | None]) -> None:
        self._driver_of = driver_of

    def check(self) -> Health:
        """Its nodes come and go, and are looked after one by one."""
        return Health(())

    def render(self, launch: Launch) -> str:
        files = ", ".join(sorted({**launch.files, **launch.program}))
        return (
            f"# attempt {launch.attempt_id} on a node of a cluster\n"
            f"# files {files} in its folder {{dir}}\n{' '.join(launch.argv)}\n"
        )

    def reach(self, node: str = "") -> Reach | None:
        driver: Any = self._driver_of(node) if node else None
        with _about():
            return driver.reach() if isinstance(driver, Remote) else None

    def dial(self, path: str, node: str = "") -> str:
        driver: Any = self._driver_of(node)
        if not isinstance(driver, Dialing):
            raise NodeUnavailableError(f"nothing leads to node {node}: it is gone")
        with _about():
            return driver.dial(path)

    def submit(self, launch: Launch) -> Handle:
        driver = self._driver_of(launch.node)
        if driver is None:
            raise LaunchRefusedError(f"its node {launch.node} is gone")
        with _about():
            handle = driver.submit(launch)
        return Handle(json.dumps({"node": launch.node, "handle": handle}))

    def rescue(self, launch: Launch) -> bool:
        driver: Any = self._driver_of(launch.node)
        if not isinstance(driver, Rescuer):
            return False
        with _about():
            return driver.rescue(launch)

    def observe(self, handles: Sequence[Handle]) -> Mapping[Handle, Observation]:
        by_node: dict[str, list[Handle]] = {}
        for handle in handles:
            by_node.setdefault(_parsed(handle)[0], []).append(handle)
        found: dict[Handle, Observation] = {}
        for seen in _together(self._observe, by_node.items()):
            found.update(seen)
        return found

    def _observe(self, asked: tuple[str, list[Handle]]) -> dict[Handle, Observation]:
        node, handles = asked
        driver = self._driver_of(node)
        if driver is None:
            return {each: Observation(Phase.GONE, detail="its node is gone") for each in handles}
        inner = {handle: _parsed(handle)[1] for handle in handles}
        try:
            seen = driver.observe(list(dict.fromkeys(inner.values())))
        except TargetUnavailableError as error:
            return {each: Observation(Phase.UNKNOWN, detail=error.message) for each in handles}
        return {handle: seen[each] for handle, each in inner.items()}

    def cancel(self, handle: Handle, *, force: bool = False) -> None:
        node, inner = _parsed(handle)
        driver = self._driver_of(node)
        if driver is not None:
            with _about():
                driver.cancel(inner, force=force)

    def read_log(self, handle: Handle, offset: int, limit: int = 65536) -> bytes:
        node, inner = _parsed(handle)
        driver = self._driver_of(node)
        if driver is None:
            return b""
        with _about():
            return driver.read_log(inner, offset, limit)

    def release(self, handle: Handle) -> None:
        node, inner = _parsed(handle)
        driver = self._driver_of(node)
        if driver is not None:
            with _about():
                driver.release(inner)


class WarmFleet(Fleet):
    """On this machine, where runners hand over short runs: one pipe for all nodes."""

    def __init__(
        self, driver_of: Callable[[str], Driver | None], warm: Warm, close: Callable[[], None]
    ) -> None:
        super().__init__(driver_of)
        self._warm = warm
        self._close = close

    def inbox(self) -> int:
        return self._warm.inbox.reader

    def reports(self) -> Sequence[Mapping[str, Any]]:
        return self._warm.inbox.take()

    def close(self) -> None:
        self._close()


@contextmanager
def _about() -> Iterator[None]:
    """What one node meets is the trouble of that node."""
    try:
        yield
    except TargetUnavailableError as error:
        raise NodeUnavailableError(error.message, hint=error.hint, **error.fields) from error


def _together(
    ask: Callable[[tuple[str, list[Handle]]], dict[Handle, Observation]],
    asked: Iterable[tuple[str, list[Handle]]],
) -> Iterable[dict[Handle, Observation]]:
    """All nodes at once: one that does not answer takes its time."""
    many = list(asked)
    if len(many) < 2:
        return [ask(each) for each in many]
    with ThreadPoolExecutor(min(len(many), _AT_ONCE), thread_name_prefix="observe") as pool:
        return list(pool.map(ask, many))


def inner_handle(handle: Handle) -> Handle:
    """As the node's own driver knows it."""
    return _parsed(handle)[1]


def _parsed(handle: Handle) -> tuple[str, Handle]:
    try:
        found = json.loads(handle)
        return str(found["node"]), Handle(str(found["handle"]))
    except (ValueError, KeyError, TypeError):
        return "", Handle("")
