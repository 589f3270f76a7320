"""What ``import wherry`` gives and costs, and that it works in the oldest interpreter."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import wherry
from tests.interpreters import find_python
from wherry.core import errors

SOURCE = Path(__file__).resolve().parents[3] / "src"


def test_every_name_can_be_had() -> None:
    for name in wherry.__all__:
        assert getattr(wherry, name) is not None
    assert set(wherry.__all__) <= set(dir(wherry))


def test_every_error_is_among_them() -> None:
    ours = {
        name
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.WherryError)
    }
    assert ours <= set(wherry.__all__)


def test_the_types_and_the_names_agree() -> None:
    """What mypy sees under TYPE_CHECKING is what ``__getattr__`` gives."""
    tree = ast.parse((SOURCE / "wherry" / "__init__.py").read_text())
    imported = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
        for alias in node.names
    }
    assert imported == set(wherry.__all__)
    assert set(wherry._HOMES) <= set(wherry.__all__)


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Workspaces'"):
        _ = wherry.Workspaces


def test_the_version_is_that_of_the_package() -> None:
    text = (SOURCE.parent / "pyproject.toml").read_text()
    assert re.search(r'^version = "(.+)"$', text, re.MULTILINE).group(1) == wherry.__version__  # type: ignore[union-attr]


def test_only_the_standard_library_is_loaded() -> None:
    done = run_python(
        sys.executable, "import wherry; wherry.Workspace; wherry.Run", "-X", "importtime"
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "wherry.sdk.run" in loaded
    roots = {name.partition(".")[0] for name in loaded}
    # copy looks for Jython's org.python.core; site may have files of its own.
    known = {*sys.stdlib_module_names, "wherry", "imported package", "org", "sitecustomize"}
    assert {name for name in roots - known if not name.startswith("_")} == set()


def test_importing_wherry_loads_next_to_nothing() -> None:
    code = "import sys; a = set(sys.modules); import wherry; print(*sorted({*sys.modules} - a))"
    assert run_python(sys.executable, code, "-S").stdout.split() == ["wherry"]


def test_the_context_of_a_script_needs_no_http() -> None:
    code = "import sys, wherry; wherry.Run.get_context(); print('http.client' in sys.modules)"
    assert run_python(sys.executable, code).stdout.strip() == "False"


OLD = """
    import json, os, sys, tempfile
    from wherry import Environment, Run, RunConfiguration, ScriptRunConfig, UserErrorException

    offline = Run.get_context()
    offline.log("a", 1)
    assert offline.id.startswith("OfflineRun_")

    folder = tempfile.mkdtemp()
    os.environ.update(WHERRY_RUN_ID="r", WHERRY_RUN_TOKEN="t", WHERRY_SPOOL=folder)
    run = Run.get_context()
    run.log("loss", 0.5)
    run.log_row("row", x=1)
    run.log_table("t", {"a": [1, 2]})
    run.tag("k", "v")
    open(os.path.join(folder, "model"), "w").close()
    run.upload_file("outputs/model", os.path.join(folder, "model"))
    (name,) = os.listdir(os.path.join(folder, "spool"))
    with open(os.path.join(folder, "spool", name)) as file:
        kinds = [json.loads(line)["k"] for line in file]
    assert kinds == ["scalar", "row", "table", "tag"], kinds
    assert os.listdir(os.path.join(folder, "files", "outputs")) == ["model"]

    config = RunConfiguration()
    try:
        config.node_counts = 2
    except AttributeError as error:
        assert "did you mean 'node_count'" in str(error)
    open(os.path.join(folder, "train.py"), "w").close()
    environment = Environment("mine")
    spec = ScriptRunConfig(folder, "train.py", [1], config, environment=environment).to_spec()
    assert spec["environment"]["python"]["interpreter_path"] == sys.executable
    try:
        ScriptRunConfig(folder, "none.py").to_spec()
    except UserErrorException as error:
        assert "there is no script" in str(error)
    print("done", sys.version_info[:2])
"""


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_key_paths_in_other_interpreters(version: str) -> None:
    done = run_python(find_python(version), textwrap.dedent(OLD))
    major, minor = version.split(".")
    assert done.stdout.splitlines()[-1] == f"done ({major}, {minor})"


def run_python(python: str, code: str, *options: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [python, *options, "-c", code],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done
