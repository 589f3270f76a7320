"""Environments from package indexes: made, found again, locked, refused."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import wherry
from tests.builds.conftest import spec
from tests.builds.index import Index, serve
from tests.interpreters import find_python
from wherry.builds import BuildError, Prepared, prepare


def run_in(prepared: Prepared, code: str) -> str:
    done = subprocess.run(
        [prepared.interpreter, "-c", code], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def versions(prepared: Prepared) -> dict[str, str]:
    assert prepared.lock is not None
    return {each["name"]: each["version"] for each in prepared.lock["pypi"]}


def test_a_real_package_is_installed_once_and_found_again(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    log: list[bytes] = []
    wanted = spec("six==1.16.0", "idna")
    first = prepare(wanted, root, log=log.append, progress=said.append)
    assert first.built
    assert run_in(first, "import six, idna, sys; print(six.__version__, sys.prefix)") == (
        f"1.16.0 {first.prefix}"
    )
    assert versions(first)["six"] == "1.16.0"
    assert first.lock is not None
    assert all(each["hashes"] for each in first.lock["pypi"])
    assert [sentence.split()[0] for sentence in said] == [
        "resolving", "downloading", "linking", "ready",
    ]  # fmt: skip
    assert b"six==1.16.0" in b"".join(log)
    assert first.variables["VIRTUAL_ENV"] == first.prefix
    assert first.variables["PATH"].startswith(f"{first.prefix}/bin:")

    def refuse(*arguments: object, **named: object) -> None:
        raise AssertionError("nothing is started for an environment that is there")

    monkeypatch.setattr(subprocess, "Popen", refuse)
    again = prepare(wanted, root, progress=said.append)
    assert not again.built
    assert (again.interpreter, again.lock) == (first.interpreter, first.lock)


def test_what_resolves_to_the_same_is_built_once(root: str, index: Index) -> None:
    index.add("shared", "1.0")
    where = f"--index-url {index.url}/simple"
    first = prepare(spec(where, "shared"), root)
    second = prepare(spec(where, "shared<2"), root)
    assert second.prefix == first.prefix
    assert (first.built, second.built) == (True, False)


def test_one_interpreter_under_two_paths_is_one(
    root: str, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which link to it comes first changes with PATH, and with what is installed beside it."""
    index.add("shared", "1.0")
    version = ".".join(map(str, sys.version_info[:2]))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))
    usual = os.environ["PATH"]
    made = []
    for number, wanted in enumerate(("shared", "shared<2")):
        folder = tmp_path / str(number)
        folder.mkdir()
        link = folder / f"python{version}"
        link.symlink_to(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]
        monkeypatch.setenv("PATH", f"{folder}:{usual}")
        asked = spec(f"--index-url {index.url}/simple", wanted, python=f"python={version}")
        made.append(prepare(asked, root))
    assert [each.built for each in made] == [True, False]
    assert made[0].prefix == made[1].prefix


def test_azureml_is_not_installed(root: str) -> None:
    found = prepare(spec("azureml-defaults", "azureml_core==1.61", "azureml"), root)
    assert versions(found) == {}
    assert len(found.notices) == 1
    assert "azureml-defaults, azureml_core==1.61, azureml are not installed" in found.notices[0]
    assert prepare(spec("azureml-defaults", "azureml"), root).notices != found.notices


def test_an_unknown_package_is_named_with_its_line(root: str) -> None:
    wanted = spec(
        "six", "no-such-package-wherry", lines={"no-such-package-wherry": 7}, file="conda.yml"
    )
    with pytest.raises(BuildError, match=r"no-such-package-wherry \(conda.yml, line 7\)") as caught:
        prepare(wanted, root)
    assert (caught.value.file, caught.value.line) == ("conda.yml", 7)
    assert "was not found in the package registry" in caught.value.explanation
    assert prepare(spec("six"), root).built


def test_conflicting_pins_are_shown_as_uv_shows_them(root: str, index: Index) -> None:
    index.add("low", "1.0")
    index.add("low", "2.0")
    index.add("needs", "1.0", "low>=2")
    wanted = spec(
        f"--index-url {index.url}/simple",
        "needs==1.0",
        "low<2",
        lines={"low<2": 9, "needs==1.0": 8},
    )
    with pytest.raises(BuildError) as caught:
        prepare(wanted, root)
    assert "needs==1.0 (line 8), low<2 (line 9)" in str(caught.value)
    assert "we can conclude that" in caught.value.explanation


