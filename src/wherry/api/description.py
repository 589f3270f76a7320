"""The OpenAPI document: what FastAPI knows of the routes, and every answer that they may give."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

from .access import Who, who_may
from .answers import describe, records

_PROBLEM = {
    "title": "Problem",
    "type": "object",
    "required": ["type", "code", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "code": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "fields": {"type": "object"},
    },
}
_ALWAYS = {
    "400": "The request cannot be carried out as written.",
    "421": "The server does not answer under the name that was asked for.",
    "426": "The client and the server speak different versions.",
    "503": "The disk is full, or the database does not answer.",
}
_WITH_A_TOKEN = {
    "401": "The token is missing or not valid.",
    "403": "The token does not allow this.",
}


def install(app: FastAPI) -> None:
    """From now on ``app.openapi()`` is the whole truth."""
    made = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            _complete(made())
        return made()

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: dict[str, Any]) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas.update(records(), Problem=_PROBLEM)
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            _answers(path, method, operation)


def _answers(path: str, method: str, operation: dict[str, Any]) -> None:
    answers = operation["responses"]
    answers.pop("422", None)
    describe(method, path, answers)
    refusals = dict(_ALWAYS)
    if who_may(method.upper(), path) is not Who.ANYONE:
        operation["security"] = [{"token": []}]
        refusals.update(_WITH_A_TOKEN)
    if "{" in path:
        refusals["404"] = "There is no such thing."
    if method != "get":
        refusals["409"] = "The request does not fit the present state."
    if "requestBody" in operation:
        refusals["408"] = "The body came too slowly."
        refusals["413"] = "The body is too large."
    for status, meaning in refusals.items():
        answers.setdefault(status, refusal(meaning))


def refusal(meaning: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": meaning, "content": {"application/problem+json": {"schema": schema}}}
