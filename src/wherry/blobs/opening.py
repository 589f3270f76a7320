"""The blob store that the settings name."""

from __future__ import annotations

import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from wherry.core.errors import ServerUnavailableError, WherryError

from .base import BlobStore
from .folder import FolderBlobStore, clear
from .objects import ObjectBlobStore
from .trouble import MisconfiguredError, trouble

log = logging.getLogger(__name__)

_ENDPOINTS = ("AWS_ENDPOINT_URL", "AWS_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
_CLIENT: dict[str, Any] = {
    "connect_timeout": timedelta(seconds=5),
    "timeout": timedelta(seconds=120),
}
_RETRIES: dict[str, Any] = {"max_retries": 5, "retry_timeout": timedelta(seconds=20)}


def open_blobs(address: str, local: Path) -> BlobStore:
    """The folder ``local``, or the bucket at ``address``, with ``local`` for what is on its way.

    A bucket that is not there, or lets nobody in, is an error; one that does not answer is not.
    """
    clear(local / "incoming")  # half-received by a server that was killed
    if not address:
        return FolderBlobStore(local)
    store = _bucket(address, local)
    try:
        store.check()
    except MisconfiguredError:
        raise
    except ServerUnavailableError as error:
        log.warning("%s", error.message)
    return store


def _bucket(address: str, local: Path) -> ObjectBlobStore:
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise WherryError(
            f"blobs is {address}, and the package for buckets is not installed here",
            hint="pip install 'wherry[cloud]'",
        ) from None
    plain = any(os.environ.get(name, "").startswith("http://") for name in _ENDPOINTS)
    options = {**_CLIENT, "allow_http": True} if plain else _CLIENT
    try:
        store = from_url(address, client_options=options, retry_config=_RETRIES)  # type: ignore[call-overload]
    except (BaseError, ValueError) as error:
        raise trouble(address, error) from None
    return ObjectBlobStore(store, address, local)
