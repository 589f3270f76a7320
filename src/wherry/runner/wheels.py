"""Wheels of the run's workspace, fetched with the run's own token while its environment is made."""

from __future__ import annotations

import os

from wherry.builds import BuildCanceled, BuildError

from .light import TYPE_CHECKING
from .shipping import AwayError, RejectedError, Shipper, quote

if TYPE_CHECKING:
    from typing import Callable, Iterator

    from .process import Signals


class WheelFetcher:
    """``connect`` gives a shipper of its own: those of the courier are busy."""

    def __init__(self, connect: Callable[[], Shipper], run_id: str, signals: Signals) -> None:
        self._connect = connect
        self._place = f"/runs/{quote(run_id)}/wheels"
        self._signals = signals

    def fetch(self, digest: str, path: str) -> None:
        """Write the content to ``path``; whoever asks verifies it."""
        shipper = self._connect()
        try:
            shipper.fetch(
                f"{self._place}/{quote(digest)}", lambda pieces: self._write(path, pieces)
            )
        except (RejectedError, AwayError) as error:
            raise BuildError(
                f"a wheel of the workspace cannot be fetched: {error}",
                hint="add it again: wherry environment add-wheel FILE, or"
                " Environment.add_private_pip_wheel",
            ) from None
        finally:
            shipper.close()

    def _write(self, path: str, pieces: Iterator[bytes]) -> None:
        """From the start each time: a connection that breaks begins again."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        handle = os.open(path, flags, 0o600)
        try:
            for piece in pieces:
                self._check()
                view = memoryview(piece)
                while view:
                    view = view[os.write(handle, view) :]
        finally:
            os.close(handle)

    def _check(self) -> None:
        if self._signals.asked:
            raise BuildCanceled
