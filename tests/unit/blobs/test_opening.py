"""Which store is opened, and what is said of one that cannot be."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tests.planes import make_plane
from wherry.blobs.folder import FolderBlobStore
from wherry.blobs.objects import ObjectBlobStore
from wherry.blobs.opening import open_blobs
from wherry.blobs.trouble import MisconfiguredError, trouble
from wherry.control import files
from wherry.control.store_choice import check_store
from wherry.control.submit import start_interactive
from wherry.core.errors import ServerUnavailableError, UserErrorException, WherryError
from wherry.core.settings import resolve
from wherry.store.database import Database

ADDRESS = "s3://bucket/place"


def test_without_a_bucket_it_is_the_folder(tmp_path: Path) -> None:
    assert isinstance(open_blobs("", tmp_path), FolderBlobStore)


def test_the_package_for_buckets_may_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(WherryError, match="not installed here") as caught:
        open_blobs(ADDRESS, tmp_path)
    assert caught.value.hint == "pip install 'wherry[cloud]'"


@pytest.mark.parametrize("given", ["bucket", "s3://", "http://x/y", "s3://key:secret@bucket"])
def test_what_is_no_bucket_is_refused(given: str) -> None:
    with pytest.raises(UserErrorException, match="is no bucket: write it like"):
        resolve({"blobs": given}, {})
    assert resolve({"blobs": "gs://bucket/a/"}, {}).blobs == "gs://bucket/a"


@pytest.mark.parametrize(
    ("text", "kind", "told"),
    [
        (
            "Generic S3 error: Error performing GET http://x/b in 1ms - Server returned non-2xx "
            "status code: 404 Not Found: <Error><Code>NoSuchBucket</Code><Message>The specified "
            "bucket does not exist</Message></Error>\n\nDebug source:\nGeneric {",
            MisconfiguredError,
            f"the bucket of {ADDRESS} does not exist (NoSuchBucket: The specified bucket",
        ),
        (
            "The operation lacked the necessary privileges to complete for path a: Error "
            "performing PUT http://x/b/a in 1ms - Server returned non-2xx status code: 403 "
            "Forbidden: <Error><Code>InvalidAccessKeyId</Code></Error>",
            MisconfiguredError,
            f"{ADDRESS} does not let the server in (InvalidAccessKeyId)",
        ),
        (
            "MicrosoftAzure error: Error performing GET http://x/b in 1ms - Server returned "
            "non-2xx status code: 404 Not Found: <Error><Code>ContainerNotFound</Code>\n<Message>"
            "The specified container does not exist.\nRequestId:1\nTime:2</Message></Error>",
            MisconfiguredError,
            f"the bucket of {ADDRESS} does not exist (ContainerNotFound: The specified container "
            "does not exist.)",
        ),
        (
            "Generic S3 error: Error performing PUT http://x/b/a in 238ms, after 2 retries, "
            "max_retries: 2, retry_timeout: 5s  - HTTP error: error sending request\n\nDebug",
            ServerUnavailableError,
            f"the blob store {ADDRESS} does not answer: HTTP error: error sending request",
        ),
    ],
)
def test_trouble_is_told_in_a_sentence(text: str, kind: type[Exception], told: str) -> None:
    found = trouble(ADDRESS, Exception(text))
    assert type(found) is kind
    assert found.message.startswith(told)
    assert "Debug" not in found.message
    assert found.hint


def test_another_store_must_have_the_contents(tmp_path: Path, database: Database) -> None:
    home = tmp_path / "home"
    plane = make_plane(home, {}, database)
    bucket = ObjectBlobStore(MemoryStore(), ADDRESS, tmp_path / "local")
    check_store(database, bucket, ADDRESS, home)  # nothing is referred to yet
    check_store(database, plane.blobs, "", home)
    run = start_interactive(plane, "w", {"experiment": "e"}, "me")
    files.put(plane, run.id, "outputs/a", [b"abc"])
    with pytest.raises(WherryError, match=f"1 of 1 contents .* are not in {ADDRESS}"):
        check_store(database, bucket, ADDRESS, home)
    bucket.put([b"abc"])
    check_store(database, bucket, ADDRESS, home)
    assert (home / "blobs.store").read_text() == f"{ADDRESS}\n"
