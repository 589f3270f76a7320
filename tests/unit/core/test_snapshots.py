"""File lists: one id for one content, and nothing accepted that could leave its folder."""

from __future__ import annotations

import json
import os
import posixpath
import random
import tempfile
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wherry.core.errors import UserErrorException
from wherry.core.snapshots import (
    MAX_PATH_BYTES,
    FileEntry,
    Notice,
    canonical_json,
    check_link,
    check_path,
    diff,
    folders_of,
    parse_files,
    resolve,
    snapshot_id,
)

A, B = "a" * 64, "b" * 64

PARTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
HOSTILE = st.lists(
    st.sampled_from(["..", ".", "", "a", "b", "\0", "\\", "..\\", "C:", "c:\\", "~", "\ud800", "é"])
    | PARTS,
    max_size=6,
).map("/".join)


@st.composite
def file_lists(draw: st.DrawFn) -> list[FileEntry]:
    """Files and links that may stand together."""
    paths = draw(st.lists(st.lists(PARTS, min_size=1, max_size=3).map("/".join), unique=True))
    paths = [path for path in paths if is_safe(path)]
    paths = [path for path in paths if path not in folders_of(paths)]
    digests = st.sampled_from([A, B])
    files = []
    for path in paths:
        mode = draw(st.sampled_from([0o644, 0o755]))
        target = draw(st.none() | st.sampled_from(["x", ".", "x/y"]))
        if target is not None:
            files.append(FileEntry(path, "", 0, mode, target))
        else:
            digest = draw(digests)
            files.append(FileEntry(path, digest, {A: 1, B: 2**40}[digest], mode))
    return files


def is_safe(path: str) -> bool:
    try:
        check_path(path)
    except UserErrorException:
        return False
    return True


@given(file_lists())
def test_canonical_json_is_what_the_json_module_writes(files: list[FileEntry]) -> None:
    fields = [entry.to_dict() for entry in sorted(files)]
    expected = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    assert canonical_json(files) == expected


@given(file_lists(), st.randoms())
def test_the_id_is_that_of_the_content_in_any_order(
    files: list[FileEntry], chance: random.Random
) -> None:
    shuffled = files.copy()
    chance.shuffle(shuffled)
    assert snapshot_id(shuffled) == snapshot_id(files)


def test_an_id_for_ever() -> None:
    files = [
        FileEntry("train.py", A, 12, 0o755),
        FileEntry("data/é.csv", B, 0),
        FileEntry("latest", "", 0, 0o644, "data/é.csv"),
    ]
    assert snapshot_id(files) == "c2136dc6ae61fbe6a88df155cc26b36f02a28a88742f3f47ca22aa8b03b64a72"


@pytest.mark.parametrize("field", ["path", "digest", "size", "mode", "link"])
def test_the_id_knows_every_field(field: str) -> None:
    entry = FileEntry("a", A, 1)
    changes: dict[str, Any] = {"path": "b", "digest": B, "size": 2, "mode": 0o755, "link": "x"}
    assert snapshot_id([entry._replace(**{field: changes[field]})]) != snapshot_id([entry])


@given(file_lists())
def test_what_is_sent_is_what_is_parsed(files: list[FileEntry]) -> None:
    sent = json.loads(json.dumps([entry.to_dict() for entry in files]))
    assert parse_files(sent) == files
    assert parse_files(json.loads(canonical_json(files))) == sorted(files)


@given(HOSTILE)
@example("a/../../b")
@example("..\\..\\b")
@example("a/..\\b")
@example("0:")
def test_a_checked_path_stays_below_its_folder(path: str) -> None:
    if not is_safe(path):
        return
    for module, root in ((posixpath, "/r"), (__import__("ntpath"), "C:\\r")):
        joined = module.normpath(module.join(root, path))
        assert joined != root
        assert module.commonpath([root, joined]) == root


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "/etc/passwd",
        "..",
        "../a",
        "a/..",
        "a/../b",
        ".",
        "./a",
        "a/.",
        "a//b",
        "a/",
        "a\x00b",
        "C:\\a",
        "c:a",
        "C:/a",
        "\\\\host\\share",
        "\\a",
        "a\\..\\b",
        "..\\a",
        "x" * 256,
        "é" * 128,
        "/".join(["d" * 200] * 20),
        "\udce9",
        None,
        3,
        b"a",
        ["a"],
    ],
)
def test_an_unsafe_path_is_refused_and_named(path: object) -> None:
    with pytest.raises(UserErrorException, match="is not a safe path") as caught:
        check_path(path)
    assert len(str(caught.value)) < 500
    str(caught.value).encode("ascii")


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.py",
        "-rf",
        "a b",
        "a\nb",
        "~",
        "...",
        "..a",
        "a..",
        "é",
        "e\u0301",
        "日本",
        "x" * 255,
        "a\\b",
        "con",
        "aa:b:c",
        "/".join(["d" * 200] * 19),
    ],
)
def test_an_odd_path_is_still_a_path(path: str) -> None:
    assert len(path) <= MAX_PATH_BYTES
    assert check_path(path) == path


@pytest.mark.parametrize(
    ("path", "target"),
    [("a", "b"), ("a", "."), ("d/a", ".."), ("d/a", "../b"), ("d/e/a", "../../x/y"), ("a", "d/e")],
)
def test_a_link_that_stays_inside(path: str, target: str) -> None:
    assert check_link(path, target) == target


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a", ".."),
        ("a", "../b"),
        ("d/a", "../../b"),
        ("a", "/etc"),
        ("a", ""),
        ("a", "d/../b"),
        ("d/a", ".././b"),
        ("a", "d//e"),
        ("a", "d/"),
        ("a", "x\x00"),
        ("a", "C:\\x"),
        ("a", None),
        ("d/a", "..//etc"),
        ("d/a", "../..\\..\\b"),
        ("a", "\udce9"),
    ],
)
def test_a_link_that_leads_out_is_refused(path: str, target: object) -> None:
    with pytest.raises(UserErrorException, match="is not safe"):
        check_link(path, target)


