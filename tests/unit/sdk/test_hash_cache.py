"""Reading files that change, and remembering the others: never wrong, whatever happens to it."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherry.core.snapshots import FileEntry
from wherry.sdk import hash_cache
from wherry.sdk.hash_cache import (
    CHUNK,
    Files,
    HashCache,
    Page,
    Reader,
    Reading,
    SnapshotChangedError,
    Wanted,
    largest,
)
from wherry.sdk.scout import NO_MARK, stat_key, unknown

NAMES = ["-rf", "a\nb", "e\u0301", "train.py", "é", "日本"]


def page_of(names: list[str], rules: str = "r", mark: int = 7) -> Page:
    rows = {
        n: (mark + i, FileEntry(f"d/{n}", "a" * 64, i).canonical()) for i, n in enumerate(names)
    }
    return Page.make(rules, rows, range(len(names)))


def stored_in(cache_dir: Path, root: str = "/tree") -> Path:
    return cache_dir / "snapshots" / hashlib.sha256(root.encode()).hexdigest()[:32]


def saved(cache_dir: Path, pages: dict[str, Page]) -> HashCache:
    cache = HashCache(str(cache_dir), "/tree")
    for folder, page in pages.items():
        cache.put(folder, page, effort=len(page.known))
    cache.save()
    return cache


def test_what_was_put_is_there_for_the_next_one(tmp_path: Path) -> None:
    pages = {"": page_of(NAMES), "d/é\n/": page_of(["x"], "s", -(2**60)), "/d/": page_of(["y"])}
    saved(tmp_path, pages)
    again = HashCache(str(tmp_path), "/tree")
    assert {folder: again.page(folder) for folder in pages} == pages
    assert again.page("other/").known == {}
    assert HashCache(str(tmp_path), "/other").page("").known == {}


def test_a_page_knows_its_lines_and_sizes() -> None:
    page = page_of(NAMES)
    assert list(page.known) == sorted(NAMES)
    assert page.sizes() == {name: i for i, name in enumerate(NAMES)}
    assert (page.size, page.largest) == (15, 5)
    assert page_of([]).lines() == {}


def test_pages_that_were_neither_kept_nor_put_are_forgotten(tmp_path: Path) -> None:
    saved(tmp_path, {"a/": page_of(["x"]), "b/": page_of(["x"])})
    cache = HashCache(str(tmp_path), "/tree")
    cache.keep("a/")
    cache.put("c/", page_of(["z"]), effort=1)
    cache.save()
    again = HashCache(str(tmp_path), "/tree")
    assert again.page("a/") == page_of(["x"])
    assert again.page("c/") == page_of(["z"])
    assert again.page("b/").known == {}


def test_a_small_change_is_not_worth_writing_all_down(tmp_path: Path) -> None:
    many = [f"f{i:03}" for i in range(200)]
    saved(tmp_path, {"": page_of(many)})
    before = stored_in(tmp_path).read_bytes()
    for effort, written in ((1, False), (20, True)):
        cache = HashCache(str(tmp_path), "/tree")
        cache.put("", page_of([*many, "new"]), effort)
        cache.save()
        assert (stored_in(tmp_path).read_bytes() != before) is written


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_file_counts_as_none(tmp_path: Path, data: st.DataObject) -> None:
    page = page_of(NAMES)
    saved(tmp_path, {"": page})
    file = stored_in(tmp_path)
    content = bytearray(file.read_bytes())
    at = data.draw(st.integers(0, len(content) - 1))
    damage = data.draw(st.sampled_from(["cut", "flip", "zero", "grow", "junk"]))
    if damage == "cut":
        del content[at:]
    elif damage == "flip":
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    elif damage == "zero":
        content[at:] = bytes(len(content) - at)
    elif damage == "grow":
        content += b"more"
    else:
        content = bytearray(data.draw(st.binary(max_size=200)))
    file.write_bytes(content)
    assert HashCache(str(tmp_path), "/tree").page("") in (page, Page("", {}, "", 0, 0))
    if damage != "zero":
        assert HashCache(str(tmp_path), "/tree").page("").known == {}
    saved(tmp_path, {"": page})
    assert HashCache(str(tmp_path), "/tree").page("") == page
    file.unlink()


def test_without_a_place_to_write_nothing_is_remembered(tmp_path: Path) -> None:
    place = tmp_path / "a file"
    place.write_text("")
    cache = saved(place, {"": page_of(NAMES)})
    cache.save()
    assert HashCache(str(place), "/tree").page("").known == {}


def test_many_writers_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    pages = [page_of([f"f{i}" for i in range(n)], mark=n) for n in range(100, 108)]
    start = threading.Barrier(len(pages))

    def write(page: Page) -> None:
        start.wait()
        for _ in range(20):
            saved(tmp_path, {"": page})
            assert HashCache(str(tmp_path), "/tree").page("") in pages

    threads = [threading.Thread(target=write, args=(page,)) for page in pages]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert HashCache(str(tmp_path), "/tree").page("") in pages
    assert list((tmp_path / "snapshots").iterdir()) == [stored_in(tmp_path)]


def test_what_nobody_used_for_a_month_is_removed(tmp_path: Path) -> None:
    saved(tmp_path, {"": page_of(NAMES)})
    old, fresh = stored_in(tmp_path, "/old"), stored_in(tmp_path, "/fresh")
    for file, days in ((old, 31), (fresh, 29)):
        file.write_text("")
        os.utime(file, (time.time() - days * 86400,) * 2)
    saved(tmp_path, {"": page_of(NAMES)})
    assert not old.exists()
    assert fresh.exists()


def test_to_use_it_unchanged_is_to_use_it(tmp_path: Path) -> None:
    saved(tmp_path, {"": page_of(NAMES)})
    os.utime(stored_in(tmp_path), (1, 1))
    cache = HashCache(str(tmp_path), "/tree")
    cache.keep("")
    cache.save()
    assert stored_in(tmp_path).stat().st_mtime > 1
    assert HashCache(str(tmp_path), "/tree").page("") == page_of(NAMES)


def test_only_this_user_may_read_what_is_remembered(tmp_path: Path) -> None:
    saved(tmp_path, {"": page_of(NAMES)})
    assert (tmp_path / "snapshots").stat().st_mode & 0o777 == 0o700


def reading_of(changed_ns: int, read_at_ns: int, steady: bool = True) -> Reading:
    seconds = changed_ns // 10**9
    stat = os.stat_result(
        (0o100644, 1, 1, 1, 0, 0, 5, seconds, seconds, seconds),
        {"st_mtime_ns": changed_ns, "st_ctime_ns": changed_ns, "st_atime_ns": changed_ns},
    )
    return Reading("a" * 64, stat, read_at_ns, 5, steady)


@pytest.mark.parametrize(
    ("changed_ns", "read_at_ns", "remembered"),
    [
        (5_000_000_001, 5_000_000_001, False),
        (5_000_000_001, 5_099_000_000, False),
        (5_000_000_001, 5_200_000_000, True),
        (5_000_000_000, 6_900_000_000, False),  # seems to be kept in whole seconds
        (5_000_000_000, 7_100_000_000, True),
        (9_000_000_001, 5_000_000_000, False),  # from the future: some other clock
    ],
)
def test_a_file_that_may_change_unseen_is_not_remembered(
    changed_ns: int, read_at_ns: int, remembered: bool
) -> None:
    reading = reading_of(changed_ns, read_at_ns)
    assert reading.mark() == (hash(stat_key(reading.stat)) if remembered else NO_MARK)


def test_what_changed_while_it_was_read_is_not_remembered() -> None:
    assert reading_of(5, 10**12, steady=False).mark() == NO_MARK


@pytest.mark.parametrize(
    "field", ["st_mode", "st_ino", "st_size", "st_mtime_ns", "st_ctime_ns", None]
)
def test_a_file_is_known_by_all_of_its_stat(field: str | None) -> None:
    class Entry:
        name = "a"

        def __init__(self, stat: object) -> None:
            self._stat = stat

        def stat(self, *, follow_symlinks: bool) -> object:
            assert not follow_symlinks
            return self._stat

    class Stat:
        st_mode, st_ino, st_size, st_mtime_ns, st_ctime_ns = 1, 2, 3, 4, 5

    known = {"a": hash(stat_key(Stat()))}  # type: ignore[arg-type] # a stand-in
    now = Stat()
    if field is not None:
        setattr(now, field, 6)
    rest = unknown([Entry(now)], known)  # type: ignore[list-item] # a stand-in
    assert bool(rest) is (field is not None)


def test_the_largest_files_of_all_folders() -> None:
    groups = []
    for folder in ("a/", "b/", "c/"):
        files = Files(folder)
        files.sizes = {name: len(folder) * 100 + ord(name) for name in "xyz"}
        groups.append(files)
    groups[1].sizes["big"] = 10**9
    found = largest(groups, 4)
    assert found[0] == (10**9, "b/big")
    assert [size for size, _ in found[1:]] == [322, 322, 322]


@pytest.mark.parametrize("size", [0, 1, CHUNK, CHUNK + 1, 3 * CHUNK])
def test_a_file_at_rest_is_read_once(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    (tmp_path / "f").write_bytes(content)
    os.chmod(tmp_path / "f", 0o700)
    reading = Reader().read(str(tmp_path / "f"))
    assert reading.steady
    digest = hashlib.sha256(content).hexdigest()
    assert reading.entry("x/f") == FileEntry("x/f", digest, size, 0o755)


class Meddler:
    """Does something to a file each time some of it has been read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, file: Path, times: int) -> None:
        self.left = times
        self.file = file
        self._read = os.read
        monkeypatch.setattr(os, "read", self)

    def __call__(self, file: int, count: int) -> bytes:
        content = self._read(file, count)
        if self.left:
            self.left -= 1
            with open(self.file, "ab") as stream:
                stream.write(b"more")
        return content


