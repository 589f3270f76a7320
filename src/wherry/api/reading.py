"""What the requests that every run makes carry: read after the caller is known, and described."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError

from wherry.core.errors import UserErrorException

M = TypeVar("M", bound=BaseModel)


async def read_body(request: Request, model: type[M]) -> M:
    try:
        # Not by pydantic, which refuses half a surrogate pair: an error's text may hold one.
        return model.model_validate(json.loads(await request.body()))
    except ValidationError as error:
        raise RequestValidationError(error.errors(include_url=False, include_input=False)) from None
    except (ValueError, RecursionError):
        raise UserErrorException("the request is not valid: its body is not JSON") from None


def read_query(request: Request, model: type[M]) -> M:
    try:
        return model.model_validate(dict(request.query_params))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        for each in found:
            each["loc"] = ("query", *each["loc"])
        raise RequestValidationError(found) from None


def described(model: type[BaseModel]) -> dict[str, Any]:
    """For ``openapi_extra``: what FastAPI says of a body that it reads itself."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    content = {"application/json": {"schema": _inlined(schema, inner)}}
    return {"requestBody": {"content": content, "required": True}}


def _inlined(part: Any, inner: dict[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(item, inner) for item in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(inner[part["$ref"].rpartition("/")[2]], inner)
    return {key: _inlined(item, inner) for key, item in part.items()}
