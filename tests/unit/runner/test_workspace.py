from __future__ import annotations

import io
import os
import stat
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wherry.runner.connection import NetworkError
from wherry.runner.workspace import SetupError, unpack

FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
PARTS = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1
).filter(lambda part: part not in (".", "..") and len(part.encode()) < 200)


def entry(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def link(name: str, target: str) -> tuple[tarfile.TarInfo, bytes]:
    return entry(name, type=tarfile.SYMTYPE, linkname=target)


def archive(*entries: tuple[tarfile.TarInfo, bytes], format: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as content:
        for info, data in entries:
            content.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def pieces(data: bytes, size: int = 1000) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


def files(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


@pytest.mark.parametrize("format", FORMATS)
def test_a_tree_of_each_format(tmp_path: Path, format: int) -> None:
    long = "/".join(["folder" * 5] * 6) + "/file.py"
    data = archive(
        entry("train.py", b"print(1)\n", mode=0o644),
        entry("run.sh", b"#!/bin/sh\n", mode=0o755),
        entry("data", type=tarfile.DIRTYPE, mode=0o755),
        entry("data/ü 'x' $y.csv", b"1,2\n"),
        entry(long, b"deep"),
        entry("empty"),
        link("data/again", "../train.py"),
        format=format,
    )
    root = tmp_path / "work"
    unpack(pieces(data), str(root))
    assert files(root) == {
        "train.py": b"print(1)\n",
        "run.sh": b"#!/bin/sh\n",
        "data/ü 'x' $y.csv": b"1,2\n",
        long: b"deep",
        "empty": b"",
    }
    assert os.readlink(root / "data/again") == "../train.py"
    assert (root / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (root / "train.py").stat().st_mode & stat.S_IXUSR


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    tree=st.dictionaries(PARTS, st.binary(max_size=2000), max_size=6),
    format=st.sampled_from(FORMATS[1:]),
    size=st.integers(1, 3000),
)
def test_any_tree(tmp_path: Path, tree: dict[str, bytes], format: int, size: int) -> None:
    data = archive(*(entry(f"d/{name}", content) for name, content in tree.items()), format=format)
    root = tmp_path / "work"
    unpack(pieces(data, size), str(root))
    assert {os.path.basename(name): content for name, content in files(root).items()} == tree


def test_names_that_are_no_unicode(tmp_path: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    unpack(pieces(archive(entry(name, b"x"), format=tarfile.GNU_FORMAT)), str(tmp_path / "work"))
    assert os.listdir(os.fsencode(tmp_path / "work")) == [b"caf\xe9"]


@pytest.mark.parametrize(
    "entries",
    [
        [entry("../evil", b"x")],
        [entry("a/../../evil", b"x")],
        [entry("/evil", b"x")],
        [entry("..", type=tarfile.DIRTYPE)],
        [link("way", "/etc")],
        [link("way", "..")],
        [link("way", "../../x")],
        [link("a/b", ".."), link("way", "a/b/..")],
        [link("way", "."), link("out", "way/..")],
        [link("way", "sub"), entry("sub/x", b""), entry("way/evil", b"x")],
        [entry("dev", type=tarfile.CHRTYPE)],
        [entry("fifo", type=tarfile.FIFOTYPE)],
        [entry("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd")],
        [entry("twice", b"1"), entry("twice", b"2")],
        [entry("file", b"1"), entry("file/below", b"2")],
    ],
    ids=lambda entries: " ".join(f"{info.name}>{info.linkname}" for info, _ in entries),
)
def test_nothing_leaves_the_root(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    with pytest.raises(SetupError):
        unpack(pieces(archive(*entries)), str(tmp_path / "inner" / "work"))
    outside = [path for path in tmp_path.rglob("evil") if "work" not in path.parts]
    assert not outside


@pytest.fixture(autouse=True)
def _inner(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()


@pytest.mark.parametrize("keep", [0, 100, 512, 700, 1100])
def test_a_stream_that_ends_early_is_a_broken_connection(tmp_path: Path, keep: int) -> None:
    data = archive(entry("a", b"x" * 600))
    with pytest.raises(NetworkError):
        unpack(pieces(data[:keep]), str(tmp_path / "work"))


def test_the_next_try_begins_from_nothing(tmp_path: Path) -> None:
    root = tmp_path / "work"
    with pytest.raises(NetworkError):
        unpack(pieces(archive(entry("a", b"x" * 600))[:700]), str(root))
    unpack(pieces(archive(entry("a", b"new"))), str(root))
    assert files(root) == {"a": b"new"}


@pytest.mark.parametrize("at", [0, 100, 124, 150, 156])
def test_damage_is_noticed(tmp_path: Path, at: int) -> None:
    data = bytearray(archive(entry("a", b"x" * 600)))
    data[at] ^= 0x15
    with pytest.raises(SetupError):
        unpack(pieces(bytes(data)), str(tmp_path / "work"))


def test_an_empty_snapshot(tmp_path: Path) -> None:
    unpack(pieces(archive()), str(tmp_path / "work"))
    assert files(tmp_path / "work") == {}
