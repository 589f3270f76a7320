"""Metrics over HTTP, and the reports that runners send."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query, Request, Response
from starlette.concurrency import run_in_threadpool

from wherry.control import reports
from wherry.core.errors import UserErrorException
from wherry.core.sampling import outline
from wherry.store import families, metrics, runs, streams, summaries

from .bodies import Report
from .deps import PlaneDep, get_plane, with_whole_body
from .guard import guarded_router
from .lane import brief
from .octets import RAW_BODY
from .plain_json import PlainJSON
from .reading import described, read_body

router = guarded_router("tracking")
_MAX_SPOOL = 8 << 20
_MAX_OFFSET = 2**62
_MAX_OUTLINE = 100_000


@router.post(
    "/attempts/{attempt_id}/report", response_class=PlainJSON, openapi_extra=described(Report)
)
@brief("POST", "/attempts/{attempt_id}/report")
async def report(attempt_id: str, request: Request) -> PlainJSON:
    plane = await get_plane(request)
    fields = (await read_body(request, Report)).model_dump()
    return PlainJSON(await run_in_threadpool(reports.report, plane, attempt_id, fields))


@router.post("/runs/{run_id}/spool/{stream}", openapi_extra=RAW_BODY)
async def write_spool(
    run_id: str,
    stream: str,
    offset: Annotated[int, Query(ge=0, le=_MAX_OFFSET)],
    request: Request,
    plane: PlaneDep,
) -> dict[str, int]:
    """Spooled JSON lines; bytes that are sent again count once."""
    if len(stream) > 100:
        raise UserErrorException("a stream's name has at most 100 characters")

    def store(pieces: list[bytes]) -> int:
        return reports.append_spool(plane, run_id, stream, offset, b"".join(pieces))

    return {"size": await with_whole_body(request, _MAX_SPOOL, store)}


@router.get("/runs/{run_id}/spool")
def show_spool(run_id: str, plane: PlaneDep) -> dict[str, Any]:
    with plane.database.read() as connection:
        runs.get(connection, run_id)
        return {"streams": streams.sizes(connection, run_id)}


@router.post("/runs/{run_id}/heartbeat", status_code=204)
def heartbeat(run_id: str, plane: PlaneDep) -> Response:
    reports.heartbeat(plane, run_id)
    return Response(status_code=204)


@router.get("/runs/{run_id}/metrics", response_class=PlainJSON)
def read_metrics(
    run_id: str,
    plane: PlaneDep,
    name: str | None = None,
    recursive: bool = False,
) -> PlainJSON:
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        if not recursive:
            return PlainJSON({"metrics": metrics.shaped(connection, [run.seq], name)[run.seq]})
        all_of_them = [run, *families.children(connection, run_id, recursive=True)]
        found = metrics.shaped(connection, [each.seq for each in all_of_them], name)
        return PlainJSON({"runs": {each.id: found[each.seq] for each in all_of_them}})


@router.get("/runs/{run_id}/metrics/summary", response_class=PlainJSON)
def read_summary(
    run_id: str, plane: PlaneDep, points: Annotated[int | None, Query(ge=2, le=10_000)] = None
) -> PlainJSON:
    """Every metric with its ``kind``, how many points it has and, of a scalar, the ``last`` value.
    With ``points`` also about so many ``steps`` and ``values`` of each, for a picture.
    """
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        return PlainJSON({"metrics": summaries.of_run(connection, run.seq, points)})


@router.get("/runs/{run_id}/metrics/history", response_class=PlainJSON)
def read_history(
    run_id: str,
    name: str,
    plane: PlaneDep,
    points: Annotated[int | None, Query(ge=2, le=_MAX_OUTLINE)] = None,
) -> PlainJSON:
    """One metric's points by columns, times in seconds since 1970. With ``points`` about so many of
    them, the least and greatest of each stretch among them; ``count`` is of all.
    """
    with plane.database.read() as connection:
        run = runs.get(connection, run_id)
        found = metrics.history(connection, run.seq, name)
    count = len(found)
    if points is not None:
        found = found.chosen(outline(found.values, points))
    return PlainJSON(
        {
            "count": count,
            "steps": found.steps,
            "times": [at / 1_000_000 for at in found.times],
            "values": found.values,
        }
    )
