from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from wherry.session.contract import Kernel
from wherry.session.derived import for_kernel
from wherry.session.home import Home
from wherry.session.kernels import Kernels

_LOCK: dict[str, Any] = {
    "format": 1,
    "python": "3.11.4",
    "options": ["--index-url", "https://index/simple"],
    "conda": [],
    "pypi": [{"name": "six", "version": "1.16.0"}, {"name": "own", "url": "https://x/own.whl"}],
}


def conda(*dependencies: Any) -> dict[str, Any]:
    return {"python": {"user_managed": False, "conda": {"dependencies": list(dependencies)}}}


def dependencies(specification: dict[str, Any] | None) -> list[Any]:
    assert specification is not None
    found: list[Any] = specification["python"]["conda"]["dependencies"]
    return found


def test_what_a_kernel_needs_is_added_where_it_is_missing() -> None:
    assert dependencies(for_kernel(conda("python=3.9", {"pip": ["six"]}))) == [
        "python=3.9", {"pip": ["six", "ipykernel", "pip"]},
    ]  # fmt: skip
    assert dependencies(for_kernel(conda("pip=24", {"pip": ["IPyKernel>=6"]}))) == [
        "pip=24", {"pip": ["IPyKernel>=6"]},
    ]  # fmt: skip


def test_a_lock_keeps_its_versions() -> None:
    assert dependencies(for_kernel({"python": {"lock": _LOCK}})) == [
        "python=3.11.4",
        {
            "pip": [
                "--index-url https://index/simple", "six==1.16.0", "own @ https://x/own.whl",
                "ipykernel", "pip",
            ]
        },
    ]  # fmt: skip
    whole = {**_LOCK, "pypi": [{"name": "ipykernel"}, {"name": "pip"}]}
    assert for_kernel({"python": {"lock": whole}}) == {"python": {"lock": whole}}
    assert for_kernel({"python": {"lock": {**_LOCK, "conda": [{"name": "six"}]}}}) is None


def test_kernels_of_environments_that_are_not_named_are_removed(tmp_path: Path) -> None:
    home = Home(str(tmp_path))
    kernels = Kernels(home, {"PATH": "/bin"})
    folder = Path(home.jupyter, "kernels")
    for name in ("wherry-old-1", "theirs"):
        (folder / name).mkdir(parents=True)
    kernels.write_default("/venv/bin/python")
    kernels.make_all([], lambda: False)
    assert sorted(each.name for each in folder.iterdir()) == ["python3", "theirs"]
    spec = json.loads((folder / "python3" / "kernel.json").read_text())
    assert spec["argv"][0] == "/venv/bin/python"
    assert spec["display_name"] == "Python 3"


def test_what_cannot_be_a_kernel_is_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    bare = {"python": {"user_managed": True, "interpreter": sys.executable}}  # has none, we hope
    wanted = [
        Kernel("boxed", "1", {"docker": {"enabled": True, "image": "x"}}),
        Kernel("gone", "2", {"python": {"user_managed": True, "interpreter": "/nowhere/python"}}),
        Kernel("locked", "3", {"python": {"lock": {**_LOCK, "conda": [{"name": "six"}]}}}),
        Kernel("bare", "4", bare),
    ]
    Kernels(Home(str(tmp_path)), {"PATH": "/bin"}).make_all(wanted, lambda: False)
    lines = capfd.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("there is no kernel for environment")][
        :3
    ] == [
        "there is no kernel for environment 'boxed' version 1: it is an image of a container, and"
        " notebooks run beside JupyterLab; submit a run with it instead",
        "there is no kernel for environment 'gone' version 2: the interpreter '/nowhere/python' of"
        " environment None is not on this machine",
        "there is no kernel for environment 'locked' version 3: its lock holds conda packages and"
        " no ipykernel; add ipykernel to the environment and lock it again",
    ]
    assert "4: its interpreter" in lines[-1]
