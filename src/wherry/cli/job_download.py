"""``wherry job download``: a run's files, or its source folder, onto this machine."""

from __future__ import annotations

import os
from typing import Any, Dict, List, Optional, Tuple

import click

from ..core.errors import ConflictError, NotFoundError
from ..sdk.ignore import DOWNLOADS
from .command import Command, argument_for_run, pass_session
from .output import count, emit
from .session import Session
from .table import Column


@click.command(
    cls=Command,
    examples=[
        "wherry job download 3f2a9c01",
        "wherry job download 3f2a9c01 outputs/model.pkl --path .",
        "wherry job download 3f2a9c01 --list",
        "wherry job download 3f2a9c01 --snapshot --path as-submitted",
    ],
)
@argument_for_run()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "-p",
    "--path",
    type=click.Path(),
    metavar="FOLDER",
    help=f"Where to.  [default: {DOWNLOADS}/ and the id of the run]",
)
@click.option("--overwrite", is_flag=True, help="Replace files in FOLDER that differ.")
@click.option("--list", "listing", is_flag=True, help="Only list the files.")
@click.option(
    "--snapshot", is_flag=True, help="The source folder as it was submitted, instead of the files."
)
@pass_session
def download(
    session: Session,
    run_id: str,
    names: Tuple[str, ...],
    path: Optional[str],
    overwrite: bool,
    listing: bool,
    snapshot: bool,
) -> None:
    """Fetch a run's outputs and logs, or the code that it was submitted with.

    A NAME is a file, or a folder of files such as outputs/; without any, all are fetched. The
    paths of what was fetched are printed. Given again after it broke off, it goes on where it was:
    what lies there already is not fetched twice. What lies in wherry-downloads/ is left out of
    snapshots.
    """
    run = session.run(run_id)
    if snapshot:
        _snapshot(session, run, path, listing)
        return
    files = _chosen(run, names)
    if listing:
        emit(session, files, _columns())
        return
    if path is not None and not overwrite:
        _check_free(run, files, path)
    _fetch(session, run, files, path or os.path.join(DOWNLOADS, run.id))


def _chosen(run: Any, names: Tuple[str, ...]) -> List[Dict[str, Any]]:
    files: List[Dict[str, Any]] = run.list_files()
    chosen = []
    for name in names:
        folder = name.rstrip("/") + "/"
        found = [f for f in files if f["path"] == name]
        found = found or [f for f in files if f["path"].startswith(folder)]
        if not found:
            from .command import guess

            there = [file["path"] for file in files]
            raise NotFoundError(
                f"run {run.id} has no file or folder {name!r}{guess(name, there)}",
                hint=f"wherry job download {run.id} --list",
            )
        chosen += [file for file in found if file not in chosen]
    return chosen if names else files


def _check_free(run: Any, files: List[Dict[str, Any]], folder: str) -> None:
    """Nothing is fetched onto a file of someone's own."""
    from ..sdk.files import place_below

    for file in files:
        place = place_below(folder, file["path"])
        if os.path.exists(place) and not _is_same(place, file):
            raise ConflictError(
                f"{place} is there already and differs from {file['path']} of run {run.id}",
                hint="name another folder with --path, or replace it with --overwrite",
            )


def _is_same(path: str, file: Dict[str, Any]) -> bool:
    from ..sdk.sending import digest_of

    if not file["digest"]:  # a log, which grows
        return os.path.isfile(path)
    if os.path.isdir(path) or os.path.getsize(path) != file["size"]:
        return False
    return digest_of(path) == str(file["digest"])


def _fetch(session: Session, run: Any, files: List[Dict[str, Any]], folder: str) -> None:
    from ..core.sizes import format_bytes
    from ..sdk.files import check_together, place_below
    from .progress import Progress

    check_together([file["path"] for file in files])
    total = sum(file["size"] for file in files)
    places = {file["path"]: place_below(folder, file["path"]) for file in files}
    with Progress(session, f"fetching {count(len(files), 'file')}") as progress:
        left = [file for file in files if not _lies_there(places[file["path"]], file)]
        done = total - sum(file["size"] for file in left)
        for size in run.fetch_all(left, [places[file["path"]] for file in left]):
            done += size
            progress.step(done, total)
    session.say(f"{count(len(files), 'file')}, {format_bytes(total)}, in {folder}")
    emit(session, list(places.values()))


def _lies_there(path: str, file: Dict[str, Any]) -> bool:
    return bool(file["digest"]) and os.path.isfile(path) and _is_same(path, file)


def _snapshot(session: Session, run: Any, path: Optional[str], listing: bool) -> None:
    snapshot_id = run.get_snapshot_id()
    if not snapshot_id:
        raise NotFoundError(f"run {run.id} was not submitted with a source folder")
    if listing:
        emit(session, session.workspace.show_snapshot(snapshot_id)["files"], _columns())
        return
    folder = os.path.join(DOWNLOADS, f"{run.id}-snapshot")
    emit(session, run.restore_snapshot(path=path or folder))


def _columns() -> List[Column]:
    from ..core.sizes import format_bytes

    return [
        Column("PATH", lambda file: str(file["path"])),
        Column("SIZE", lambda file: format_bytes(file["size"]), right=True),
    ]
