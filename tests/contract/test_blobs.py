"""Blobs and logs keep their promises."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.store import MemoryStore

from wherry.blobs.base import Blob, BlobStore
from wherry.blobs.folder import FolderBlobStore, FolderLogStore, clear
from wherry.blobs.objects import ObjectBlobStore
from wherry.blobs.opening import open_blobs
from wherry.blobs.partials import Partials
from wherry.core.errors import ConflictError, NotFoundError, UserErrorException


@pytest.fixture(params=["folder", "bucket", pytest.param("s3", marks=pytest.mark.s3)])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    """Every kind that there is; a bucket in memory, and one of a real S3 server."""
    if request.param == "folder":
        return FolderBlobStore(tmp_path / "blobs")
    if request.param == "bucket":
        return ObjectBlobStore(MemoryStore(), "s3://memory", tmp_path / "blobs")
    return open_blobs(request.getfixturevalue("s3").address(), tmp_path / "blobs")


@pytest.fixture
def logs(tmp_path: Path) -> FolderLogStore:
    return FolderLogStore(tmp_path / "logs")


def test_content_comes_back(blobs: BlobStore) -> None:
    blob = blobs.put([b"ab", b"c"])
    assert (blob.digest, blob.size) == (hashlib.sha256(b"abc").hexdigest(), 3)
    assert blobs.has(blob.digest)
    with blobs.open(blob.digest) as file:
        assert file.read() == b"abc"
    assert blobs.put([b"abc"]) == blob
    assert list(blobs.digests()) == [blob.digest]
    now = datetime.now(UTC)
    assert not blobs.remove_stale(blob.digest, now - timedelta(hours=1))
    assert blobs.remove_stale(blob.digest, now + timedelta(hours=1))
    assert not blobs.remove_stale(blob.digest, now + timedelta(hours=1))
    assert not blobs.has(blob.digest)
    with pytest.raises(NotFoundError):
        blobs.open(blob.digest)


def test_what_is_stored_or_asked_for_again_is_not_stale(blobs: BlobStore, tmp_path: Path) -> None:
    """A run is about to refer to it."""
    digest = blobs.put([b"abc"]).digest
    ahead = datetime.now(UTC) + timedelta(hours=1)  # in which nobody comes by

    def grow_old() -> None:
        for path in (tmp_path / "blobs").rglob(digest):
            os.utime(path, (0, 0))

    def seems_old() -> bool:
        """Whether a collector in an hour would not take it for one that was asked for now."""
        notes = list((tmp_path / "blobs").rglob(digest))
        return all(path.stat().st_mtime == 0 for path in notes)

    for use in (lambda: blobs.put([b"abc"]), lambda: blobs.has(digest)):
        grow_old()
        use()
        assert not seems_old()
        assert not blobs.remove_stale(digest, datetime.now(UTC) - timedelta(hours=1))
    grow_old()
    assert blobs.remove_stale(digest, ahead)


def test_other_content_than_announced_is_not_kept(blobs: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="changed while it was sent"):
        blobs.put([b"abc"], expected="0" * 64)
    assert list(blobs.digests()) == []
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


def test_a_body_that_breaks_off_leaves_nothing(blobs: BlobStore, tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        blobs.put(breaking(b"abc"))
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


@pytest.mark.parametrize("digest", ["../../etc/passwd", "", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_only_digests_name_blobs(blobs: BlobStore, digest: str) -> None:
    with pytest.raises(UserErrorException):
        blobs.open(digest)


def test_many_at_once(blobs: BlobStore, tmp_path: Path) -> None:
    contents = [b"%d" % (number % 50) for number in range(100)]
    stored = blobs.put_many((None, [content]) for content in contents)
    assert [blob.digest for blob in stored] == [
        hashlib.sha256(each).hexdigest() for each in contents
    ]
    assert len(list(blobs.digests())) == 50
    with blobs.open(stored[7].digest) as file:
        assert file.read() == b"7"
    with pytest.raises(UserErrorException):
        blobs.put_many([(None, [b"fine"]), ("0" * 64, [b"not that"])])
    assert not blobs.has(hashlib.sha256(b"fine").hexdigest())
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


def test_what_was_half_received_is_cleared(tmp_path: Path) -> None:
    FolderBlobStore(tmp_path / "blobs")
    (tmp_path / "blobs" / "incoming" / "x-0").write_bytes(b"half")
    clear(tmp_path / "blobs" / "incoming")
    assert list((tmp_path / "blobs" / "incoming").iterdir()) == []


def test_a_large_one_comes_in_any_pieces(blobs: BlobStore, tmp_path: Path) -> None:
    content = os.urandom(21 << 20)
    digest = hashlib.sha256(content).hexdigest()
    assert blobs.put([content[: 5 << 20], content[5 << 20 :]], expected=digest).size == 21 << 20
    with blobs.open(digest) as file:
        assert b"".join(iter(lambda: file.read(1 << 20), b"")) == content
    with blobs.open(digest) as file:
        for start in (0, 20 << 20, 7):
            file.seek(start)
            assert file.read(100) == content[start : start + 100]
        file.seek(len(content))
        assert file.read(1) == b""
    kept = tmp_path / "kept"
    kept.write_bytes(content[1:])
    blob = Blob(hashlib.sha256(content[1:]).hexdigest(), len(content) - 1)
    for _ in range(2):
        kept.write_bytes(content[1:])
        blobs.keep(str(kept), blob)
        assert not kept.exists()
    assert blobs.size(blob.digest) == blob.size
    assert sorted(blobs.digests()) == sorted([digest, blob.digest])


def test_many_are_opened_in_turn(blobs: BlobStore) -> None:
    contents = [b"%d" % number for number in range(100)] + [bytes(2 << 20)]
    stored = blobs.put_many((None, [content]) for content in contents)
    found = []
    for file in blobs.open_many(blob.digest for blob in stored):
        with file:
            found.append(b"".join(iter(lambda file=file: file.read(1 << 20), b"")))  # type: ignore[misc]
    assert found == contents
    opened = blobs.open_many([stored[0].digest, "0" * 64])
    next(opened).close()
    with pytest.raises(NotFoundError):
        next(opened)


def test_a_bucket_that_lost_one_is_believed(tmp_path: Path) -> None:
    """Somebody removed the object by hand: what is sent again is stored again."""
    bucket = MemoryStore()
    blobs = ObjectBlobStore(bucket, "s3://memory", tmp_path)
    digest = blobs.put([b"abc"]).digest
    obstore.delete(bucket, f"{digest[:2]}/{digest}")
    with blobs.open(digest) as file, pytest.raises(NotFoundError):
        file.read()
    assert not blobs.has(digest)
    blobs.put([b"abc"])
    with blobs.open(digest) as file:
        assert file.read() == b"abc"


def test_a_bucket_of_another_machine_is_understood(tmp_path: Path) -> None:
    """What is noted of it can be made again."""
    bucket = MemoryStore()
    digest = ObjectBlobStore(bucket, "s3://memory", tmp_path / "one").put([b"abc"]).digest
    other = ObjectBlobStore(bucket, "s3://memory", tmp_path / "other")
    assert other.size(digest) == 3
    assert not other.remove_stale(digest, datetime.now(UTC) - timedelta(hours=1))
    assert other.remove_stale(digest, datetime.now(UTC) + timedelta(hours=1))


def test_many_writers_of_one_blob(blobs: BlobStore) -> None:
    threads = [threading.Thread(target=blobs.put, args=([b"same" * 10000],)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(list(blobs.digests())) == 1


@pytest.fixture
def partials(tmp_path: Path, blobs: BlobStore) -> Partials:
    return Partials(tmp_path / "partial", blobs)


def breaking(*chunks: bytes) -> Iterator[bytes]:
    yield from chunks
    raise ConnectionError


def test_an_upload_comes_in_several_goes(
    partials: Partials, blobs: BlobStore, tmp_path: Path
) -> None:
    assert partials.size("k") == 0
    with pytest.raises(ConnectionError):
        partials.put("k", 0, breaking(b"01", b"23"))
    assert partials.size("k") == 4
    with pytest.raises(ConflictError) as caught:
        partials.put("k", 5, [b"5"])
    assert caught.value.fields == {"size": 4}
    partials = Partials(tmp_path / "partial", blobs)  # a server that came after
    with pytest.raises(ConnectionError):
        partials.put("k", 3, breaking(b"3", b"4"))
    assert list(blobs.digests()) == []
    blob = partials.put("k", 5, [b"5"])
    assert (blob.digest, blob.size) == (hashlib.sha256(b"012345").hexdigest(), 6)
    with blobs.open(blob.digest) as file:
        assert file.read() == b"012345"
    assert list((tmp_path / "partial").iterdir()) == []


def test_an_upload_whose_answer_was_lost_is_known(partials: Partials, blobs: BlobStore) -> None:
    blob = partials.put("k", 0, [b"0123"])
    assert partials.size("k") == 4
    assert partials.put("k", 4, []) == blob
    assert blobs.remove_stale(blob.digest, datetime.now(UTC) + timedelta(hours=1))
    assert partials.size("k") == 0  # nor is it, once its content is gone


def test_who_was_cut_off_writes_nothing_more(partials: Partials, blobs: BlobStore) -> None:
    """His connection may hang in the network while he has long come again."""

    def hanging() -> Iterator[bytes]:
        yield b"01"
        assert partials.put("k", 2, [b"23"]).size == 4
        yield b"xx"

    with pytest.raises(ConflictError, match="another request"):
        partials.put("k", 0, hanging())
    assert list(blobs.digests()) == [hashlib.sha256(b"0123").hexdigest()]


def test_uploads_that_nobody_goes_on_with_are_removed(partials: Partials) -> None:
    with pytest.raises(ConnectionError):
        partials.put("k", 0, breaking(b"01"))
    now = datetime.now(UTC)
    partials.remove_stale(now - timedelta(hours=1))
    assert partials.size("k") == 2
    partials.remove_stale(now + timedelta(hours=1))
    assert partials.size("k") == 0


def test_a_log_takes_each_byte_once(logs: FolderLogStore) -> None:
    assert logs.append("k", 0, b"hello") == 5
    assert logs.append("k", 0, b"hello") == 5
    assert logs.append("k", 3, b"l", b"", b"o ", b"wor", b"ld") == 11
    assert logs.read("k", 0, 100) == b"hello world"
    assert logs.read("k", 6, 3) == b"wor"
    assert logs.read("k", 11, 3) == logs.read("k", 2**63 - 1, 3) == b""
    with pytest.raises(ConflictError) as caught:
        logs.append("k", 12, b"x")
    assert caught.value.fields == {"size": 11}
    assert logs.size("other") == 0
    assert logs.read("other", 0, 10) == b""
    logs.remove("k")
    logs.remove("k")
    assert logs.size("k") == 0


def test_keys_never_become_paths(logs: FolderLogStore, tmp_path: Path) -> None:
    logs.append("../../../escape/\0odd", 0, b"x")
    outside = [path for path in tmp_path.rglob("*") if "escape" in path.name]
    assert outside == []
    assert os.listdir(tmp_path) == ["logs"]


@given(
    data=st.binary(max_size=500), cuts=st.lists(st.tuples(st.integers(0, 500), st.integers(0, 200)))
)
def test_however_it_is_sent_again_a_log_is_whole(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cuts: list[tuple[int, int]]
) -> None:
    logs = FolderLogStore(tmp_path_factory.mktemp("logs"))
    for wanted, length in cuts:
        offset = min(wanted, logs.size("k"))
        logs.append("k", offset, data[offset : offset + length])
    size = logs.size("k")
    logs.append("k", size, data[size:])
    assert logs.read("k", 0, 1000) == data
