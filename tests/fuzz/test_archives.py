"""Archives that nobody packed: whatever the bytes, nothing is written outside the folder."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.planes import add_snapshot, make_plane
from wherry.control import snapshots
from wherry.core.errors import UserErrorException
from wherry.drivers.memory import MemoryDriver
from wherry.runner.connection import NetworkError
from wherry.runner.workspace import SetupError, unpack

NAMES = st.sampled_from(
    [
        *("a", "b", "a/b", "A", "a//b", "./a", "..", "../x", "/x", ".", "", "a/../../x"),
        *("\u00e9", "e\u0301", "con", "a" * 300, "b/" * 50 + "c", "a\nb", "\x1b[2J"),
    ]
)
KINDS = st.sampled_from(
    [
        *(tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.DIRTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE),
        *(tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.CONTTYPE, tarfile.GNUTYPE_SPARSE, b"V"),
    ]
)
ENTRIES = st.tuples(NAMES, KINDS, NAMES, st.binary(max_size=20), st.integers(0, 0o7777))


def packed(entries: list[tuple[str, bytes, str, bytes, int]], format: int) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=format) as content:
        for name, kind, target, data, mode in entries:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, target, mode
            info.size = len(data) if kind == tarfile.REGTYPE else 0
            content.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def unpacked(data: bytes) -> None:
    """Into a folder in a folder: all that was written lies below the inner one."""
    with tempfile.TemporaryDirectory() as outer:
        root = os.path.join(outer, "inner", "work")
        os.mkdir(os.path.dirname(root))
        try:
            unpack(iter([data]), root)
        except (SetupError, NetworkError):
            pass
        else:
            for folder, names, files in os.walk(root):
                for name in [*names, *files]:
                    real = os.path.realpath(os.path.join(folder, name))
                    assert real == root or real.startswith(root + "/")
        assert os.listdir(outer) == ["inner"]
        assert set(os.listdir(os.path.dirname(root))) <= {"work"}


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(ENTRIES, max_size=5), st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))
def test_any_entries(entries: list[Any], format: int) -> None:
    unpacked(packed(entries, format))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    whole = bytearray(packed([("a/b", tarfile.REGTYPE, "", b"x" * 20, 0o644)] * 2, 2))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(whole) - 1))
        whole[at] = data.draw(st.integers(0, 255))
    unpacked(bytes(whole[: data.draw(st.integers(0, len(whole)))]))


def header(name: bytes, size: bytes, kind: bytes = b"0") -> bytes:
    """A header whose checksum is right, whatever it says."""
    block = bytearray(512)
    block[: len(name)], block[124:136], block[156:157] = name, size.ljust(12, b"\0"), kind
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def pax(text: bytes) -> bytes:
    length = len(text) + 4
    line = b"%d %s\n" % (length + (length > 99), text)
    return header(b"p", b"%o" % len(line), b"x") + line.ljust(512, b"\0")


@pytest.mark.parametrize(
    "data",
    [
        pax(b"size=-512") + header(b"a", b"1"),
        pax(b"size=x") + header(b"a", b"1"),
        pax(b"size=" + b"9" * 300) + header(b"a", b"1") + b"x" * 512,
        pax(b"path=../x") + header(b"a", b"0"),
        pax(b"path=a\0b") + header(b"a", b"0"),
        header(b"a", b"\xff" * 12),
        header(b"a", b"\x80" + b"\xff" * 11) + b"x" * 512,
        header(b"a", b"-7"),
        header(b"a", b"7777777777777", b"x"),
        header(b"a", b"1_0"),
    ],
)
def test_odd_headers_are_refused(data: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.raises((SetupError, NetworkError)):
        unpack(iter([data, bytes(512)]), os.path.join(folder, "work"))


def test_folders_may_be_deeper_than_python_nests_calls(tmp_path: Path) -> None:
    path = "a/" * 1800 + "b"
    data = packed([(path, tarfile.REGTYPE, "", b"x", 0o644)], tarfile.PAX_FORMAT)
    os.chdir(tmp_path)
    try:
        unpack(iter([data]), "w")
        assert Path("w", path).read_bytes() == b"x"
    finally:  # pytest could not remove it either, and fails then
        subprocess.run(["rm", "-rf", "w"], check=True)


def test_a_bomb_of_zeros_is_not_held_in_memory(tmp_path: Path) -> None:
    """What comes is written as it comes; a stream that ends says so."""

    def pieces() -> Iterator[bytes]:
        yield header(b"a", b"%o" % (1 << 33))
        for _ in range(64):
            yield bytes(1 << 20)

    tracemalloc.start()
    with pytest.raises(NetworkError):
        unpack(pieces(), str(tmp_path / "work"))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 16 << 20


@pytest.mark.parametrize("told", [0, 2, 1 << 40])
def test_a_size_that_is_not_the_contents_is_refused(tmp_path: Path, told: int) -> None:
    """Or the bytes of one file would be read as the headers of others."""
    plane = make_plane(tmp_path / "home", {"local": MemoryDriver()})
    known = add_snapshot(plane, {"a": b"1"})
    digest = snapshots.read(plane, known)[0].digest
    lie = {"path": "b", "digest": digest, "size": told, "mode": 0o644}
    with pytest.raises(UserErrorException, match=f"has 1 bytes, not {told}"):
        snapshots.register(plane, "w", [lie])
    changes = {"id": "0" * 64, "files": [lie], "removed": [], "contents": []}
    with pytest.raises(UserErrorException):
        snapshots.register_changes(plane, "w", known, changes)
    plane.close()
