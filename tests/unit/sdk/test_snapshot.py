"""Captures of real trees, and their way to a server that believes nothing."""

from __future__ import annotations

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.capabilities import modes_count
from wherry.core.errors import SnapshotException, UserErrorException
from wherry.core.snapshots import FileEntry, Notice, parse_files, snapshot_id
from wherry.sdk import batch as bodies
from wherry.sdk import hash_cache, scout, walk
from wherry.sdk.snapshot import Snapshot
from wherry.sdk.upload import upload

Capture = Callable[..., Snapshot]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    return root


@pytest.fixture
def capture(tree: Path, tmp_path: Path) -> Capture:
    return lambda **options: Snapshot.capture(tree, cache_dir=tmp_path / "cache", **options)


@pytest.fixture
def settled_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files count as long unchanged when they are read."""
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3600 * 10**9)


def write(root: Path, files: dict[str, str]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)


def paths(found: Snapshot) -> list[str]:
    return [entry.path for entry in found.files]


def digest_of(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return hashlib.sha256(data).hexdigest()


def told(found: Snapshot) -> dict[str, str]:
    assert len({notice.path for notice in found.notices}) == len(found.notices)
    return {notice.path: notice.what for notice in found.notices}


class Server:
    """Checks what it gets as the real one does; ``meddle`` is called before each request."""

    def __init__(self, meddle: Callable[[str], None] = lambda path: None) -> None:
        self.blobs: dict[str, bytes] = {}
        self.registered: dict[str, list[FileEntry]] = {}
        self.requests: list[tuple[str, int]] = []
        self.meddle = meddle

    def post(
        self,
        path: str,
        *,
        json: Any = None,
        data: Iterable[bytes] | None = None,
        length: int | None = None,
    ) -> dict[str, Any]:
        self.meddle(path)
        if path == "/blobs":
            assert data is not None
            return self._store(data, length)
        assert path == "/workspaces/my%20ws/snapshots"
        return self._register(parse_files(json["files"]))

    def _register(self, files: list[FileEntry]) -> dict[str, Any]:
        missing = sorted({e.digest for e in files if not e.link} - self.blobs.keys())
        if not missing:
            self.registered[snapshot_id(files)] = files
        return {"id": snapshot_id(files), "missing": missing}

    def _store(self, data: Iterable[bytes], length: int | None) -> dict[str, Any]:
        body = b"".join(data)
        assert len(body) == length
        frames = list(parse_frames(body))
        self.blobs.update(frames)
        self.requests.append(path_and_size := ("/blobs", len(frames)))
        return {"stored": path_and_size[1]}

    def unpack(self, snapshot_id: str, folder: Path) -> None:
        for entry in self.registered[snapshot_id]:
            place = folder / entry.path
            place.parent.mkdir(parents=True, exist_ok=True)
            if entry.link:
                place.symlink_to(entry.link)
            else:
                assert len(self.blobs[entry.digest]) == entry.size
                place.write_bytes(self.blobs[entry.digest])
                place.chmod(entry.mode)


def parse_frames(body: bytes) -> Iterator[tuple[str, bytes]]:
    while body:
        header, _, body = body.partition(b"\n")
        digest, size = header.decode().split(" ")
        content, body = body[: int(size)], body[int(size) :]
        assert digest_of(content) == digest
        yield digest, content


def test_what_is_captured(tree: Path, capture: Capture) -> None:
    write(tree, {"train.py": "print()", "lib/a.py": "a", "lib/b/c.py": "", "lib.py": "a"})
    (tree / "train.py").chmod(0o750)
    (tree / "empty").mkdir()
    found = capture()
    assert found.files == [
        FileEntry("lib.py", digest_of("a"), 1),
        FileEntry("lib/a.py", digest_of("a"), 1),
        FileEntry("lib/b/c.py", digest_of(""), 0),
        FileEntry("train.py", digest_of("print()"), 7, 0o755),
    ]
    assert found.id == snapshot_id(found.files)
    assert found.size == 9
    assert (found.notices, found.warnings) == ([], [])
    assert found.directory == os.path.realpath(tree)


def test_an_empty_directory(capture: Capture) -> None:
    found = capture()
    assert (found.files, found.size, found.id) == ([], 0, snapshot_id([]))


def test_order_is_that_of_the_paths_not_of_the_folders(tree: Path, capture: Capture) -> None:
    write(tree, dict.fromkeys(["a/b", "a.b", "a-b", "a0", "a/c/d", "a/c.d"], "x"))
    (tree / "a1").symlink_to("a")
    for _ in range(2):
        found = capture()
        assert paths(found) == sorted(paths(found))
        assert found.id == snapshot_id(found.files)


@pytest.mark.parametrize("kind", ["missing", "file"])
def test_a_directory_that_is_none(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "src"
    if kind == "file":
        place.write_text("")
    with pytest.raises(SnapshotException, match=r"the source directory '.*src' (does|is) not"):
        Snapshot.capture(place, cache_dir=tmp_path)


def test_the_cache_has_a_default_place(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHERRY_CACHE", str(tmp_path / "mine"))
    monkeypatch.setenv("WHERRY_HOME", str(tmp_path / "home"))
    write(tree, {"a": ""})
    Snapshot.capture(tree)
    assert len(list((tmp_path / "mine" / "snapshots").iterdir())) == 1


def test_nested_ignore_files(tree: Path, capture: Capture) -> None:
    write(tree, {".gitignore": "*.log\n/data/\n", "a.log": "", "data/x": "", "src/data/y": ""})
    write(tree, {"src/.gitignore": "!keep.log\n/y\n", "src/keep.log": "", "src/y": ""})
    assert paths(capture()) == [".gitignore", "src/.gitignore", "src/data/y", "src/keep.log"]


@pytest.mark.usefixtures("settled_clock")
def test_one_ignore_file_speaks_for_a_folder(tree: Path, capture: Capture) -> None:
    names = [".gitignore", ".amlignore", ".wherryignore"]
    write(tree, {"git": "", "aml": "", "wherry": "", "sub/git": "", "sub/aml": ""})
    for i, name in enumerate(names):
        write(tree, {name: name[1:].replace("ignore", "")})
        left = {"git", "aml", "wherry"} - {["git", "aml", "wherry"][i]}
        assert set(paths(capture())) & {"git", "aml", "wherry"} == left
    write(tree, {"sub/.gitignore": "git"})
    assert [p for p in paths(capture()) if p.startswith("sub/")] == ["sub/.gitignore", "sub/aml"]


@pytest.mark.usefixtures("settled_clock")
def test_an_edited_ignore_file_is_followed_at_once(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "", "b": "", "sub/a": "", ".gitignore": "a"})
    assert paths(capture()) == [".gitignore", "b"]
    write(tree, {".gitignore": "bb"})
    assert paths(capture()) == [".gitignore", "a", "b", "sub/a"]
    write(tree, {".gitignore": "/a\nb"})
    assert paths(capture()) == [".gitignore", "sub/a"]
    (tree / ".gitignore").unlink()
    assert paths(capture()) == ["a", "b", "sub/a"]


@pytest.mark.usefixtures("settled_clock")
def test_defaults_and_how_to_bring_them_back(tree: Path, capture: Capture) -> None:
    write(tree, {"__pycache__/a.pyc": "", ".git/HEAD": "", ".venv/x": "", ".azureml/config": ""})
    write(tree, {"venv/code.py": "", "x.egg-info/PKG": "", "node_modules/m/i.js": ""})
    assert paths(capture()) == [".azureml/config", "venv/code.py"]
    write(tree, {".gitignore": "!node_modules/\n!__pycache__"})
    assert paths(capture()) == [
        ".azureml/config",
        ".gitignore",
        "node_modules/m/i.js",
        "venv/code.py",
    ]


@pytest.mark.usefixtures("settled_clock")
def test_a_list_of_what_to_keep_does_not_mean_what_nobody_wants(
    tree: Path, capture: Capture
) -> None:
    write(tree, {".gitignore": "*\n!*/\n!.*\n!*.py\n", "src/a.py": "", "src/data.csv": ""})
    write(tree, {".git/hook.py": "", ".venv/x.py": "", "env/pyvenv.cfg": "", "env/y.py": ""})
    assert paths(capture()) == [".gitignore", "src/a.py"]


@pytest.mark.parametrize("name", ["venv", ".venv", "env310"])
def test_a_virtual_environment_is_known_by_what_it_holds(
    tree: Path, capture: Capture, name: str
) -> None:
    write(tree, {f"{name}/lib/x.py": "", "a": ""})
    capture()
    write(tree, {f"{name}/pyvenv.cfg": ""})
    assert paths(capture()) == ["a"]
    write(tree, {".wherryignore": f"!{name}/"})
    assert f"{name}/lib/x.py" in paths(capture())
    write(tree, {".wherryignore": ""})
    assert paths(capture()) == [".wherryignore", "a"]


def test_the_directory_itself_may_be_one(tree: Path, capture: Capture) -> None:
    write(tree, {"pyvenv.cfg": "", "train.py": ""})
    assert paths(capture()) == ["pyvenv.cfg", "train.py"]


def test_ignored_folders_are_never_opened(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {".gitignore": "huge/\nsub/*.bin\n", "huge/deep/x": "", ".git/x": "", "sub/a": ""})
    (tree / "huge").chmod(0)
    opened = []
    real_open = os.open

    def spy(path: Any, *args: Any, **options: Any) -> int:
        opened.append(os.path.relpath(path, tree))
        return real_open(path, *args, **options)

    monkeypatch.setattr(os, "open", spy)
    found = capture()
    (tree / "huge").chmod(0o700)
    assert found.notices == []
    assert sorted(set(opened)) == [".", ".gitignore", "sub", "sub/a"]


@pytest.mark.usefixtures("settled_clock")
def test_include_takes_what_is_left_out(tree: Path, capture: Capture) -> None:
    write(tree, {".gitignore": "*.py\nbuild/\n", "train.py": "", "lib.py": "", "build/a/b.txt": ""})
    write(tree, {"build/a/c.txt": "", "build/z": "", "out/x.pyc": "", "data/a/b.py": ""})
    assert paths(capture()) == [".gitignore"]
    for _ in range(2):
        assert paths(capture(include=["./train.py"])) == [".gitignore", "train.py"]
        assert paths(capture(include=["build/a/b.txt"])) == [".gitignore", "build/a/b.txt"]
        assert paths(capture(include=["build/a", tree / "out/x.pyc"])) == [
            ".gitignore",
            "build/a/b.txt",
            "build/a/c.txt",
            "out/x.pyc",
        ]
        assert paths(capture()) == [".gitignore"]
    assert paths(capture(include=["none.py", "no/ne.py"])) == [".gitignore"]


def test_include_stays_inside(capture: Capture) -> None:
    with pytest.raises(UserErrorException, match="not a safe path"):
        capture(include=["../x.py"])


def test_links_inside_stay_links(tree: Path, capture: Capture) -> None:
    write(tree, {"v1/model.pt": "m", "sub/x": "x"})
    (tree / "current").symlink_to("v1")
    (tree / "latest").symlink_to("current")
    (tree / "sub/model").symlink_to("../current/model.pt")
    (tree / "sub/absolute").symlink_to(tree / "v1" / "model.pt")
    (tree / "sub/winding").symlink_to("../current/../sub/x")
    (tree / "sub/root").symlink_to("..")
    found = capture()
    assert {entry.path: entry.link for entry in found.files if entry.link} == {
        "current": "v1",
        "latest": "current",
        "sub/absolute": "../v1/model.pt",
        "sub/model": "../current/model.pt",
        "sub/root": "..",
        "sub/winding": "x",
    }
    assert found.notices == []
    assert all((e.digest, e.size, e.mode) == ("", 0, 0o644) for e in found.files if e.link)
    assert parse_files([entry.to_dict() for entry in found.files]) == found.files


@pytest.mark.usefixtures("settled_clock")
def test_links_out_are_followed(tree: Path, tmp_path: Path, capture: Capture) -> None:
    write(tmp_path / "shared", {"a.csv": "a", "deep/b.csv": "b", "run.sh": "s", "skip.log": ""})
    (tmp_path / "shared/run.sh").chmod(0o755)
    (tmp_path / "shared/deep/up").symlink_to("../a.csv")
    (tmp_path / "shared/home").symlink_to(tree)
    (tmp_path / "shared/again").symlink_to(tmp_path / "shared")
    (tmp_path / "shared/beside").symlink_to("../beside.txt")
    (tmp_path / "beside.txt").write_text("beside")
    write(tree, {".gitignore": "*.log", "own.txt": ""})
    (tree / "run").symlink_to(tmp_path / "shared" / "run.sh")
    (tree / "data").symlink_to("../shared")
    for _ in range(2):
        found = capture()
        assert {e.path: e.link or e.digest[:4] for e in found.files if e.path != ".gitignore"} == {
            "own.txt": digest_of("")[:4],
            "run": digest_of("s")[:4],
            "data/a.csv": digest_of("a")[:4],
            "data/deep/b.csv": digest_of("b")[:4],
            "data/deep/up": "../a.csv",
            "data/run.sh": digest_of("s")[:4],
            "data/home": "..",
            "data/again": ".",
            "data/beside": digest_of("beside")[:4],
        }
        assert found.notices == []
        assert paths(found) == sorted(paths(found))
        parse_files([entry.to_dict() for entry in found.files])
    (tmp_path / "shared/run.sh").write_text("changed")
    assert {e.digest for e in capture().files if "run" in e.path} == {digest_of("changed")}


def test_two_folders_outside_that_link_to_each_other(
    tree: Path, tmp_path: Path, capture: Capture
) -> None:
    for name, other in (("one", "two"), ("two", "one")):
        write(tmp_path / name, {f"{name}.txt": name})
        (tmp_path / name / "other").symlink_to(tmp_path / other)
    (tree / "data").symlink_to(tmp_path / "one")
    assert {entry.path: entry.link for entry in capture().files} == {
        "data/one.txt": "",
        "data/other/two.txt": "",
        "data/other/other": "..",
    }


@pytest.mark.parametrize("above", ["..", "../..", "/"])
def test_a_link_to_a_folder_around_is_left_out(tree: Path, capture: Capture, above: str) -> None:
    write(tree, {"sub/a": ""})
    (tree / "up").symlink_to(above)
    found = capture()
    assert paths(found) == ["sub/a"]
    assert "a folder around the one it is in" in told(found)["up"]


def test_links_to_nothing_and_in_circles(tree: Path, capture: Capture) -> None:
    (tree / "gone").symlink_to("nowhere")
    (tree / "out").symlink_to("/nowhere/at/all")
    (tree / "self").symlink_to("self")
    (tree / "ping").symlink_to("pong")
    (tree / "pong").symlink_to("ping")
    found = capture()
    assert found.files == []
    assert told(found)["gone"] == (
        "left out: a link to nowhere, which leads nowhere (no such file or directory)"
    )
    assert sorted(told(found)) == ["gone", "out", "ping", "pong", "self"]


def test_an_ignored_link_is_nobodys_business(tree: Path, tmp_path: Path, capture: Capture) -> None:
    write(tmp_path / "big", {"x": ""})
    write(tree, {".gitignore": "gone\ndata/\n"})
    (tree / "gone").symlink_to("nowhere")
    (tree / "data").symlink_to(tmp_path / "big")
    found = capture()
    assert (paths(found), found.notices) == ([".gitignore"], [])


def test_a_link_to_what_is_left_out_is_told(tree: Path, capture: Capture) -> None:
    write(tree, {".gitignore": "big/\n", "big/x": "", "small/x": ""})
    (tree / "a").symlink_to("big/x")
    (tree / "b").symlink_to("big")
    (tree / "c").symlink_to("small")
    (tree / "d").symlink_to("a")
    found = capture()
    assert paths(found) == [".gitignore", "a", "b", "c", "d", "small/x"]
    assert told(found) == {
        "a": "a link to big/x, which is left out",
        "b": "a link to big, which is left out",
        "d": "a link to a, which is left out",
    }


def test_what_is_no_file_is_told(tree: Path, capture: Capture, monkeypatch: Any) -> None:
    os.mkfifo(tree / "pipe")
    monkeypatch.chdir(tree)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("sock")
    (tree / "null").symlink_to("/dev/null")
    (tree / "to pipe").symlink_to("pipe")
    found = capture()
    assert paths(found) == ["to pipe"]
    assert told(found) == {
        "pipe": "left out: a named pipe",
        "sock": "left out: a socket",
        "null": "left out: a link to /dev/null, a device",
        "to pipe": "a link to pipe, which is left out",
    }


def test_what_cannot_be_read_is_told(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"secret.key": "", "vault/x": "", "a": "", "sub/.gitignore": "b", "sub/b": ""})
    real_open, closed = os.open, [f"{os.path.realpath(tree)}/{n}" for n in ("secret.key", "vault")]

    def refuse(path: Any, *args: Any, **options: Any) -> int:
        if path in closed:
            raise PermissionError(13, "Permission denied", path)
        return real_open(path, *args, **options)

    monkeypatch.setattr(os, "open", refuse)
    for _ in range(2):
        found = capture()
        assert paths(found) == ["a", "sub/.gitignore"]
        assert told(found) == dict.fromkeys(["secret.key", "vault"], "left out: permission denied")


def test_an_ignore_file_that_cannot_be_read_is_told(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a": ""})
    (tree / ".wherryignore").mkdir()
    (tree / ".amlignore").symlink_to(".amlignore")
    write(tree, {".gitignore": "a"})
    found = capture()
    assert paths(found) == [".gitignore"]
    whats = [what for path, what in found.notices if path == ".amlignore"]
    assert whats[0] == "its rules are not followed: too many levels of symbolic links"


def test_a_folder_that_turns_into_a_link_is_not_followed(
    tree: Path, tmp_path: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"sub/a": "", "z": ""})
    write(tmp_path / "outside", {"secret": ""})
    real_open = os.open

    def swap(path: Any, *args: Any, **options: Any) -> int:
        if str(path).endswith("/sub"):
            (tree / "sub").rename(tmp_path / "moved")
            (tree / "sub").symlink_to(tmp_path / "outside")
        return real_open(path, *args, **options)

    monkeypatch.setattr(os, "open", swap)
    found = capture()
    assert paths(found) == ["z"]
    assert list(told(found)) == ["sub"]


def test_files_without_permission(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "", "b/c": ""})
    (tree / "a").chmod(0)
    (tree / "b").chmod(0)
    with modes_count():
        found = capture()
    (tree / "b").chmod(0o700)
    assert (found.files, sorted(told(found))) == ([], ["a", "b"])


@pytest.mark.usefixtures("settled_clock")
def test_odd_names(tree: Path, capture: Capture) -> None:
    names = ["-rf", "a\nb", "a b", "é", "e\u0301", "A", "a", "日本", "\x1b[2J", "x" * 255, 'q"},{"']
    write(tree, dict.fromkeys([*names, *(f"d{i}/{n}" for i, n in enumerate(names))], "x"))
    bad = [b"caf\xe9", b"sub\xff/x"]
    for name in bad:
        place = os.path.join(os.fsencode(tree), name)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        with open(place, "wb"):
            pass
    write(tree, {"c:drive": ""})
    for _ in range(2):
        found = capture()
        assert paths(found) == sorted([*names, *(f"d{i}/{n}" for i, n in enumerate(names))])
        assert told(found) == {
            "caf\udce9": "left out: its path is not UTF-8",
            "sub\udcff": "left out: its path is not UTF-8",
            "c:drive": "left out: its path is absolute",
        }
        assert "caf\\udce9" in [str(notice).partition(":")[0] for notice in found.notices]
    server = Server()
    upload(found, server, "my ws")
    assert len(server.registered[found.id]) == 2 * len(names)


@pytest.mark.parametrize(("name", "depth"), [("d" * 200, 20), ("d", 1200)])
def test_folders_too_deep_to_be_named(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch, name: str, depth: int
) -> None:
    monkeypatch.chdir(tree)
    for _ in range(depth):
        os.mkdir(name)
        os.chdir(name)
        Path("f").write_text("")
    os.chdir(tree)
    found = capture()
    subprocess.run(["rm", "-rf", name], check=True)
    assert paths(found) == sorted(paths(found))
    assert max(map(len, paths(found))) <= 3840
    whats = list(told(found).values())
    if depth > 1000:
        assert (len(found.files), whats) == (depth, [])
    else:
        assert len(found.files) >= 15
        assert len(whats) == 1
        assert "long" in whats[0]


def test_a_file_that_will_not_rest_is_told(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a": "a", "log.txt": "line\n"})
    real_read, inode = os.read, (tree / "log.txt").stat().st_ino

    def read(file: int, count: int) -> bytes:
        content = real_read(file, count)
        if os.fstat(file).st_ino == inode:
            with open(tree / "log.txt", "ab") as stream:
                stream.write(b"line\n")
        return content

    monkeypatch.setattr(os, "read", read)
    found = capture()
    monkeypatch.undo()
    assert told(found) == {"log.txt": "changed while it was read: captured as it was last read"}
    (tree / "log.txt").write_text("all different now")
    server = Server()
    assert upload(found, server, "my ws") == found.id
    entry = next(e for e in found.files if e.path == "log.txt")
    assert server.blobs[entry.digest] == b"line\n" * (entry.size // 5)
    assert capture().files[1].digest == digest_of("all different now")


def test_a_file_that_vanishes_meanwhile(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {"a": "a", "b": "b"})

    def look(found: os.stat_result) -> Any:
        (tree / "b").unlink(missing_ok=True)
        return scout.stat_key(found)

    monkeypatch.setattr(walk, "stat_key", look)
    found = capture()
    assert paths(found) == ["a"]
    assert told(found) == {"b": "left out: no such file or directory"}


def test_a_file_changed_in_the_same_tick_is_seen(tree: Path, capture: Capture) -> None:
    """Nothing but the content differs, as far as a coarse clock can tell."""
    write(tree, {"a": "one"})
    before = (tree / "a").stat()
    first = capture()
    write(tree, {"a": "two"})
    os.utime(tree / "a", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert capture().files[0].digest == digest_of("two") != first.files[0].digest


class Reads:
    """Counts the files that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths: list[str] = []
        real = hash_cache.Reader._read

        def read(reader: Any, path: str, *args: Any) -> Any:
            self.paths.append(os.path.basename(path))
            return real(reader, path, *args)

        monkeypatch.setattr(hash_cache.Reader, "_read", read)


