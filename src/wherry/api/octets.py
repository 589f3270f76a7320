"""Raw bytes in requests and answers, as the OpenAPI document tells of them."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response

from .description import refusal

_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}

RAW_BODY: dict[str, Any] = {"requestBody": {"content": _BYTES}}
RANGES: dict[int | str, dict[str, Any]] = {
    206: {"description": "The bytes of a Range.", "content": _BYTES},
    416: refusal("There are no such bytes."),
}


class OctetStream(Response):
    media_type = "application/octet-stream"


class Tar(Response):
    media_type = "application/x-tar"
