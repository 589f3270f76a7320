"""``wherry``: the way in. What is asked for most is answered before anything is loaded."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional


def main(arguments: Optional[List[str]] = None) -> int:
    """The exit code; see docs/reference/exit-codes.md."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments in (["--help"], ["-h"]):
        from .overview import overview

        return _print(overview())
    if arguments == ["--version"]:
        from ..core.version import VERSION

        return _print(f"wherry {VERSION}\n")
    try:
        from .app import run

        return run(arguments)
    except KeyboardInterrupt:  # while modules were loaded
        sys.stderr.write("interrupted\n")
        return 130


def _print(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (OSError, AttributeError) as error:
        from .ending import conclude
        from .session import ReaderGone, Session

        gone = not isinstance(error, OSError) or isinstance(error, BrokenPipeError)
        return conclude(ReaderGone() if gone else error, Session())
    return 0


if __name__ == "__main__":
    sys.exit(main())
