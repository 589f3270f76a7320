"""What runs note of themselves: what they took in, what they gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from wherry.store import run_inputs, run_labels
from wherry.store.run_inputs import INPUT, OUTPUT, Dataset

from .plane import Plane
from .tracked_runs import active


def took(
    plane: Plane,
    run_id: str,
    datasets: Sequence[tuple[Dataset, Mapping[str, str]]],
    models: Mapping[str, int],
) -> None:
    """Datasets, each with its tags, and logged models by their ids."""
    with plane.write() as connection:
        row = active(connection, run_id)
        run_inputs.add_datasets(connection, row, datasets)
        run_inputs.add_models(connection, row, INPUT, models)
    plane.changed(run_id)


def gave(plane: Plane, run_id: str, models: Mapping[str, int]) -> None:
    """Logged models by their ids, each with its step."""
    with plane.write() as connection:
        run_inputs.add_models(connection, active(connection, run_id), OUTPUT, models)
    plane.changed(run_id)


def append_to_tag(plane: Plane, run_id: str, key: str, entry: Any) -> None:
    """To a tag that holds a list, as JSON."""
    with plane.write() as connection:
        row = active(connection, run_id)
        present = run_labels.of(connection, [row.seq]).get((row.seq, run_labels.TAG), {})
        entries = [*json.loads(present.get(key, "[]")), entry]
        run_labels.change(connection, row, run_labels.TAG, {key: json.dumps(entries)})
    plane.changed(run_id)
