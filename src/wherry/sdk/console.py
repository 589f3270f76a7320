"""What the SDK writes to the terminal or notebook: talk to stderr, a run's output to stdout."""

from __future__ import annotations

import codecs
import sys
from typing import Any, Optional


def say(sentence: str) -> None:
    """Tell the user something beside the point of the call. Never fails."""
    try:
        sys.stderr.write(f"wherry: {sentence}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        pass  # no stderr, or closed


def echo(text: str, stream: Optional[Any] = None) -> None:
    """Write text as it is, with what the terminal cannot show replaced."""
    stream = sys.stdout if stream is None else stream
    if stream is None:
        return
    try:
        stream.write(text)
    except UnicodeEncodeError:
        encoding = getattr(stream, "encoding", None) or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    stream.flush()


class LogText:
    """Bytes of a log, in any pieces, as text. Invalid UTF-8 is replaced; ``\\r`` stays."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._last = "\n"

    def feed(self, data: bytes) -> str:
        text = self._decoder.decode(data)
        self._last = text[-1:] or self._last
        return text

    def end(self) -> str:
        """What was left of a broken character, and a line end if the log has none."""
        text = self._decoder.decode(b"", final=True)
        return text if (text[-1:] or self._last) == "\n" else text + "\n"
