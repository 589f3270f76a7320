"""What an ended command's status and last words say about why it ended. Pure."""

from __future__ import annotations

import os

from .light import TYPE_CHECKING, signal

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    Frame = Tuple[str, int, str]

READ_BACK = 1 << 18

_TAIL_LINES = 20
_NEAR_THE_END = 40
_TAIL_LIMIT = 4000
_LINE_LIMIT = 500
_SHELL_KILLED = 128 + 9
_WORKER_KILLED = ("SIGKILL", "signal: Killed", "BrokenProcessPool", "TerminatedWorkerError")
_NOT_THEIRS = ("/site-packages/", "/dist-packages/", "/.venv/", "/venv/")
_FRAME = r'  File "(.+)", line (\d+)(?:, in .+)?$'
_EXCEPTION = r"[^\W\d][\w.<>]*(?:: .*|:)?$"
_GROUP_RULER = r"\s*\+[-+ ].*$"
_PREFIX = r"(?:\[rank\d+\]: ?)|(?:\s*\| ?)"


def conclude(
    status: int,
    log: bytes,
    work: str,
    *,
    canceled: bool = False,
    timed_out: bool = False,
    killed_by_us: bool = False,
    memory_kills: bool = False,
    memory_bytes: int = 0,
    detail: str = "",
) -> Dict[str, Any]:
    """The exit record's fields.

    ``status`` is what ``waitpid`` said, ``log`` the end of the output, ``memory_kills`` whether
    the kernel killed for want of memory while the command ran, ``memory_bytes`` all that it
    might have, where it was held to that, ``detail`` what else is known of a kill.
    """
    code = os.WEXITSTATUS(status) if os.WIFEXITED(status) else None
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    record: Dict[str, Any] = {
        "exit_code": code,
        "signal": number,
        "canceled": canceled,
        "timed_out": timed_out,
        "out_of_memory": False,
        "setup_error": None,
        "error": None,
        "lost": False,
        "unstarted": False,
        "no_room": False,
        "warnings": [],
    }
    if canceled or (code == 0 and not timed_out):
        return record
    lines = last_lines(log)
    raised = find_exception(lines, work) if code == 1 or _ends_in_exception(lines) else {}
    if not timed_out:
        killed = number == signal.SIGKILL or code == _SHELL_KILLED or _lost_a_worker(raised)
        killed = killed and not killed_by_us
        record["out_of_memory"] = _lacked_memory(raised) or (killed and memory_kills)
    record["error"] = {
        "message": _message(record, raised),
        "exit_code": code,
        "signal": number,
        **raised,
        "tail": "\n".join(lines[-_TAIL_LINES:])[-_TAIL_LIMIT:],
    }
    if record["out_of_memory"] and memory_bytes:
        record["error"]["memory_bytes"] = memory_bytes
    if detail:
        record["error"]["detail"] = detail
    return record


def last_lines(log: bytes) -> List[str]:
    """The output as a terminal would show it: what a carriage return wrote over is gone."""
    text = log.decode("utf-8", "replace").rstrip()
    lines = (line.rstrip("\r").rpartition("\r")[2].rstrip() for line in text.split("\n"))
    return [line[: _LINE_LIMIT - 1] + "…" if len(line) > _LINE_LIMIT else line for line in lines]


def find_exception(lines: Sequence[str], work: str) -> Dict[str, Any]:
    """The exception that these lines end in or nearly so, and where the user's files raised it.

    Farther up, it is one that the script met, told and went on from.
    """
    import re

    lines = _without_decoration(lines)
    below = 0  # without the indented lines, which belong to what is above them
    for end in range(len(lines) - 1, 0, -1):
        below += not lines[end].startswith((" ", "\t"))
        if below > _NEAR_THE_END:
            break
        if not lines[end - 1].startswith("  ") or not re.match(_EXCEPTION, lines[end]):
            continue
        frames = _frames_above(lines, end)
        if frames:
            return {"exception": lines[end].rstrip(": "), **_place(frames, work)}
    return {}


def _ends_in_exception(lines: Sequence[str]) -> bool:
    """Whether the last words are an exception's, with nothing told after it."""
    import re

    lines = _without_decoration(lines)
    below = [at for at, line in enumerate(lines) if line.startswith("  File ")]
    rest = [line for line in lines[below[-1] :] if not line.startswith("  ")] if below else []
    return len(rest) == 1 and re.match(_EXCEPTION, rest[0]) is not None


def _without_decoration(lines: Sequence[str]) -> List[str]:
    """Without the bars of exception groups and the prefixes of distributed launchers."""
    import re

    plain = (re.sub(f"^(?:{_PREFIX})", "", line) for line in lines)
    return [line for line in plain if not re.match(_GROUP_RULER, line)]


def _frames_above(lines: Sequence[str], end: int) -> List[Frame]:
    """The frames of the traceback that ends before ``end``, outermost first."""
    import re

    start = end
    while start and lines[start - 1].startswith("  "):
        start -= 1
    frames = []
    for at in range(start, end):
        found = re.match(_FRAME, lines[at])
        if found:
            below = lines[at + 1] if at + 1 < end else ""
            source = below.strip() if below.startswith("    ") else ""
            frames.append((found.group(1), int(found.group(2)), source))
    return frames


def _place(frames: Sequence[Frame], work: str) -> Dict[str, Any]:
    for file, line, source in reversed(frames):
        theirs = _their_file(file, work)
        if theirs:
            return {"file": theirs, "line": line, "source": source}
    return {}


def _their_file(file: str, work: str) -> Optional[str]:
    """The file's path in the user's own source directory, if it lies there."""
    if file.startswith("<"):
        return None
    path = os.path.normpath(os.path.join(work, file))
    for root in (work, os.path.realpath(work)):
        if path.startswith(root + "/") and not any(part in path for part in _NOT_THEIRS):
            return path[len(root) + 1 :]
    return None


def _lacked_memory(raised: Dict[str, Any]) -> bool:
    """``MemoryError``, and what NumPy and PyTorch call theirs."""
    return str(raised.get("exception", "")).partition(":")[0].endswith("MemoryError")


def _lost_a_worker(raised: Dict[str, Any]) -> bool:
    """A process that the command had started was killed, and the command says so."""
    return any(sign in str(raised.get("exception", "")) for sign in _WORKER_KILLED)


def _message(record: Dict[str, Any], raised: Dict[str, Any]) -> str:
    cause = f": {raised['exception']}" if raised else ""
    if raised.get("file"):
        cause += f" ({raised['file']}, line {raised['line']})"
    if record["timed_out"]:
        return "ran longer than its time limit and was ended"
    if record["out_of_memory"]:
        return "ran out of memory" + cause
    if record["signal"]:
        return f"killed by signal {record['signal']}" + cause
    return f"exited with code {record['exit_code']}" + cause
