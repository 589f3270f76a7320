"""Brings back what earlier attempts of the run have left, before its command starts again."""

from __future__ import annotations

import os

from .folder import tell
from .light import TYPE_CHECKING, loads
from .shipping import AwayError, RejectedError, quote
from .workspace import SetupError

if TYPE_CHECKING:
    from typing import Callable, Dict, Iterator, List

    from .outputs import Outputs
    from .shipping import Shipper

_RESTORED = ("outputs/", "checkpoints/")


class Restoring:
    """Every node gets all files, and of those that nodes have under the same name, its own."""

    def __init__(self, shipper: Shipper, run_id: str, node: int, work: str) -> None:
        self._shipper = shipper
        self._place = f"/runs/{quote(run_id)}/files"
        self._own = f"node_{node}/"
        self._work = work

    def run(self, outputs: Outputs, say: Callable[[str], None]) -> None:
        """What is brought back counts as sent; it is sent again only if it changes."""
        try:
            wanted = self._wanted()
            if wanted:
                say(f"{len(wanted)} files of an earlier attempt are brought back")
            for name, stored in wanted.items():
                path = f"{self._work}/{name}"
                if self._fetch(stored, path):
                    outputs.sent_before(path)
        except (RejectedError, AwayError, OSError) as error:
            raise SetupError(
                f"the files of an earlier attempt cannot be brought back: {error}"
            ) from None

    def _wanted(self) -> Dict[str, str]:
        """Paths in the working directory, with the names that they are stored under."""
        received: List[bytes] = []

        def take(pieces: Iterator[bytes]) -> None:
            received[:] = pieces

        self._shipper.fetch(self._place, take)
        try:
            listed = loads(b"".join(received).decode())["items"]
            names = [str(item["path"]) for item in listed]
        except (ValueError, KeyError, TypeError):
            raise SetupError("the server's list of the run's files cannot be read") from None
        found = {name: name for name in names if name.startswith(_RESTORED)}
        for name in names:
            mine = name[len(self._own) :]
            if name.startswith(self._own) and mine.startswith(_RESTORED):
                found[mine] = name
        return found

    def _fetch(self, name: str, path: str) -> bool:
        """Into place in one piece, and never through a link that leaves the run."""
        folder = os.path.dirname(path)
        os.makedirs(folder, exist_ok=True)
        work = os.path.realpath(self._work)
        if not f"{os.path.realpath(folder)}/".startswith(f"{work}/"):
            tell(f"{name!r} is not brought back: its folder is a link to a place outside the run")
            return False
        part = f"{folder}/.{os.getpid()}.part"

        def take(pieces: Iterator[bytes]) -> None:
            with open(part, "wb") as file:
                for piece in pieces:
                    file.write(piece)

        self._shipper.fetch(f"{self._place}/{quote(name)}", take)
        os.replace(part, path)
        return True
