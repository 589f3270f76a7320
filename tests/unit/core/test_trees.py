from __future__ import annotations

import pytest

from wherry.core.errors import UserErrorException
from wherry.core.snapshots import FileEntry, canonical_json, snapshot_id
from wherry.core.trees import Tree, tree_id

A, B, C = (
    FileEntry(name, letter * 64, 5) for name, letter in (("a", "1"), ("b/c", "2"), ("z", "3"))
)


def test_a_tree_is_named_as_its_files_are() -> None:
    tree = Tree.of([C, A, B])
    assert tree.text() == canonical_json([A, B, C])
    assert tree_id(tree.text()) == snapshot_id([A, B, C])
    assert (list(tree), len(tree), tree.size) == (["a", "b/c", "z"], 3, 15)
    assert "b/c" in tree
    assert "b" not in tree


def test_changes_make_the_tree_that_all_files_would_make() -> None:
    other = FileEntry("a", "4" * 64, 7)
    new = FileEntry("b/a", "5" * 64, 1)
    link = FileEntry("l", "", 0, 0o644, "a")
    changed = Tree.of([A, B, C]).changed([other, new, link], ["z", "not there"])
    assert changed.text() == Tree.of([other, B, new, link]).text()
    assert changed.size == 13


def test_a_file_cannot_become_a_folder_beside_itself() -> None:
    with pytest.raises(UserErrorException, match="both a file and a folder"):
        Tree.of([A]).changed([FileEntry("a/b", "1" * 64, 1)], [])
    assert Tree.of([A]).changed([FileEntry("a/b", "1" * 64, 1)], ["a"]).text()
