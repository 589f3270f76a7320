"""Our matcher against git's own, on generated trees; then what is ours: precedence, defaults."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from wherry.sdk.ignore import Ignore, Rules, left_out_by_default

Tree = dict[str, str]

EXCLUDE = "--exclude-per-directory=.gitignore"

NAMES = st.text("abcA.-[] !#", min_size=1, max_size=4).filter(
    lambda name: name not in (".", "..") and not left_out_by_default(name)
)
PATHS = st.lists(
    st.sampled_from(
        ["a", "b", "c", "ab", "ba", "abc", "a.b", ".a", "b.c.a", "A", "a-b", "[a]", "!a", "#b"]
    )
    | NAMES
)
GLOB_WORDS = r"""
    a b c ab a.b .a A * ** *** ? / // /**/ **/ /** *.b a* *a [ab] [!a] [^b] [a-c] [a-] []a] []-a]
    [\]] [[:alpha:]] [[:punct:]b] [![:lower:]] [[:nope:]] [a \a \* \[ \\ \! \# [[:] [[::] [[:a]
    [--c] [c-a] [a-\c] [!] [!]a] \
"""
GLOBS = st.lists(st.sampled_from([*GLOB_WORDS.split(), " ", "\\ "]), min_size=1, max_size=5).map(
    "".join
)
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "", "", "!", "/", "!/", "#", "\\!"]),
        GLOBS,
        st.sampled_from(["", "", "", "/", " ", "\\ ", "\r"]),
    ),
)
IGNORE_TEXTS = st.lists(LINES, max_size=5).map("\n".join)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Files by path, some of them ``.gitignore``, none below another."""
    files: Tree = {}
    folders = {""}
    for parts in draw(st.lists(PATHS.filter(bool).map(lambda p: p[:4]), min_size=1, max_size=12)):
        path = "/".join(parts)
        above = {"/".join(parts[:i]) for i in range(len(parts))}
        if path not in folders and not above & files.keys():
            files[path] = "x"
            folders |= above
    for folder in draw(st.sets(st.sampled_from(sorted(folders)), max_size=3)) | {""}:
        files[f"{folder}/.gitignore".lstrip("/")] = draw(IGNORE_TEXTS)
    return files


@pytest.fixture(scope="module")
def git_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("git")
    subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
    return folder


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(tree=trees())
@example({"foo/x/bar": "", "foox/y/bar": "", ".gitignore": "foo**/bar"})
@example({"a/b/c": "", "a/c": "", "c": "", ".gitignore": "a/**/c"})
@example({"a/b": "", "b/a": "", ".gitignore": "*\n!b\n!b/a"})
@example({"a/b/c": "", ".gitignore": "/*\n!/a", "a/.gitignore": "b/\n", "a/b/.gitignore": "!c"})
@example({"a/x/y/c": "", "a/c": "", ".gitignore": "a/**\\/c"})
@example({"a ": "", "a": "", "b ": "", ".gitignore": "a\\ \nb "})
@example({"é": "", "e": "", ".gitignore": "\ufeffé"})
@example({"a\nb": "", "a": "", ".gitignore": "a*b"})
@example({"a/b/a/c/x": "", "a/c/y": "", ".gitignore": "**/a/**/c/**/x\na/**/y"})
@example({"abab": "", "ab/ab": "", "aab": "", ".gitignore": "*a*b*b\n/a*/*b\n*a*ab"})
def test_the_same_files_are_left_as_git_leaves(git_dir: Path, tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        write(folder, tree)
        assert set(ours(folder)) == gits(git_dir, folder)


def write(root: str, tree: Tree) -> None:
    for path, content in tree.items():
        file = os.path.join(root, path)
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "wb") as stream:
            stream.write(content.encode())


def ours(root: str, folder: str = "", above: Ignore | None = None) -> Iterator[str]:
    ignore = above or Ignore()
    with os.scandir(os.path.join(root, folder)) as listing:
        entries = list(listing)
    for entry in entries:
        if entry.name == ".gitignore":
            text = Path(entry.path).read_bytes().decode()
            ignore = ignore.below(folder, text)
    for entry in entries:
        path = folder + entry.name
        if ignore.verdict(path, entry.name, entry.is_dir()):
            continue
        if entry.is_dir():
            yield from ours(root, f"{path}/", ignore)
        else:
            yield path


def gits(git_dir: Path, root: str) -> set[str]:
    listed = subprocess.run(
        [
            "git",
            "--git-dir",
            str(git_dir),
            "--work-tree",
            root,
            "ls-files",
            "-z",
            "--others",
            EXCLUDE,
        ],
        cwd=root,
        check=True,
        capture_output=True,
    )
    return {name.decode() for name in listed.stdout.split(b"\0") if name}


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 40 + "b", "a" * 250),
        ("*a" * 40 + "/b", "a" * 250 + "/c"),
        ("**/a/" * 30 + "b", "a/" * 200 + "c"),
        ("**/*a*/" * 20 + "b", "aa/" * 200 + "c"),
        ("a/**\\/" * 10 + "b", "a/" * 100 + "c"),
        ("[a]*?*" * 20 + "b", "a" * 250),
    ],
)
def test_many_wildcards_are_matched_at_once(pattern: str, path: str) -> None:
    assert Rules(pattern).verdict(path, path.rpartition("/")[2], False) is None


