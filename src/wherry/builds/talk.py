"""What a build has to say, to whom, and whether anyone still wants it."""

from __future__ import annotations

import contextlib
import copy
from typing import Callable, Iterator, List, Optional

from wherry.builds.error import BuildCanceled
from wherry.builds.redacting import without_secrets


class Talk:
    def __init__(
        self,
        log: Optional[Callable[[bytes], object]] = None,
        progress: Optional[Callable[[str], object]] = None,
        canceled: Optional[Callable[[], bool]] = None,
    ) -> None:
        self._log = log
        self._progress = progress
        self._canceled = canceled
        self._says: List[str] = []
        self.descriptors: List[int] = []
        self.notices: List[str] = []

    def log(self, data: bytes) -> None:
        """Whole lines, of which addresses are kept without what lets somebody in."""
        if self._log is None or not data:
            return
        if b"://" in data:
            text = data.decode("utf-8", "surrogateescape")
            data = without_secrets(text).encode("utf-8", "surrogateescape")
        self._log(data)

    def say(self, sentence: str, to_log: bool = True) -> None:
        """The progress line; also for whoever waits for this build."""
        sentence = without_secrets(sentence)
        if to_log:
            self.log(f"== {sentence}\n".encode())
        for path in self._says:
            with contextlib.suppress(OSError), open(path, "w", encoding="utf-8") as file:
                file.write(sentence)
        if self._progress is not None:
            self._progress(sentence)

    def notice(self, sentence: str) -> None:
        """Something the user should know of, now and whenever the environment is used again."""
        sentence = without_secrets(sentence)
        if sentence not in self.notices:
            self.notices.append(sentence)
            self.log(f"notice: {sentence}\n".encode())

    def canceled(self) -> bool:
        return self._canceled is not None and self._canceled()

    def check(self) -> None:
        if self.canceled():
            raise BuildCanceled

    def aside(self) -> Talk:
        """The same, for something else that is built on the way: its notices are its own."""
        other = copy.copy(self)
        other.notices = []
        return other

    @contextlib.contextmanager
    def holding(self, descriptor: int, says: str) -> Iterator[None]:
        """Programs started meanwhile inherit the claim; sentences reach those who wait for it."""
        self.descriptors.append(descriptor)
        self._says.append(says)
        try:
            yield
        finally:
            self.descriptors.remove(descriptor)
            self._says.remove(says)
            with contextlib.suppress(OSError), open(says, "w", encoding="utf-8"):
                pass
