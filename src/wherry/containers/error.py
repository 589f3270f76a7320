"""Why there is no container, for the person whose run it is."""

from __future__ import annotations


class ContainerError(Exception):
    """One sentence that names the thing, the place and the remedy."""


class EngineError(Exception):
    """The engine's answer to a request that it did not carry out."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


def is_full_disk(message: str) -> bool:
    return "no space left on device" in message.lower()
