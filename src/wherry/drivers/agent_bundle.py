"""The agent as it travels to a node, and the command that starts it in any login shell there."""

from __future__ import annotations

import shlex
from base64 import b64encode
from functools import lru_cache
from pathlib import Path

from . import agent_start, packing

HOME = "~/.wherry-node"
_PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 7, -1)), "python")
_TOO_OLD = 97

# One line without quotes of the kind that it is put into, so that csh and fish take it, too.
_SCRIPT = (
    'found=; for p in {pythons}; do command -v "$p" >/dev/null 2>&1 || continue; '
    '"$p" -E -s -S -c "{code}" {text} {arguments}; end=$?; '
    "[ $end = {too_old} ] || exit $end; "
    'found="$found; $p is $("$p" -V 2>&1)"; done; echo; echo "{none_found}$found"'
)
_CODE = (
    "import sys; sys.version_info < {oldest} and sys.exit({too_old}); sys.path.remove(str()); "
    "import base64; exec(base64.b64decode(sys.argv[1])); main(*sys.argv[2:])"
)


def command(python: str = "") -> str:
    """Tries ``python``, or every name that a Python may have."""
    code = _CODE.format(oldest=agent_start.OLDEST, too_old=_TOO_OLD)
    script = _SCRIPT.format(
        pythons=shlex.quote(python) if python else " ".join(_PYTHONS),
        code=code,
        text=b64encode(Path(agent_start.__file__).read_bytes()).decode(),
        arguments=f"{digest()} {HOME}",
        too_old=_TOO_OLD,
        none_found=agent_start.NONE_FOUND,
    )
    return f"exec /bin/sh -c {shlex.quote(script)}"


@lru_cache(maxsize=1)
def archive() -> bytes:
    return packing.archive(_sources())


@lru_cache(maxsize=1)
def digest() -> str:
    return packing.content_hash(_sources())


@lru_cache(maxsize=1)
def _sources() -> dict[str, bytes]:
    return packing.sources(packing.needed("drivers.agent"))