@pytest.mark.usefixtures("settled_clock")
def test_only_what_changed_is_read_again(
    tree: Path, tmp_path: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {f"d{i % 3}/f{i}": str(i) for i in range(12)})
    write(tmp_path, {"outside": "o"})
    (tree / "d1/link").symlink_to(tmp_path / "outside")
    first = capture()
    reads = Reads(monkeypatch)
    assert capture().id == first.id
    assert reads.paths == []
    write(tree, {"d1/f4": "changed", "d2/new": "", ".gitignore": "d0/f0"})
    assert capture().id != first.id
    assert sorted(reads.paths) == [".gitignore", "f4", "new"]


@pytest.mark.usefixtures("settled_clock")
def test_a_folder_may_gain_and_lose_files(tree: Path, capture: Capture) -> None:
    write(tree, {"d/b": "b", "d/c": "c"})
    capture()
    write(tree, {"d/a": "a"})
    assert paths(capture()) == ["d/a", "d/b", "d/c"]
    (tree / "d/b").unlink()
    assert paths(capture()) == ["d/a", "d/c"]
    (tree / "d/c").rename(tree / "d/d")
    assert paths(capture()) == ["d/a", "d/d"]


@pytest.mark.usefixtures("settled_clock")
def test_new_rules_are_remembered_too(tree: Path, tmp_path: Path, capture: Capture) -> None:
    write(tree, {f"d/f{i}": "" for i in range(100)})
    capture()
    cache_dir, root = str(tmp_path / "cache"), os.path.realpath(tree)
    old = hash_cache.HashCache(cache_dir, root).page("d/").rules
    write(tree, {".gitignore": "x"})
    capture()
    page = hash_cache.HashCache(cache_dir, root).page("d/")
    assert len(page.known) == 100
    assert page.rules != old


