"""Kernels: what JupyterLab offers for a notebook, one for each environment that was asked for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence

from wherry.builds import BuildCanceled, BuildError, Prepared, default_root, prepare

from . import small_file
from .contract import Kernel
from .derived import for_kernel
from .home import Home
from .overlay import Overlay, OverlayError
from .saying import say

_OURS = "wherry-"
_PATIENCE_S = 60

Fetch = Callable[[str, str], object]


class Kernels:
    """The kernelspecs in the home. Only those whose names begin with ``wherry-`` are ours to
    change, and ``python3``, the default one.
    """

    def __init__(
        self, home: Home, variables: Mapping[str, str], fetch: Optional[Fetch] = None
    ) -> None:
        """``fetch`` brings wheels of the workspace."""
        self._home = home
        self._fetch = fetch
        self._variables = variables
        self._folder = os.path.join(home.jupyter, "kernels")
        self._held: List[Prepared] = []  # keeps what they run in from being pruned

    def write_default(self, python: str) -> None:
        self._write("python3", "Python 3", python, {})

    def make_all(self, wanted: Sequence[Kernel], canceled: Callable[[], bool]) -> None:
        """One after the other; what goes wrong with one is said and leaves the others alone."""
        self.remove_others(wanted)
        for kernel in wanted:
            try:
                self._make(kernel, canceled)
            except BuildCanceled:
                return
            except (BuildError, OverlayError, OSError) as error:
                text = error.text() if isinstance(error, BuildError) else str(error)
                say(f"there is no kernel for {kernel}: {text}")

    def remove_others(self, wanted: Sequence[Kernel]) -> None:
        """Those of environments that are not named any more; what people installed stays."""
        names = {_name(kernel) for kernel in wanted}
        for name in _listed(self._folder):
            if name.startswith(_OURS) and name not in names:
                shutil.rmtree(os.path.join(self._folder, name), ignore_errors=True)

    def _make(self, kernel: Kernel, canceled: Callable[[], bool]) -> None:
        python = kernel.specification.get("python") or {}
        if (kernel.specification.get("docker") or {}).get("enabled"):
            say(
                f"there is no kernel for {kernel}: it is an image of a container, and notebooks run"
                " beside JupyterLab; submit a run with it instead"
            )
        elif python.get("user_managed", not python):
            self._use_theirs(kernel)
        else:
            self._lay_over(kernel, canceled)

    def _use_theirs(self, kernel: Kernel) -> None:
        python = {"user_managed": True, **(kernel.specification.get("python") or {})}
        made = prepare({**kernel.specification, "python": python}, default_root())
        interpreter = made.interpreter
        if not _has_ipykernel(interpreter, self._variables):
            say(
                f"there is no kernel for {kernel}: its interpreter {interpreter} has no ipykernel;"
                f" install it there: {interpreter} -m pip install ipykernel"
            )
            return
        self._write(_name(kernel), _title(kernel), interpreter, _own(kernel))

    def _lay_over(self, kernel: Kernel, canceled: Callable[[], bool]) -> None:
        specification = for_kernel(kernel.specification)
        if specification is None:
            say(
                f"there is no kernel for {kernel}: its lock holds conda packages and no ipykernel;"
                " add ipykernel to the environment and lock it again"
            )
            return
        say(f"making the kernel for {kernel}")
        made = prepare(
            {"name": kernel.name, "version": kernel.version, **specification},
            default_root(),
            progress=lambda sentence: say(f"kernel for {kernel}: {sentence}"),
            canceled=canceled,
            uv=self._variables.get("WHERRY_UV"),
            limit=specification.get("limit"),
            fetch=self._fetch,
        )
        self._held.append(made)
        overlay = Overlay(self._home.kernel_venv(_name(kernel)))
        below = overlay.lay(made.interpreter, say)
        overlay.add_command("pip", "pip")
        path = [os.path.join(folder, "bin") for folder in (overlay.folder, below.prefix)]
        variables = {
            **made.variables,
            **_own(kernel),
            "VIRTUAL_ENV": overlay.folder,
            "PATH": os.pathsep.join([*path, self._variables["PATH"]]),
        }
        self._write(_name(kernel), _title(kernel), overlay.python, variables)
        say(f"the kernel for {kernel} is ready")

    def _write(self, name: str, title: str, python: str, variables: Dict[str, str]) -> None:
        folder = os.path.join(self._folder, name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        content: Dict[str, Any] = {
            "argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
            "display_name": title,
            "language": "python",
            "metadata": {"debugger": True},
            "env": {key: value.replace("$", "$$") for key, value in variables.items()},
        }
        small_file.write(os.path.join(folder, "kernel.json"), json.dumps(content, indent=1))


def _name(kernel: Kernel) -> str:
    """As Jupyter allows it; one version of an environment is one kernel."""
    text = f"{kernel.name}-{kernel.version}" if kernel.version else kernel.name
    return _OURS + re.sub(r"[^a-z0-9._-]", "-", text.lower())


def _title(kernel: Kernel) -> str:
    return f"{kernel.name} (version {kernel.version})" if kernel.version else kernel.name


def _own(kernel: Kernel) -> Dict[str, str]:
    given = kernel.specification.get("variables") or {}
    return {name: str(value) for name, value in given.items()}


def _listed(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _has_ipykernel(interpreter: str, variables: Mapping[str, str]) -> bool:
    try:
        done = subprocess.run(
            [interpreter, "-c", "import ipykernel_launcher"],
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
