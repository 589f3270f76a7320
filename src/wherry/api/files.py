"""A run's files and logs over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated, Any, BinaryIO
from urllib.parse import quote, unquote

from fastapi import Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.convertors import PathConvertor, register_url_convertor

from wherry.control import files, reports, run_logs
from wherry.control.pieces import gathered
from wherry.control.plane import Plane
from wherry.core.errors import NotFoundError, UserErrorException
from wherry.core.lifecycle import Status
from wherry.core.records import RunFile
from wherry.store import runs

from .bodies import FileNames
from .deps import CallerDep, PlaneDep, with_body, with_whole_body
from .frames import frames
from .guard import guarded_router
from .octets import RANGES, RAW_BODY, OctetStream
from .ranges import read_range

router = guarded_router("files")


class _Name(PathConvertor):
    """Starlette's ends at the end of a line, a file's name need not."""

    regex = "(?s:.*)"


register_url_convertor("name", _Name())

MAX_LOG_PIECE = 4 << 20
_READ = 256 << 10
_MAX_OFFSET = 2**63 - 1
_MADE = (Status.RUNNING, Status.FINALIZING)
_UPLOAD = r"^[0-9a-f]{8,64}$"
Offset = Annotated[int, Query(ge=0, le=_MAX_OFFSET)]


@router.get("/runs/{run_id}/files")
def list_files(run_id: str, plane: PlaneDep) -> dict[str, Any]:
    return {"items": [each.to_dict() for each in files.every(plane, run_id)]}


@router.get("/runs/{run_id}/files/{path:name}", response_class=OctetStream, responses=RANGES)
def read_file(run_id: str, path: str, request: Request, plane: PlaneDep) -> Response:
    stored = files.find(plane, run_id, path)
    wanted = request.headers.get("range")
    if stored is not None:
        file = plane.blobs.open(stored.digest)
        only_of = request.headers.get("if-range")
        return read_range(file, stored.size, wanted, digest=stored.digest, only_of=only_of)
    with plane.database.read() as connection:
        key = files.log_of(plane, connection, run_id, path)
    return StreamingResponse(_log_pieces(plane, key), media_type="application/octet-stream")


@router.put("/runs/{run_id}/files/{path:name}", openapi_extra=RAW_BODY)
async def write_file(
    run_id: str,
    path: str,
    request: Request,
    plane: PlaneDep,
    caller: CallerDep,
    upload: Annotated[str | None, Query(pattern=_UPLOAD)] = None,
    offset: Offset = 0,
) -> dict[str, Any]:
    """Keep a file, or with ``upload`` the rest of one that broke off.

    ``upload`` is any name for it, and the body what follows the ``offset`` bytes that are here.
    """
    if offset and upload is None:
        raise UserErrorException("offset has no meaning without upload, the name of what goes on")

    def store(body: Iterator[bytes]) -> RunFile:
        if upload is None:
            return files.put(plane, run_id, path, body, caller.attempt_id)
        return files.put_rest(plane, run_id, path, body, upload, offset, caller.attempt_id)

    stored = await with_body(request, plane.settings.max_file_bytes - offset, store)
    return stored.to_dict()


@router.get("/runs/{run_id}/uploads/{upload}")
def show_upload(
    run_id: str, upload: Annotated[str, Path(pattern=_UPLOAD)], plane: PlaneDep
) -> dict[str, int]:
    """How many bytes of it have arrived."""
    return {"size": files.arrived(plane, run_id, upload)}


@router.post("/runs/{run_id}/files/batch", openapi_extra=RAW_BODY)
async def write_files(
    run_id: str, request: Request, plane: PlaneDep, caller: CallerDep
) -> dict[str, int]:
    """Many small files at once, framed as ``<percent-encoded path> <size>\\n<bytes>``."""

    def store(body: Iterator[bytes]) -> int:
        named = ((unquote(name), chunks) for name, chunks in frames(body))
        return len(files.put_many(plane, run_id, named, caller.attempt_id))

    return {"stored": await with_body(request, plane.settings.max_file_bytes, store)}


@router.post("/runs/{run_id}/files/read", response_class=OctetStream)
def read_files(run_id: str, body: FileNames, plane: PlaneDep) -> StreamingResponse:
    """Many small files at once, framed as in ``batch``; logs are not among them."""
    opened = files.open_many(plane, run_id, body.paths)
    return StreamingResponse(gathered(_framed(opened)), media_type="application/octet-stream")


def _framed(opened: Iterator[tuple[RunFile, BinaryIO]]) -> Iterator[bytes]:
    for stored, file in opened:
        with file:
            name = quote(stored.path.encode("utf-8", "surrogateescape"))
            yield b"%s %d\n" % (name.encode(), stored.size)
            yield from iter(partial(file.read, _READ), b"")


@router.get("/runs/{run_id}/logs/{name:name}", response_class=OctetStream)
async def read_log(
    run_id: str,
    name: str,
    request: Request,
    plane: PlaneDep,
    offset: Offset = 0,
    follow: bool = False,
) -> StreamingResponse:
    """Bytes from ``offset``. With ``follow``, on until the run has ended and all is sent."""
    _, key = await run_in_threadpool(_look, plane, run_id, name)
    if follow:
        pieces: Any = _follow(plane, request, run_id, name, offset)
    else:
        pieces = _log_pieces(plane, key, offset) if key else iter(())
    return StreamingResponse(pieces, media_type="application/octet-stream")


@router.put("/runs/{run_id}/logs/{name:name}", openapi_extra=RAW_BODY)
async def write_log(
    run_id: str,
    name: str,
    attempt: str,
    offset: Offset,
    request: Request,
    plane: PlaneDep,
) -> dict[str, int]:
    if not run_logs.known(name):
        raise UserErrorException(f"there is no log {name!r} to write")

    def store(pieces: list[bytes]) -> int:
        return reports.append_log(plane, run_id, attempt, offset, *pieces, name=name)

    return {"size": await with_whole_body(request, MAX_LOG_PIECE, store)}


def _look(plane: Plane, run_id: str, name: str) -> tuple[bool, str | None]:
    """Whether nothing more is to come, and the key of the run's log if there is one yet.

    In this order, so that what was written before the end is seen after it.
    """
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        status = Status(run.status)
        ended = status.terminal or (name == run_logs.BUILD_LOG and status in _MADE)
        try:
            return ended, files.log_of(plane, connection, run_id, name)
        except NotFoundError:
            if run.target is None or not run_logs.known(name):
                raise
            return ended, None


async def _follow(
    plane: Plane, request: Request, run_id: str, name: str, offset: int
) -> AsyncIterator[bytes]:
    """While bytes come, nothing else is asked: hundreds may follow one log."""
    key: str | None = None
    ended = False
    with plane.signals.subscribe(run_id) as subscription:
        while not request.app.state.stopping.is_set():
            sent = 0
            while key is not None and (piece := plane.logs.read(key, offset + sent, _READ)):
                sent += len(piece)
                yield piece
            offset += sent
            if ended:
                return
            if not sent:
                known = key
                try:
                    ended, key = await run_in_threadpool(_look, plane, run_id, name)
                except NotFoundError:
                    return
                if ended or key != known:
                    continue
            await subscription.changed(0.1 if sent else 0.5)


def _log_pieces(plane: Plane, key: str, offset: int = 0) -> Iterator[bytes]:
    while piece := plane.logs.read(key, offset, _READ):
        offset += len(piece)
        yield piece
