"""Unix sockets of this machine that lead to those of a node, through its agent."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from functools import partial

from wherry.core.errors import TargetUnavailableError

from .agent_line import Line
from .short_folder import ShortFolder


class Dialled:
    """One for each path that was asked for. Lives in the loop of ``agent_lines``."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._folder: ShortFolder | None = None
        self._servers: dict[str, tuple[str, asyncio.Server]] = {}
        self._closed = False

    async def open(self, path: str) -> str:
        if self._closed:
            raise TargetUnavailableError(f"nothing leads to {path} any more")
        await self._line.link()  # or what there is to say of the node
        if path not in self._servers:
            here = os.path.join(self._private(), str(len(self._servers)))
            server = await asyncio.start_unix_server(partial(self._lead, path), here)
            self._servers[path] = here, server
        return self._servers[path][0]

    async def close(self) -> None:
        """What goes through them ends with the line."""
        self._closed = True
        for _, server in self._servers.values():
            server.close()
        if self._folder is not None:
            self._folder.remove()
            self._folder = None

    def _private(self) -> str:
        if self._folder is None:
            self._folder = ShortFolder()
        return self._folder.path

    async def _lead(
        self, path: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with suppress(TargetUnavailableError):  # seen by who dials: nobody answers
            link = await self._line.link()
            await link.agent.streams.lead({"path": path}, (reader, writer))
        writer.close()
