"""What a run took in, and what it gave: datasets and models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, delete, insert, select, tuple_

from .database import batches
from .model_tables import input_datasets, run_datasets, run_models
from .tables import experiments

INPUT, OUTPUT = "input", "output"
CONTEXT = "mlflow.data.context"


class Dataset(NamedTuple):
    name: str
    digest: str
    source_type: str
    source: str
    schema: str | None
    profile: str | None


def add_models(
    connection: Connection, run: Row[Any], direction: str, models: Mapping[str, int]
) -> None:
    """By their ids, each with its step; what is known already stays."""
    mine = select(run_models.c.model_id).where(
        run_models.c.run_seq == run.seq, run_models.c.direction == direction
    )
    known = set(connection.execute(mine).scalars())
    fresh = [
        {"run_seq": run.seq, "direction": direction, "model_id": model_id, "step": step}
        for model_id, step in models.items()
        if model_id not in known
    ]
    if fresh:
        connection.execute(insert(run_models), fresh)


def models(connection: Connection, seqs: Sequence[int]) -> dict[tuple[int, str], list[Row[Any]]]:
    """Of each run and direction."""
    found: dict[tuple[int, str], list[Row[Any]]] = {}
    for batch in batches(seqs):
        query = select(run_models).where(run_models.c.run_seq.in_(batch))
        for row in connection.execute(query.order_by(run_models.c.step, run_models.c.model_id)):
            found.setdefault((row.run_seq, row.direction), []).append(row)
    return found


def add_datasets(
    connection: Connection, run: Row[Any], given: Iterable[tuple[Dataset, Mapping[str, str]]]
) -> None:
    """Each with its tags. One that the run has already gets the new tags beside its own."""
    told: dict[tuple[str, str], tuple[Dataset, Mapping[str, str]]] = {}
    for each, tags in given:
        told.setdefault((each.name, each.digest), (each, tags))
    seqs = _ensure(connection, run.experiment_id, {key: each for key, (each, _) in told.items()})
    mine = select(run_datasets).where(run_datasets.c.run_seq == run.seq)
    known = {row.dataset_seq: row.tags for row in connection.execute(mine)}
    for key, (_, tags) in told.items():
        seq = seqs[key]
        if seq in known:
            connection.execute(
                delete(run_datasets).where(
                    run_datasets.c.run_seq == run.seq, run_datasets.c.dataset_seq == seq
                )
            )
        merged = {**known.get(seq, {}), **tags}
        connection.execute(
            insert(run_datasets).values(run_seq=run.seq, dataset_seq=seq, tags=merged)
        )


def datasets(connection: Connection, seqs: Sequence[int]) -> dict[int, list[Row[Any]]]:
    """Of each run, with the tags that it has there."""
    found: dict[int, list[Row[Any]]] = {}
    joined = select(input_datasets, run_datasets.c.run_seq, run_datasets.c.tags).join(
        run_datasets, run_datasets.c.dataset_seq == input_datasets.c.seq
    )
    for batch in batches(seqs):
        query = joined.where(run_datasets.c.run_seq.in_(batch))
        for row in connection.execute(query.order_by(input_datasets.c.seq)):
            found.setdefault(row.run_seq, []).append(row)
    return found


def summaries(
    connection: Connection, workspace_id: str, experiment_ids: Sequence[str], limit: int
) -> Sequence[Row[Any]]:
    """Experiment, name, digest and context of each that is in use there."""
    columns = (input_datasets.c.experiment_id, input_datasets.c.name, input_datasets.c.digest)
    query = (
        select(*columns, run_datasets.c.tags[CONTEXT].as_string().label("context"))
        .join(run_datasets, run_datasets.c.dataset_seq == input_datasets.c.seq)
        .join(experiments, experiments.c.id == input_datasets.c.experiment_id)
        .where(
            experiments.c.workspace_id == workspace_id,
            input_datasets.c.experiment_id.in_(experiment_ids),
        )
        .distinct()
        .limit(limit)
    )
    return connection.execute(query).all()


def remove(connection: Connection, seqs: Sequence[int]) -> None:
    """Of runs that go; a dataset that no run is left with goes as well."""
    for batch in batches(seqs):
        connection.execute(delete(run_models).where(run_models.c.run_seq.in_(batch)))
        used = select(run_datasets.c.dataset_seq).where(run_datasets.c.run_seq.in_(batch))
        released = connection.execute(used.distinct()).scalars().all()
        connection.execute(delete(run_datasets).where(run_datasets.c.run_seq.in_(batch)))
        for some in batches(released):
            still = select(run_datasets.c.dataset_seq)
            connection.execute(
                delete(input_datasets).where(
                    input_datasets.c.seq.in_(some), input_datasets.c.seq.not_in(still)
                )
            )


def _ensure(
    connection: Connection, experiment_id: str, wanted: Mapping[tuple[str, str], Dataset]
) -> dict[tuple[str, str], int]:
    if not wanted:
        return {}
    keys = tuple_(input_datasets.c.name, input_datasets.c.digest)
    known = select(input_datasets).where(
        input_datasets.c.experiment_id == experiment_id, keys.in_(list(wanted))
    )
    found = {(row.name, row.digest): row.seq for row in connection.execute(known)}
    for key, each in wanted.items():
        if key not in found:
            adding = insert(input_datasets).values(experiment_id=experiment_id, **each._asdict())
            found[key] = connection.execute(adding).inserted_primary_key[0]  # type: ignore[index]
    return found