@pytest.mark.parametrize(
    ("pattern", "path", "is_dir", "expected"),
    [
        ("*.log", "a/b.log", False, True),
        ("logs/", "logs", False, None),
        ("logs/", "a/logs", True, True),
        ("/data", "a/data", True, None),
        ("!keep", "keep", False, False),
        ("a/**/z", "a/b/c/z", False, True),
        ("?", "é", False, True),
        ("[!a-z]", "é", False, True),
        ("", "a", False, None),
        ("/", "a", True, None),
        ("#a", "#a", False, None),
        ("\\#a", "#a", False, True),
    ],
)
def test_one_pattern(pattern: str, path: str, is_dir: bool, expected: bool | None) -> None:
    name = path.rpartition("/")[2]
    assert Rules(pattern).verdict(path, name, is_dir) is expected


def test_the_last_pattern_that_matches_decides() -> None:
    rules = Rules("*.csv\n!small.csv\nbig/small.csv")
    assert rules.verdict("a.csv", "a.csv", False) is True
    assert rules.verdict("x/small.csv", "small.csv", False) is False
    assert rules.verdict("big/small.csv", "small.csv", False) is True


def test_a_folder_nearer_to_the_file_decides_first() -> None:
    ignore = Ignore("*.bin\n").below("models/", "!best.bin\n/*.txt")
    assert ignore.ignores("models/last.bin", "last.bin", False)
    assert not ignore.ignores("models/best.bin", "best.bin", False)
    assert ignore.ignores("models/a.txt", "a.txt", False)
    assert not ignore.ignores("models/x/a.txt", "a.txt", False)


@pytest.mark.parametrize(
    "name",
    [
        ".git",
        ".hg",
        ".svn",
        ".venv",
        "__pycache__",
        "a.pyc",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".pytest_cache",
        ".ruff_cache",
        "node_modules",
        ".DS_Store",
        ".wherry",
        "wherry.egg-info",
    ],
)
def test_what_nobody_wants_is_left_out_unless_brought_back(name: str) -> None:
    assert Ignore().ignores(f"a/{name}", name, True)
    assert not Ignore(f"!{name}").ignores(f"a/{name}", name, True)


@pytest.mark.parametrize("name", [".azureml", ".amlignore", ".env", "venv", "git", "pyc", "data"])
def test_nothing_else_is_left_out_by_default(name: str) -> None:
    assert not Ignore().ignores(name, name, True)


def test_the_fingerprint_tells_rules_apart() -> None:
    root = Ignore("a\n")
    kinds = [Ignore(), root, Ignore("b\n"), root.below("x/", "a\n"), root.below("y/", "a\n")]
    assert len({ignore.fingerprint for ignore in kinds}) == len(kinds)
    assert Ignore("a\n").fingerprint == root.fingerprint


def test_bytes_that_are_not_utf_8_match_themselves() -> None:
    name = os.fsdecode(b"caf\xe9")
    assert Rules(b"caf\xe9".decode("utf-8", "surrogateescape")).verdict(name, name, False)
    assert Ignore(name).fingerprint != Ignore().fingerprint