@pytest.mark.parametrize("size", [10, 2 * CHUNK])
def test_a_file_that_changes_once_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(size))
    Meddler(monkeypatch, file, times=1)
    reading = Reader().read(str(file))
    assert reading.steady
    assert reading.digest == hashlib.sha256(bytes(size) + b"more").hexdigest()


@pytest.mark.parametrize("size", [10, 2 * CHUNK])
def test_a_file_that_never_rests_is_held_as_it_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    file = tmp_path / "f"
    file.write_bytes(bytes(size))
    Meddler(monkeypatch, file, times=10**6)
    reader = Reader()
    reading = reader.read(str(file))
    assert not reading.steady
    monkeypatch.undo()
    entry = reading.entry("f")
    file.unlink()
    content = reader.content(str(file), entry)
    assert content is not None
    assert hashlib.sha256(content).hexdigest() == entry.digest
    assert content.startswith(bytes(size) + b"more")
    assert b"".join(reader.chunks(str(file), entry)) == content


def test_held_contents_do_not_get_mixed_up(tmp_path: Path) -> None:
    reader, entries = Reader(), []
    for i in range(5):
        (tmp_path / "f").write_bytes(bytes([i]) * (i * CHUNK))
        entries.append(reader.hold(str(tmp_path / "f")).entry("f"))
        assert reader.content("gone", entries[i // 2]) == bytes([i // 2]) * (i // 2 * CHUNK)
    (tmp_path / "f").unlink()
    for i in (3, 0, 4, 1, 2):
        assert reader.content("gone", entries[i]) == bytes([i]) * (i * CHUNK)


def test_content_is_given_only_if_it_is_the_one_meant(tmp_path: Path) -> None:
    file = tmp_path / "f"
    entry = FileEntry("f", hashlib.sha256(b"abc").hexdigest(), 3)
    for content in (b"abc", b"abcd"):  # what was appended since does not matter
        file.write_bytes(content)
        assert Reader().content(str(file), entry) == b"abc"
        assert list(Reader().chunks(str(file), entry)) == [b"abc"]
    for content in (b"abd", b"ab", b""):
        file.write_bytes(content)
        assert Reader().content(str(file), entry) is None
        with pytest.raises(SnapshotChangedError, match="'f' changed while it was sent"):
            list(Reader().chunks(str(file), entry))
    file.unlink()
    assert Reader().content(str(file), entry) is None
    with pytest.raises(SnapshotChangedError):
        list(Reader().chunks(str(file), entry))


def test_a_pipe_in_the_place_of_a_file_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with pytest.raises(OSError, match="no longer a regular file"):
        Reader().read(str(tmp_path / "f"))


def test_small_and_large_files_are_all_read(tmp_path: Path) -> None:
    wanted = []
    for i in range(12):
        file = tmp_path / f"f{i}"
        file.write_bytes(bytes([i]) * (CHUNK // 4 * i))
        wanted.append(Wanted(Files(""), f"f{i}", f"f{i}", str(file), CHUNK // 4 * i))
    wanted[3] = wanted[3]._replace(real=str(tmp_path / "none"))
    wanted[9] = wanted[9]._replace(real=str(tmp_path / "none"))
    found = {each.name: outcome for each, outcome in Reader().read_all(wanted)}
    assert {n for n, outcome in found.items() if isinstance(outcome, OSError)} == {"f3", "f9"}
    for i in (0, 1, 8, 11):
        outcome = found[f"f{i}"]
        assert isinstance(outcome, Reading)
        assert outcome.digest == hashlib.sha256(bytes([i]) * (CHUNK // 4 * i)).hexdigest()


def test_to_stop_asking_is_to_stop_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C must not wait for gigabytes."""
    monkeypatch.setattr(hash_cache, "_THREADS", 1)
    (tmp_path / "small").write_bytes(bytes(CHUNK + 1))
    with open(tmp_path / "endless", "wb") as stream:
        stream.truncate(2**40)
    wanted = [
        Wanted(Files(""), name, name, str(tmp_path / name), CHUNK + 1)
        for name in ("small", "endless")
    ]
    readings = Reader().read_all(wanted)
    assert next(readings)[0].name == "small"
    readings.close()  # type: ignore[attr-defined] # it is a generator
