from __future__ import annotations

import random
from itertools import product

import pytest

from wherry.core.errors import UserErrorException
from wherry.core.snapshots import FileEntry, canonical_json, folders_of, snapshot_id
from wherry.core.trees import Tree, tree_id

A, B, C = (
    FileEntry(name, letter * 64, 5) for name, letter in (("a", "1"), ("b/c", "2"), ("z", "3"))
)


def _text(tree: Tree) -> str:
    return b"".join(tree.content()).decode()


def test_no_files_are_an_empty_list() -> None:
    assert _text(Tree.of([])) == "[]"


def test_a_tree_is_named_as_its_files_are() -> None:
    tree = Tree.of([C, A, B])
    assert _text(tree) == canonical_json([A, B, C])
    assert tree_id(tree) == snapshot_id([A, B, C])
    assert (list(tree), len(tree), tree.size) == (["a", "b/c", "z"], 3, 15)
    assert "b/c" in tree
    assert "b" not in tree


def test_changes_make_the_tree_that_all_files_would_make() -> None:
    other = FileEntry("a", "4" * 64, 7)
    new = FileEntry("b/a", "5" * 64, 1)
    link = FileEntry("l", "", 0, 0o644, "a")
    changed = Tree.of([A, B, C]).changed([other, new, link], ["z", "not there"])
    assert _text(changed) == _text(Tree.of([other, B, new, link]))
    assert changed.size == 13


def test_a_file_cannot_become_a_folder_beside_itself() -> None:
    with pytest.raises(UserErrorException, match="both a file and a folder"):
        Tree.of([A]).changed([FileEntry("a/b", "1" * 64, 1)], [])
    assert list(Tree.of([A]).changed([FileEntry("a/b", "1" * 64, 1)], ["a"])) == ["a/b"]


def test_a_folder_cannot_become_a_file_beside_what_is_in_it() -> None:
    with pytest.raises(UserErrorException, match="'b' is both a file and a folder"):
        Tree.of([A, B, C]).changed([FileEntry("b", "1" * 64, 1)], [])
    assert list(Tree.of([B]).changed([FileEntry("b", "1" * 64, 1)], ["b/c"])) == ["b"]


def test_any_changes_make_the_tree_that_all_files_would_make(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts of two lines, so that they are cut, emptied and begin with every path there is."""
    monkeypatch.setattr("wherry.core.trees._PART", 2)
    chance = random.Random(1)
    paths = ["/".join(names) for depth in (1, 2, 3) for names in product("ab!", repeat=depth)]
    files: dict[str, FileEntry] = {}
    tree = Tree.of([])
    refused = 0
    for _ in range(1000):
        removed = chance.sample(paths, chance.randint(0, 4))
        entries = [
            FileEntry(path, chance.choice("12") * 64, chance.randint(0, 9))
            for path in chance.sample(paths, chance.randint(0, 3))
        ]
        left = {path: entry for path, entry in files.items() if path not in removed}
        after = {**left, **{entry.path: entry for entry in entries}}
        if after.keys() & folders_of(after):
            refused += 1
            with pytest.raises(UserErrorException, match="both a file and a folder"):
                tree.changed(entries, removed)
            continue
        tree, files = tree.changed(entries, removed), after
        assert _text(tree) == canonical_json(files.values())
        assert (list(tree), len(tree)) == (sorted(files), len(files))
        assert tree.size == sum(entry.size for entry in files.values())
        assert all((path in tree) is (path in files) for path in paths)
    assert 100 < refused < 900


def test_one_of_many_changes_and_the_rest_is_shared() -> None:
    files = {f"f{n:04}": FileEntry(f"f{n:04}", "1" * 64, n) for n in range(1200)}
    tree = Tree.of([*files.values()])
    for path in ("f0000", "f0511", "f0512", "f1023", "f1024", "f1199"):
        other = FileEntry(path, "2" * 64, 1000)
        files[path] = other
        tree = tree.changed([other], [])
        assert _text(tree) == canonical_json(files.values())
        assert tree.size == sum(entry.size for entry in files.values())