def test_a_package_that_cannot_be_built_is_named_with_the_end_of_what_was_printed(
    root: str, index: Index
) -> None:
    index.add_source("crooked", "1.0", _BROKEN)
    where = f"--index-url {index.url}/simple"
    wanted = spec(where, "crooked==1.0", lines={"crooked==1.0": 4}, file="requirements.txt")
    said: list[str] = []
    with pytest.raises(BuildError) as caught:
        prepare(wanted, root, progress=said.append)
    assert "needs crooked==1.0 (requirements.txt, line 4)" in str(caught.value)
    assert "could not be built from its source" in str(caught.value)
    assert caught.value.line == 4
    assert "no C compiler" in caught.value.explanation
    assert len(caught.value.explanation.splitlines()) < 40
    assert "building crooked==1.0 from source, which may take minutes" in said


_BROKEN = """
def build_wheel(*_given, **_named):
    for number in range(1000):
        print("compiling", number)
    raise SystemExit("no C compiler")
"""


def test_a_malformed_requirement_is_named_with_its_line(root: str) -> None:
    wanted = spec("six", "pan das>>1", lines={"pan das>>1": 3}, file="requirements.txt")
    with pytest.raises(BuildError, match=r"pan das>>1 \(requirements.txt, line 3\)") as caught:
        prepare(wanted, root)
    assert caught.value.line == 3


