"""``python -m wherry.builds.inside WORKSHOP HOME``: makes an environment for an image.

It is run by the image's own Python, in a container that becomes another image. The workshop holds
what to build and takes the error; what is made stays under HOME, with nothing that was needed on
the way.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from typing import Any, Dict

from wherry.builds.error import BuildError
from wherry.builds.prepare import prepare

KEPT = ("environments", "pythons")


def main() -> int:
    workshop, home = sys.argv[1:]
    root = os.path.join(home, "environments")
    with open(os.path.join(workshop, "spec.json"), encoding="utf-8") as file:
        spec = json.load(file)
    try:
        made = prepare(
            spec,
            root,
            log=_print,
            uv=os.path.join(workshop, "uv"),
            fetch=lambda digest, path: shutil.copyfile(
                os.path.join(workshop, "wheels", digest), path
            ),
        )
    except BuildError as error:
        with open(os.path.join(workshop, "error"), "w", encoding="utf-8") as file:
            file.write(error.text())
        return 1
    _clear(root, str(made.prefix))
    _write(home, made.to_json())
    _open_to_all(home)
    return 0


def _print(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def _clear(root: str, prefix: str) -> None:
    """Of no use to whoever runs here: locks, downloads and the tools' own environments."""
    for name in os.listdir(root):
        path = os.path.join(root, name)
        if name not in KEPT and not os.path.ismount(path):
            shutil.rmtree(path, ignore_errors=True)
    for name in os.listdir(os.path.dirname(prefix)):
        if name != os.path.basename(prefix):
            shutil.rmtree(os.path.join(os.path.dirname(prefix), name), ignore_errors=True)


def _write(home: str, built: Dict[str, Any]) -> None:
    with open(os.path.join(home, "built.json"), "w", encoding="utf-8") as file:
        json.dump(built, file)
    with open(os.path.join(home, "variables"), "w", encoding="utf-8") as file:
        for name, value in built["variables"].items():
            file.write(f"export {name}={shlex.quote(value)}\n")


def _open_to_all(home: str) -> None:
    """Runs are not root."""
    for folder, folders, names in os.walk(home):
        folders[:] = [each for each in folders if not os.path.ismount(os.path.join(folder, each))]
        for path in [folder, *(os.path.join(folder, name) for name in names)]:
            if not os.path.islink(path):
                mode = os.stat(path).st_mode
                os.chmod(path, mode | (0o555 if mode & 0o100 else 0o444))


if __name__ == "__main__":
    sys.exit(main())