LINK_PARTS = st.lists(st.sampled_from(["..", "a", "b", "c"]), min_size=1, max_size=5).map("/".join)


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d/a", "d/b", "d/e/a"]), LINK_PARTS))
def test_no_chain_of_accepted_links_leads_out(links: dict[str, str]) -> None:
    """On a real file system, with the kernel as the judge."""
    try:
        files = parse_files([FileEntry(p, "", 0, 0o644, t).to_dict() for p, t in links.items()])
    except UserErrorException:
        return
    with tempfile.TemporaryDirectory() as outer:
        root = os.path.join(os.path.realpath(outer), "root")
        os.makedirs(os.path.join(root, "d", "e"))
        for entry in files:
            os.symlink(entry.link, os.path.join(root, entry.path))
        for folder in ("", "d/", "d/e/"):
            for name in links:
                found = os.path.realpath(os.path.join(root, folder + name))
                assert found == root or found.startswith(root + "/")


def entry_fields(**changes: Any) -> dict[str, Any]:
    fields = {"path": "a", "digest": A, "size": 1, "mode": 0o644, **changes}
    return {name: value for name, value in fields.items() if value is not ...}


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (entry_fields(path="../a"), "not a safe path"),
        (entry_fields(path=...), "not a safe path"),
        (entry_fields(digest="a"), "64 hexadecimal digits"),
        (entry_fields(digest=A.upper()), "64 hexadecimal digits"),
        (entry_fields(digest=A + "\n"), "64 hexadecimal digits"),
        (entry_fields(digest=""), "64 hexadecimal digits"),
        (entry_fields(digest=None), "64 hexadecimal digits"),
        (entry_fields(size=-1), "size of 0 or more"),
        (entry_fields(size=1.0), "size of 0 or more"),
        (entry_fields(size=True), "size of 0 or more"),
        (entry_fields(size=2**63), "size of 0 or more"),
        (entry_fields(size="1"), "size of 0 or more"),
        (entry_fields(mode=0o777), "mode 420"),
        (entry_fields(mode=...), "mode 420"),
        (entry_fields(mode=420.0), "mode 420"),
        (entry_fields(extra=1), "unknown field 'extra'"),
        (entry_fields(link="b"), "empty digest"),
        (entry_fields(link="../b", digest="", size=0), "is not safe"),
        (entry_fields(link="", digest="", size=0), "is not safe"),
        (entry_fields(link=3, digest="", size=0), "is not safe"),
        ("a", "must be an object"),
        (None, "must be an object"),
    ],
)
def test_a_bad_entry_is_refused(fields: object, message: str) -> None:
    with pytest.raises(UserErrorException, match=message):
        parse_files([fields])


@pytest.mark.parametrize("files", [None, {}, "[]", ({},)])
def test_files_must_be_a_list(files: object) -> None:
    with pytest.raises(UserErrorException, match="must be a list"):
        parse_files(files)


def test_one_path_stands_for_one_thing() -> None:
    with pytest.raises(UserErrorException, match="'a' occurs twice"):
        parse_files([entry_fields(), entry_fields(digest=B)])


@pytest.mark.parametrize("above", [{}, {"link": "b", "digest": "", "size": 0}])
def test_nothing_lies_below_a_file_or_a_link(above: dict[str, Any]) -> None:
    with pytest.raises(UserErrorException, match="'d' is both a file and a folder"):
        parse_files([entry_fields(path="d/e/f"), entry_fields(path="d", **above)])


def test_one_content_has_one_size() -> None:
    with pytest.raises(UserErrorException, match="the digest of another file"):
        parse_files([entry_fields(), entry_fields(path="b", size=2)])


def test_twins_in_case_or_composition_are_different_files() -> None:
    files = [entry_fields(path=path) for path in ("é", "e\u0301", "A", "a", "straße", "STRASSE")]
    assert len(parse_files(files)) == len(files)


def test_a_difference_is_told_by_path() -> None:
    old = [FileEntry("same", A, 1), FileEntry("gone", A, 1), FileEntry("mode", A, 1)]
    new = [FileEntry("same", A, 1), FileEntry("new", A, 1), FileEntry("mode", A, 1, 0o755)]
    assert diff(old, new) == (["new"], ["gone"], ["mode"])


@given(file_lists(), file_lists())
def test_a_difference_leads_from_one_to_the_other(
    old: list[FileEntry], new: list[FileEntry]
) -> None:
    found = diff(old, new)
    after = {entry.path: entry for entry in new}
    state = {entry.path: entry for entry in old if entry.path not in found.removed}
    state.update((path, after[path]) for path in found.added + found.changed)
    assert state == after
    assert diff(new, new) == ([], [], [])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("train.py", "train.py"),
        ("code/train.py", "src/train.py"),
        ("deep/code/train.py", "src/train.py"),
        ("./src/train.py", "src/train.py"),
        ("src/../train.py", "train.py"),
        ("loop/x", None),
        ("../x", None),
    ],
)
def test_links_are_followed_to_what_they_stand_for(path: str, expected: str | None) -> None:
    links = {"code": "src", "deep/code": "../code", "loop": "pool", "pool": "loop"}
    assert resolve(path, links) == expected


def test_a_notice_cannot_play_tricks_on_a_terminal() -> None:
    notice = Notice("a\x1b[2J\n\udce9b", "left out: a socket")
    assert str(notice) == "a\\x1b[2J\\n\\udce9b: left out: a socket"
