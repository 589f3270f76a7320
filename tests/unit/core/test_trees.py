from __future__ import annotations

import pytest

from wherry.core.errors import UserErrorException
from wherry.core.snapshots import FileEntry, canonical_json, snapshot_id
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


def test_one_of_many_changes_and_the_rest_is_shared() -> None:
    files = {f"f{n:04}": FileEntry(f"f{n:04}", "1" * 64, n) for n in range(1200)}
    tree = Tree.of([*files.values()])
    for path in ("f0000", "f0511", "f0512", "f1023", "f1024", "f1199"):
        other = FileEntry(path, "2" * 64, 1000)
        files[path] = other
        tree = tree.changed([other], [])
        assert _text(tree) == canonical_json(files.values())
        assert tree.size == sum(entry.size for entry in files.values())