def test_an_index_that_is_not_there_is_a_sentence(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(BuildError, match="the package index did not answer"):
        prepare(spec("--index-url http://127.0.0.1:9/simple", "six"), root)


def test_an_old_date_gives_old_versions(root: str) -> None:
    found = prepare(spec("six", as_of="2020-05-01"), root)
    assert versions(found) == {"six": "1.14.0"}


def test_an_index_without_dates_says_so(root: str) -> None:
    with serve(Index(dates=False)) as index:
        index.add("plain", "1.0")
        with pytest.raises(BuildError, match="does not say when files were uploaded"):
            prepare(spec(f"--index-url {index.url}/simple", "plain", as_of="2020-05-01"), root)


@pytest.fixture
def locked(root: str, index: Index) -> dict[str, Any]:
    index.add("tool", "1.0", source="VERSION = 1")
    first = prepare(spec(f"--index-url {index.url}/simple", "tool"), root)
    assert first.lock is not None
    index.add("tool", "2.0", source="VERSION = 2")
    return first.lock


def test_a_lock_is_built_exactly(locked: dict[str, Any], tmp_path: Path) -> None:
    again = prepare({"python": {"lock": locked}}, str(tmp_path / "elsewhere"))
    assert again.built
    assert again.lock == locked
    assert run_in(again, "import tool; print(tool.VERSION)") == "1"


def test_a_password_of_an_index_is_used_and_not_told(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    log: list[bytes] = []
    started: list[str] = []
    start = subprocess.Popen.__init__

    def note(self: Any, words: list[str], *rest: Any, **named: Any) -> None:
        started.extend(words)
        start(self, words, *rest, **named)

    monkeypatch.setattr(subprocess.Popen, "__init__", note)
    with serve(Index(login="me:secret")) as index:
        index.add("private", "1.0")
        address = f"http://me:secret@{index.url[7:]}"
        made = prepare(spec(f"--index-url {address}/simple", "private"), root, log=log.append)
        direct = f"private @ {address}/files/private-1.0-py3-none-any.whl"
        other = prepare(spec(direct), root, log=log.append)
        with pytest.raises(BuildError) as caught:
            prepare(spec(direct, "private==2.0"), root, log=log.append)
    assert versions(made) == versions(other) == {"private": "1.0"}
    told = [str(made), str(other), caught.value.text(), b"".join(log).decode(), *started]
    assert [text for text in told if "secret" in text] == []


def test_a_lock_does_not_take_another_file(
    locked: dict[str, Any], index: Index, tmp_path: Path
) -> None:
    index.add("tool", "1.0", source="VERSION = 'forged'")
    with pytest.raises(BuildError, match="could not be installed") as caught:
        prepare({"python": {"lock": locked}}, str(tmp_path / "elsewhere"))
    assert "ash mismatch" in caught.value.explanation


def test_a_lock_of_another_platform_gives_the_same_versions(
    locked: dict[str, Any], tmp_path: Path
) -> None:
    other = copy.deepcopy(locked)
    other["platform"] = "plan9-vax"
    found = prepare({"python": {"lock": other}}, str(tmp_path / "elsewhere"))
    assert versions(found) == {"tool": "1.0"}
    assert "plan9-vax" in found.notices[0]


def test_a_python_that_is_not_there_gives_the_nearest_newer(root: str) -> None:
    found = prepare(spec(python="python=3.5"), root)
    assert "Python 3.5 is not on this machine" in found.notices[0]
    assert "is used instead" in found.notices[0]
    with pytest.raises(BuildError, match="the specification is strict"):
        prepare(spec(python="python=3.5", strict=True), root)
    with pytest.raises(BuildError, match="there is no newer one either"):
        prepare(spec(python="python=3.99"), root)


def test_the_python_asked_for_is_taken(root: str) -> None:
    minor = ".".join(map(str, sys.version_info[:2]))
    found = prepare(spec(python=f"python={minor}"), root)
    assert run_in(found, "import sys; print('%d.%d' % sys.version_info[:2])") == minor


def test_a_python_too_old_for_what_replaces_azureml_gives_the_oldest_that_will_do(
    root: str,
) -> None:
    find_python("3.8")
    made = prepare(spec("azureml-defaults", python="python=3.6.2"), root)
    assert run_in(made, "import sys; print(sys.version_info[:2])") == "(3, 8)"
    assert any("Python 3.6.2 is too old for Wherry's own" in each for each in made.notices)
    again = prepare(spec("azureml-defaults", python="python=3.6.2"), root)
    assert again.notices == made.notices


@pytest.mark.parametrize("more", [{"strict": True}, {}])
def test_an_old_python_is_kept_where_it_is_meant_or_azureml_is_not_asked_for(
    root: str, more: dict[str, Any]
) -> None:
    find_python("3.7")
    pip = ["azureml-defaults"] if more else []
    made = prepare(spec(*pip, python="python=3.7", **more), root)
    assert run_in(made, "import sys; print(sys.version_info[:2])") == "(3, 7)"
    done = subprocess.run(
        [made.interpreter, "-c", "import wherry"],
        env={"PYTHONPATH": str(Path(wherry.__file__).parents[1])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "ImportError: wherry needs Python 3.8 or newer, and this is 3.7" in done.stderr


def test_requirements_in_a_file_of_the_source_directory(
    root: str, index: Index, tmp_path: Path
) -> None:
    index.add("listed", "1.0")
    lines = f"--index-url {index.url}/simple\nlisted==1.0  # needed\n"
    (tmp_path / "requirements.txt").write_text(lines)
    found = prepare(spec("-r requirements.txt"), root, folder=str(tmp_path))
    assert versions(found) == {"listed": "1.0"}
    with pytest.raises(BuildError, match=r"'other.txt', which cannot be read"):
        prepare(spec("-r other.txt"), root, folder=str(tmp_path))


def test_an_interpreter_of_the_users_own(root: str) -> None:
    theirs = {"python": {"user_managed": True, "interpreter": sys.executable}}
    assert prepare(theirs, root).interpreter == sys.executable
    assert not Path(root).exists()
    theirs["python"]["interpreter"] = "/no/such/python"
    with pytest.raises(BuildError, match="'/no/such/python'"):
        prepare(theirs, root)


@pytest.mark.parametrize(
    ("python", "sentence"),
    [
        ({"conda": ["six"]}, "must be an object"),
        ({"conda": {"dependencies": "six"}}, "must be a list"),
        ({"conda": {"dependencies": [{"npm": []}]}}, "neither a name nor a pip list"),
        ({"conda": {"dependencies": ["python=three"]}}, "is not a version of Python"),
        ({"conda": {"dependencies": [{"pip": ["-e ."]}]}}, "cannot hold a path"),
        ({"conda": {"dependencies": [{"pip": ["./mine.whl"]}]}}, "cannot hold a path"),
        ({"as_of": "yesterday"}, "write a date as 2020-05-01"),
        (
            {"as_of": "2021-02-30", "conda": {"dependencies": [{"pip": ["six"]}]}},
            "there is no such day as '2021-02-30'",
        ),
        ({"resolver": "mamba"}, "auto, rattler, pypi"),
        ({"lock": {"format": 9}}, "is not one that a build has written"),
    ],
)
def test_what_makes_no_sense_is_refused(root: str, python: Any, sentence: str) -> None:
    with pytest.raises(BuildError, match=sentence):
        prepare({"name": "odd", "python": python}, root)


def test_a_quote_that_is_not_closed_is_a_sentence(root: str) -> None:
    with pytest.raises(BuildError, match="a quote that is not closed"):
        prepare(spec("--index-url 'http://127.0.0.1/simple", "six"), root)


def test_what_is_no_requirement_is_called_so(index: Index, root: str) -> None:
    asked = spec("six", "$(x)", f"a @ {index.url}/files/a.whl", file="conda.yml", lines={"$(x)": 7})
    with pytest.raises(BuildError) as caught:
        prepare(asked, root)
    said = "$(x) (conda.yml, line 7) in the pip section of environment 'train' is no requirement"
    assert str(caught.value) == said
    assert caught.value.line == 7
    assert "requirements.in" not in caught.value.text()
