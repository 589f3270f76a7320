"""An image with packages: another image, and on top of it what a conda file asks for."""

from __future__ import annotations

import glob
import json
import os
from typing import Any, Dict, Mapping

from .context import DOCKERFILE

HOME = "/opt/wherry"
VARIABLES = f"{HOME}/variables"
BUILT = f"{HOME}/built.json"

_FINISH = f"""\
import json, os, shlex
with open({BUILT!r}) as file:
    built = json.load(file)
with open({VARIABLES!r}, "w") as file:
    for name, value in built["variables"].items():
        file.write(f"export {{name}}={{shlex.quote(value)}}\\n")
for folder, _, names in os.walk({HOME!r}):
    for path in [folder, *(os.path.join(folder, name) for name in names)]:
        if not os.path.islink(path):
            mode = os.stat(path).st_mode
            os.chmod(path, mode | (0o555 if mode & 0o100 else 0o444))
"""

_DOCKERFILE = f"""\
FROM {{base}}
USER 0
WORKDIR {HOME}
COPY . {HOME}/
RUN python3 -m wherry.builds build spec.json --root {HOME}/environments >{BUILT} && \\
    python3 finish.py
"""


def package_files(base: str, spec: Mapping[str, Any], library: str, uv: str) -> Dict[str, bytes]:
    """A build context: the builder's own sources, what to build, and how.

    The program ``uv`` is put where the builder looks for one that it fetched.
    """
    asked = {name: spec[name] for name in ("name", "version", "python") if spec.get(name)}
    files = {
        "wherry/__init__.py": b"",
        "finish.py": _FINISH.encode(),
        "spec.json": json.dumps(asked, sort_keys=True).encode(),
        "environments/tools/uv/bin/uv": _read(uv),
        DOCKERFILE: _DOCKERFILE.format(base=base).encode(),
    }
    for path in sorted(glob.glob(f"{library}/wherry/builds/**/*.py", recursive=True)):
        files[os.path.relpath(path, library)] = _read(path)
    return files


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
