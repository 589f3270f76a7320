"""Sites over HTTP: where clusters take their nodes from."""

from __future__ import annotations

from typing import Any

from fastapi import Response

from wherry.control import sites

from .bodies import NewSite, SiteChanges
from .deps import PlaneDep
from .guard import guarded_router
from .plain_json import PlainJSON

router = guarded_router("sites")


@router.get("/sites")
def list_sites(plane: PlaneDep) -> dict[str, Any]:
    """This machine, ``local``, and the others."""
    return {"items": sites.every(plane)}


@router.get("/sites/{site}")
def show_site(site: str, plane: PlaneDep) -> dict[str, Any]:
    return sites.show(plane, site)


@router.put(
    "/sites/{site}",
    status_code=201,
    response_class=PlainJSON,
    responses={200: {"description": "The site was there, and is what was sent now."}},
)
def put_site(site: str, body: NewSite, plane: PlaneDep) -> PlainJSON:
    record, created = sites.put(plane, site, body.model_dump())
    return PlainJSON(record, status_code=201 if created else 200)


@router.patch("/sites/{site}")
def change_site(site: str, body: SiteChanges, plane: PlaneDep) -> dict[str, Any]:
    return sites.change(plane, site, body.model_dump())


@router.delete("/sites/{site}", status_code=204)
def delete_site(site: str, plane: PlaneDep) -> Response:
    sites.remove(plane, site)
    return Response(status_code=204)


@router.get("/sites/{site}/sizes")
def list_sizes(site: str, plane: PlaneDep) -> dict[str, Any]:
    """The kinds of node that can be had there. Azure's names lead to the nearest of them."""
    return {"items": sites.sizes(plane, site)}
