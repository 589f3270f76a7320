"""Wheels of the workspace, for environments that become kernels: fetched by the session's run."""

from __future__ import annotations

from typing import Callable

from wherry.builds import BuildError
from wherry.core.errors import WherryError
from wherry.sdk.client import quote
from wherry.sdk.connection import connect


def fetcher(run_id: str) -> Callable[[str, str], None]:
    """Writes the content of a digest to a path; whoever asks verifies it."""

    def fetch(digest: str, path: str) -> None:
        try:
            place = f"/runs/{quote(run_id)}/wheels/{quote(digest)}"
            with connect().open("GET", place) as response, open(path, "wb") as file:
                for piece in response.chunks():
                    file.write(piece)
        except WherryError as error:
            raise BuildError(
                f"a wheel of the workspace cannot be fetched: {error.message}",
                hint="add it again: wherry environment add-wheel FILE, or"
                " Environment.add_private_pip_wheel",
            ) from None

    return fetch
