"""The short way home: all there is to say of a short run, in one line through the driver's pipe.

The driver reads it at its next pass. Nobody answers: should the driver die with the line unread,
what lies in the attempt's folder tells the same to the next one.
"""

from __future__ import annotations

import os
import select
from binascii import b2a_base64

from .light import TYPE_CHECKING, dumps

if TYPE_CHECKING:
    from typing import Any, Mapping, Optional

PIPE = 3
"""The descriptor that a runner out of a nursery has for it."""


def hand_over(
    pipe: Optional[int], manifest: Mapping[str, Any], record: Mapping[str, Any], log: bytes
) -> bool:
    """Whether it went: there is a pipe, someone has it open, and the line fits in whole."""
    if pipe is None or len(log) > select.PIPE_BUF:
        return False
    report = {
        "run_id": manifest["run_id"],
        "attempt_id": manifest["attempt_id"],
        "exit": record,
        "log": b2a_base64(log, newline=False).decode(),
    }
    line = dumps(report).encode() + b"\n"
    if len(line) > select.PIPE_BUF:  # longer ones could be torn by others'
        return False
    try:
        return os.write(pipe, line) == len(line)
    except OSError:
        return False
