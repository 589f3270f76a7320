"""Wheels that a workspace keeps: fetched, verified, locked by what they are, not where they lie."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.builds.conftest import spec
from tests.builds.index import Index, metadata, wheel
from tests.builds.test_pypi import run_in, versions
from wherry.builds import BuildError, prepare
from wherry.builds.prune import prune

Fetch = Callable[[str, str], None]


class Shelf:
    """What a server has, and how often it was asked."""

    def __init__(self) -> None:
        self.contents: dict[str, bytes] = {}
        self.asked: list[str] = []

    def add(self, name: str, version: str, *requires: str, source: str = "") -> str:
        content = wheel(name, version, source, metadata(name, version, requires))
        digest = hashlib.sha256(content).hexdigest()
        self.contents[digest] = content
        return f"wherry://wheels/{digest}/{name}-{version}-py3-none-any.whl"

    def fetch(self, digest: str, path: str) -> None:
        self.asked.append(digest)
        Path(path).write_bytes(self.contents[digest])


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def test_it_is_fetched_once_installed_and_locked(root: str, shelf: Shelf, index: Index) -> None:
    index.add("needed", "2.0")
    mine = shelf.add("mine", "1.0", "needed", source="WORD = 'kept'")
    wanted = spec(f"--index-url {index.url}/simple", mine)
    log: list[bytes] = []
    made = prepare(wanted, root, log=log.append, fetch=shelf.fetch)
    assert run_in(made, "import mine, needed; print(mine.WORD)") == "kept"
    assert versions(made) == {"mine": "1.0", "needed": "2.0"}
    assert made.lock is not None
    assert f'archive = {{ url = "{mine}"' in made.lock["pylock"]
    assert root not in json.dumps(made.lock)
    (record,) = Path(str(made.prefix)).glob("lib/python*/site-packages/mine-*/direct_url.json")
    assert json.loads(record.read_text())["url"] == mine
    assert b"== fetching the wheel mine-1.0-py3-none-any.whl" in b"".join(log)
    again = prepare(wanted, root)
    assert (again.built, again.prefix) == (False, made.prefix)
    other = prepare(spec(f"--index-url {index.url}/simple", mine, "needed==2.0"), root)
    assert other.prefix == made.prefix  # the file was still there
    assert len(shelf.asked) == 1


def test_its_lock_makes_the_same_elsewhere(tmp_path: Path, shelf: Shelf) -> None:
    mine = shelf.add("mine", "1.0+cu118", source="WORD = 'kept'")
    first = prepare(spec(f"mine @ {mine}"), str(tmp_path / "a b"), fetch=shelf.fetch)
    locked = {"name": "again", "python": {"lock": first.lock}}
    second = prepare(locked, str(tmp_path / "two"), fetch=shelf.fetch)
    assert second.lock == first.lock
    assert os.path.basename(str(second.prefix)) == os.path.basename(str(first.prefix))
    assert run_in(second, "import mine; print(mine.WORD)") == "kept"
    assert len(shelf.asked) == 2


def test_its_lock_makes_the_same_on_another_kind_of_machine(root: str, shelf: Shelf) -> None:
    mine = shelf.add("mine", "1.0", source="WORD = 'kept'")
    first = prepare(spec(mine), root, fetch=shelf.fetch)
    assert first.lock is not None
    lock = {**first.lock, "platform": "another"}
    second = prepare({"name": "again", "python": {"lock": lock}}, root, fetch=shelf.fetch)
    assert run_in(second, "import mine; print(mine.WORD)") == "kept"
    assert any("the same versions are installed" in each for each in second.notices)


def test_what_comes_is_verified_and_what_lies_there_too(root: str, shelf: Shelf) -> None:
    mine = shelf.add("mine", "1.0", source="WORD = 'right'")
    (digest,) = shelf.contents
    shelf.contents[digest], right = b"something else", shelf.contents[digest]
    with pytest.raises(BuildError, match=r"mine-1\.0-py3-none-any\.whl .* did not come as"):
        prepare(spec(mine), root, fetch=shelf.fetch)
    assert os.listdir(f"{root}/wheels/{digest}") == []
    shelf.contents[digest] = right
    prepare(spec(mine), root, fetch=shelf.fetch)
    (kept,) = Path(root, "wheels", digest).iterdir()
    kept.write_bytes(b"damaged")
    made = prepare(spec(mine, shelf.add("other", "1.0")), root, fetch=shelf.fetch)
    assert run_in(made, "import mine; print(mine.WORD)") == "right"


def test_without_a_server_it_is_refused(root: str, shelf: Shelf) -> None:
    with pytest.raises(BuildError, match=r"needs the wheel mine-1\.0.* which a workspace keeps"):
        prepare(spec(shelf.add("mine", "1.0")), root)


def test_a_wheel_that_cannot_be_installed_is_named_as_it_was_written(
    root: str, shelf: Shelf
) -> None:
    old = shelf.add("mine", "1.0").replace("-py3-", "-cp27-")
    digest = hashlib.sha256(b"no zip file").hexdigest()
    shelf.contents[digest] = b"no zip file"
    broken = f"wherry://wheels/{digest}/mine-1.0-py3-none-any.whl"
    for address in (old, broken):
        with pytest.raises(BuildError, match=f"cannot be resolved: {address}") as caught:
            prepare(spec(address), root, fetch=shelf.fetch)
        assert root not in caught.value.text()


def test_what_was_fetched_goes_when_room_is_made(root: str, shelf: Shelf) -> None:
    prepare(spec(shelf.add("mine", "1.0")), root, fetch=shelf.fetch).use.close()
    left = Path(root, "wheels", "0123.part")
    left.write_bytes(b"half of one")
    prune(root)
    assert left.exists()  # somebody may be fetching it
    os.utime(left, (0, 0))
    prune(root)
    assert not left.exists()
    assert os.listdir(f"{root}/wheels")
    prune(root, everything=True)
    assert not os.path.exists(f"{root}/wheels")
