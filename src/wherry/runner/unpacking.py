"""Unpacks the runner's archive into a folder that then never changes."""

from __future__ import annotations

import compileall
import os
import shutil
import zipfile


def unpack(archive: str, library: str) -> str:
    """The folder with the archive's content, or nothing where it cannot be written.

    Any number of runners may try at once: each fills a folder of its own, and one rename wins.
    """
    mine = f"{library}.{os.uname().nodename}.{os.getpid()}"
    try:
        os.makedirs(os.path.dirname(library), exist_ok=True)
        with zipfile.ZipFile(archive) as content:
            content.extractall(mine)
        compileall.compile_dir(mine, quiet=2)
        os.rename(mine, library)
    except OSError:
        shutil.rmtree(mine, ignore_errors=True)
    return library if os.path.isdir(library) else ""
