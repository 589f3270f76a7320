"""Rules that no linter knows: one writer of a status, one reader of the environment, and such."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interpreters import find_python

SOURCE = Path(__file__).resolve().parents[2] / "src" / "wherry"
FILES = sorted(SOURCE.rglob("*.py"))

# Who may read the process' environment: settings on either side, the runner that makes one, and
# those on the node's side that look for programs.
READS_ENVIRONMENT = {
    "api/__main__.py",
    "sdk/settings.py",
    "session/__main__.py",
    "runner",
    "builds",
    "blobs/opening.py",
    "drivers/local.py",
    "drivers/container_instances.py",
    "drivers/gpus.py",
    "drivers/site_container.py",
    "testing",
}

TRAVELS = ("builds", "containers", "core", "sdk", "session", "runner")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def test_one_function_writes_a_status() -> None:
    writers = set()
    for path in FILES:
        for function in ast.walk(tree_of(path)):
            if isinstance(function, ast.FunctionDef) and _writes_status(function):
                writers.add(f"{name_of(path)}:{function.name}")
    assert writers == {"store/runs.py:move"}


def _writes_status(function: ast.FunctionDef) -> bool:
    """It updates the table of runs with a value for ``status``."""
    text = ast.unparse(function)
    updates = any(word in text for word in ("update(runs)", "_UPDATE", "_MOVE"))
    sets = "'status':" in text or "status=" in text.replace("status==", "")
    return updates and sets


def test_the_environment_is_read_in_few_places() -> None:
    readers = {
        name_of(path)
        for path in FILES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute)
        and node.attr in ("environ", "getenv")
        and ast.unparse(node.value) == "os"
    }
    allowed = {
        name
        for name in readers
        if name in READS_ENVIRONMENT or name.split("/")[0] in READS_ENVIRONMENT
    }
    assert readers - allowed == set()


def test_no_import_of_ours_hides_in_a_function() -> None:
    hidden = []
    for path in FILES:
        for function in _functions(path):
            for node in ast.walk(function):
                if not isinstance(node, ast.ImportFrom):
                    continue
                if node.level > 0 or (node.module or "").startswith("wherry"):
                    hidden.append(f"{name_of(path)}:{node.lineno}")
    lazy = {
        "builds/",
        "cli/",
        "drivers/agent_start.py",
        "runner/",
    }  # on their way, what is needed is loaded when it is
    assert [place for place in hidden if not place.startswith(tuple(lazy))] == []


def _functions(path: Path) -> Iterator[ast.AST]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_files_and_functions_stay_readable() -> None:
    long_files = {name_of(p) for p in FILES if len(p.read_text().splitlines()) > 600}
    long_functions = {
        f"{name_of(path)}:{function.name}"
        for path in FILES
        for function in _functions(path)
        if isinstance(function, ast.FunctionDef) and _body_lines(function) > 60
    }
    assert long_files == set()
    assert {each for each in long_functions if "migrations" not in each} == set()


def _body_lines(function: ast.FunctionDef) -> int:
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13"])
def test_what_travels_to_a_node_loads_in_old_interpreters(version: str, tmp_path: Path) -> None:
    python = find_python(version)
    modules = [
        "wherry." + name_of(path)[:-3].replace("/", ".").removesuffix(".__init__")
        for path in FILES
        if name_of(path).split("/")[0] in TRAVELS and not name_of(path).endswith("__main__.py")
    ]
    modules.append("wherry.compute")
    modules.append("wherry.drivers.agent")
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)"
    done = subprocess.run(
        [python, "-S", "-c", code, *modules],
        env={"PYTHONPATH": str(SOURCE.parent), "PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_importing_wherry_loads_nothing_of_others() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import wherry; [getattr(wherry, name) for name in wherry.__all__]\n"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded - set(sys.stdlib_module_names) == {"wherry"}