@pytest.mark.usefixtures("settled_clock")
def test_a_mode_is_no_less_a_change(tree: Path, capture: Capture) -> None:
    write(tree, {"run.sh": "x"})
    capture()
    (tree / "run.sh").chmod(0o755)
    assert capture().files[0].mode == 0o755


def test_a_damaged_cache_does_no_harm(tree: Path, tmp_path: Path, capture: Capture) -> None:
    write(tree, {"a": "a"})
    first = capture()
    (file,) = (tmp_path / "cache" / "snapshots").iterdir()
    for content in (b"", b"\0" * 100, file.read_bytes()[:-1], file.read_bytes() + b"x"):
        file.write_bytes(content)
        assert capture().id == first.id


def test_the_cache_itself_is_not_captured(tree: Path) -> None:
    write(tree, {"a": "a"})
    ids = {Snapshot.capture(tree, cache_dir=tree / "cache").id for _ in range(3)}
    assert len(ids) == 1


ODD = st.sampled_from(["a", "b", "c", "d.x", "e.x", "a0", "B"])
WHERE = st.lists(ODD, min_size=1, max_size=3).map("/".join)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), WHERE, st.none()),
        st.tuples(st.just("remove"), WHERE, st.none()),
        st.tuples(st.just("mode"), WHERE, st.sampled_from([0o644, 0o755])),
        st.tuples(st.just("move"), WHERE, WHERE),
        st.tuples(st.just("link"), WHERE, WHERE.map(lambda p: f"../{p}") | WHERE),
        st.tuples(
            st.just("ignore"),
            WHERE | st.just(""),
            st.sampled_from(["", "*.x", "a", "/b\n!c", "*\n!a", "c/"]),
        ),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.usefixtures("settled_clock")
