"""Why an environment could not be made, for the person who described it."""

from __future__ import annotations

from typing import Optional

from wherry.builds.redacting import without_secrets


class BuildError(Exception):
    """``str`` is one sentence; ``explanation`` is the resolver's own, as it printed it.

    Neither lets anybody in anywhere, whatever addresses they speak of.
    """

    def __init__(
        self,
        sentence: str,
        hint: Optional[str] = None,
        explanation: str = "",
        file: Optional[str] = None,
        line: Optional[int] = None,
    ) -> None:
        sentence = without_secrets(sentence)
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.explanation = without_secrets(explanation)
        self.file = file
        self.line = line

    def text(self) -> str:
        """Everything, over several lines."""
        parts = [self.sentence, self.explanation, f"hint: {self.hint}" if self.hint else ""]
        return "\n".join(part for part in parts if part)


class BuildCanceled(BuildError):
    """Someone no longer wants it."""

    def __init__(self) -> None:
        super().__init__("the build of the environment was canceled")


class BuildStalled(BuildError):
    """A program of the build has said nothing for too long, and was ended."""


class BuildKilled(BuildError):
    """A program of the build was killed by somebody else, or by the machine for want of memory."""