@hypothesis_settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS, include=st.sets(WHERE, max_size=2))
def test_what_is_remembered_is_never_wrong(steps: list[Any], include: set[str]) -> None:
    """After any change, a capture that remembers equals one that does not."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder, "tree")
        tree.mkdir()
        for number, step in enumerate(steps, 1):
            apply(tree, number, *step)
            found = Snapshot.capture(tree, cache_dir=f"{folder}/cache", include=include)
            fresh = Snapshot.capture(tree, cache_dir=f"{folder}/{number}", include=include)
            assert found.files == fresh.files
            assert found.id == fresh.id == snapshot_id(fresh.files)
            assert (found.size, sorted(found.notices)) == (fresh.size, sorted(fresh.notices))
            assert parse_files([entry.to_dict() for entry in found.files]) == found.files


def apply(tree: Path, number: int, what: str, where: str, how: Any) -> None:
    """No two writes have the same size: the clock of the file system may not tell them apart."""
    place = tree / where
    try:
        if what == "ignore":
            write(tree, {f"{where}/.gitignore".lstrip("/"): how + "\n" * number})
        elif what == "write":
            write(tree, {where: "x" * number})
        elif what == "remove":
            shutil.rmtree(place) if place.is_dir() else place.unlink()
        elif what == "mode":
            place.chmod(how)
        elif what == "move":
            place.rename(tree / how)
        else:
            place.symlink_to(how)
    except OSError:
        pass
    write(tree, {"always": "y" * (100 + number)})


@hypothesis_settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=STEPS)
def test_what_arrives_is_what_was_there(steps: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        tree, copy = Path(folder, "tree"), Path(folder, "copy")
        tree.mkdir()
        copy.mkdir()
        for number, step in enumerate(steps, 1):
            apply(tree, number, *step)
        found = Snapshot.capture(tree, cache_dir=f"{folder}/cache")
        server = Server()
        assert upload(found, server, "my ws") == found.id
        server.unpack(found.id, copy)
        for entry in found.files:
            if entry.link:
                assert os.readlink(copy / entry.path) == os.readlink(tree / entry.path)
            else:
                assert (copy / entry.path).read_bytes() == (tree / entry.path).read_bytes()
        again = Snapshot.capture(copy, cache_dir=f"{folder}/cache")
        assert again.files == [e for e in found.files if os.path.exists(copy / e.path)]


def test_contains_follows_captured_links(tree: Path, capture: Capture) -> None:
    write(tree, {".gitignore": "no.py", "src/train.py": "", "no.py": "", 'q"u': ""})
    (tree / "code").symlink_to("src")
    found = capture()
    for path in ("src/train.py", "code/train.py", "./src/train.py", 'q"u'):
        assert path in found
    for none in ("src", "code", "train.py", "no.py", "src/train", "../tree/src/train.py", 3, ""):
        assert none not in found


def test_a_large_directory_is_told_before_it_is_read(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tree, {f"d{i}/f{i}": "x" * i for i in range(8)})
    assert capture().warnings == []
    monkeypatch.setattr(walk, "LARGE_COUNT", 7)
    heard: list[str] = []
    reads = Reads(monkeypatch)

    def warn(text: str) -> None:
        assert reads.paths == []
        heard.append(text)

    (tree / "d6" / "bell\x07").write_text("x" * 50)
    found = capture(warn=warn)
    assert reads.paths
    assert found.warnings == heard
    assert heard == [
        f"{os.path.realpath(tree)} is large: 9 files, 78 B; the largest are d6/bell\\x07 (50 B), "
        "d7/f7 (7 B), d6/f6 (6 B), d5/f5 (5 B), d4/f4 (4 B); "
        "list what the run does not need in .amlignore or .wherryignore"
    ]
    monkeypatch.setattr(walk, "LARGE_COUNT", 100)
    monkeypatch.setattr(walk, "LARGE_BYTES", 77)
    assert len(capture().warnings) == 1
    monkeypatch.setattr(walk, "LARGE_BYTES", 78)
    assert capture().warnings == []


def test_only_what_the_server_lacks_is_sent(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "same", "b": "same", "c": "", "d": "d"})
    server = Server()
    upload(capture(), server, "my ws")
    assert server.requests == [("/blobs", 3)]
    write(tree, {"d": "changed"})
    found = capture()
    upload(found, server, "my ws")
    assert server.requests == [("/blobs", 3), ("/blobs", 1)]
    assert server.registered.keys() >= {found.id}
    upload(found, server, "my ws")
    assert len(server.requests) == 2


def test_requests_are_bounded(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BATCH_BYTES", 1000)
    monkeypatch.setattr(bodies, "BATCH_FILES", 5)
    write(tree, {f"s{i:02}": f"{i:02}" for i in range(12)})
    write(tree, {f"m{i}": str(i) * 400 for i in range(4)})
    write(tree, {"large1": "a" * 5000, "large2": "b" * 999})
    found = capture()
    batches = list(found.batches({entry.digest for entry in found.files}))
    for batch in batches:
        assert batch.count <= 5
        assert batch.length <= 1000 or batch.count == 1
        assert b"".join(batch) == b"".join(batch)
        assert len(b"".join(batch)) == batch.length
    body = b"".join(found.frames([entry.digest for entry in found.files]))
    assert dict(parse_frames(body)) == {
        digest_of((tree / path).read_bytes()): (tree / path).read_bytes() for path in paths(found)
    }
    assert list(found.frames(["f" * 64])) == []


def test_memory_stays_bounded(tree: Path, capture: Capture) -> None:
    with open(tree / "huge.bin", "wb") as stream:
        stream.truncate(3 * bodies.BATCH_BYTES)
    for i in range(40):
        (tree / f"f{i}").write_bytes(bytes([i]) * 2_000_000)
    tracemalloc.start()
    found = capture()
    sent = sum(len(piece) for piece in found.frames({entry.digest for entry in found.files}))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert sent > 5 * bodies.BATCH_BYTES
    assert peak < 2.5 * bodies.BATCH_BYTES


def test_progress_ends_at_the_total(tree: Path, capture: Capture) -> None:
    write(tree, {f"f{i}": str(i) * 100_000 for i in range(10)})
    calls: list[tuple[int, int]] = []
    upload(capture(), Server(), "my ws", progress=lambda done, total: calls.append((done, total)))
    assert calls == sorted(calls)
    assert len(calls) > 3
    assert calls[-1][0] == calls[-1][1] > 1_000_000


def test_files_that_change_before_they_are_sent(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "a", "b": "b", "c": "c", "grows": "g"})
    found = capture()
    old = found.id
    write(tree, {"a": "later", "grows": "gg"})
    (tree / "b").unlink()
    server = Server()
    assert upload(found, server, "my ws") == found.id != old
    assert {entry.path: entry.digest for entry in found.files} == {
        "a": digest_of("later"),
        "c": digest_of("c"),
        "grows": digest_of("g"),
    }
    assert found.size == 7
    assert server.registered[found.id] == found.files
    assert told(found) == {
        "a": "changed after it was captured: taken anew",
        "b": "left out: no such file or directory",
    }


def test_one_of_two_twins_may_change(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "same", "b": "same"})
    found = capture()
    write(tree, {"a": "other"})
    assert upload(found, Server(), "my ws") == found.id
    assert {entry.digest for entry in found.files} == {digest_of("same")}


@pytest.mark.parametrize("size", [10, 3000])
def test_a_tree_that_never_rests_is_sent_all_the_same(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    """Small files and, at 3000 bytes, files too large to be checked before they are sent."""
    monkeypatch.setattr(bodies, "BATCH_BYTES", 1000)
    names = [f"f{i}" for i in range(5)]
    count = 0

    def churn(_: str = "") -> None:
        nonlocal count
        count += 1
        write(tree, {name: name + f"{count:04}" * (size // 4) for name in names})

    churn()
    found = capture()
    server = Server(meddle=churn)
    assert upload(found, server, "my ws") == found.id
    assert server.registered[found.id] == found.files
    assert paths(found) == names
    assert set(told(found)) == set(names)


def test_a_large_file_that_changes_while_it_is_sent(
    tree: Path, capture: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "BATCH_BYTES", 1000)
    content = b"a" * (3 * hash_cache.CHUNK)
    (tree / "large").write_bytes(content)
    (tree / "other").write_bytes(b"b" * 5000)
    found = capture()
    (batch,) = found.batches([digest_of(content)])
    pieces = iter(batch)
    next(pieces)
    with open(tree / "large", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"!")
    with pytest.raises(hash_cache.SnapshotChangedError):
        list(pieces)
    server = Server()
    assert upload(found, server, "my ws") == found.id
    assert server.blobs.keys() == {digest_of(content[:-1] + b"!"), digest_of(b"b" * 5000)}


def test_all_files_changed_is_no_harder_than_one(tree: Path, capture: Capture) -> None:
    for i in range(3000):
        (tree / f"f{i}").write_text(str(i))
    found = capture()
    for i in range(3000):
        (tree / f"f{i}").write_text(f"-{i}")
    server = Server()
    assert upload(found, server, "my ws") == found.id
    assert len(server.requests) == 1
    assert len(found.notices) == 3000


def test_a_server_that_forgets_is_not_asked_for_ever(tree: Path, capture: Capture) -> None:
    write(tree, {"a": "a"})
    server = Server()
    server.meddle = lambda path: server.blobs.clear()
    with pytest.raises(SnapshotException, match="still lacks files"):
        upload(capture(), server, "my ws")


def test_notices_are_plain_tuples(tree: Path, capture: Capture) -> None:
    os.mkfifo(tree / "pipe")
    assert capture().notices == [Notice("pipe", "left out: a named pipe")]
