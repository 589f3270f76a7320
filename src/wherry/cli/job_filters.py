"""Which runs: the options of ``wherry job list`` and ``wherry job export``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

import click

from ..core.search import METRIC, PARAM, RUNS, TAG, parse_filter, parse_order
from .command import completing
from .metrics import short
from .ps import STATUSES
from .session import Session
from .table import Column

if TYPE_CHECKING:
    from ..sdk.workspace import Workspace

_SHOWN = (METRIC, PARAM, TAG)
_OPTIONS = [
    click.option(
        "--experiment",
        metavar="NAME",
        shell_complete=completing("experiments"),
        help="Only of this experiment.",
    ),
    click.option(
        "--filter",
        "words",
        default="",
        metavar="TEXT",
        help="Only those of which this holds, such as \"metrics.auc > 0.8 and tags.team = 'x'\".",
    ),
    click.option(
        "--status",
        "statuses",
        multiple=True,
        type=STATUSES,
        metavar="STATUS",
        help="Only with this status; may be repeated.",
    ),
    click.option(
        "--target",
        metavar="NAME",
        shell_complete=completing("targets"),
        help="Only on this target.",
    ),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="KEY[=VALUE]",
        help="Only with this tag; may be repeated.",
    ),
    click.option(
        "--parent",
        metavar="RUN_ID",
        shell_complete=completing("runs"),
        help="Only the children of this run.",
    ),
    click.option("--children", is_flag=True, help="Child runs, too."),
    click.option("--archived", is_flag=True, help="The archived ones instead."),
    click.option(
        "--order-by",
        default="-submitted_at",
        show_default=True,
        metavar="FIELD",
        shell_complete=completing("orders"),
        help="submitted_at, started_at, ended_at, number, status, display_name, metrics.NAME, "
        "params.NAME or tags.NAME; with '-' in front, the last or greatest first.",
    ),
]


class Wanted(NamedTuple):
    workspace: Workspace
    filters: Dict[str, Any]
    names: List[Tuple[str, str]]


def options_for_runs(function: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def wanted(session: Session, options: Mapping[str, Any]) -> Wanted:
    """What the options ask for, and the metrics, parameters and tags that they speak of."""
    words, order = options["words"], options["order_by"]
    names = _spoken_of(words, order)
    parent = session.run(options["parent"]) if options["parent"] else None
    filters = {
        "experiment": options["experiment"],
        "filter": words or None,
        "status": list(options["statuses"]),
        "target": options["target"],
        "tags": list(options["tags"]),
        "parent_id": parent.id if parent else None,
        "include_children": options["children"],
        "archived": "archived" if options["archived"] else "active",
        "order_by": order,
    }
    workspace = parent.experiment.workspace if parent else session.workspace
    return Wanted(workspace, filters, names)


def columns_of(names: List[Tuple[str, str]]) -> List[Column]:
    return [_column(kind, name) for kind, name in names]


def _spoken_of(words: str, order: str) -> List[Tuple[str, str]]:
    found = [(each.entity, each.key) for each in parse_filter(words, RUNS)]
    if "." in order:
        by = parse_order(order, RUNS)
        found.insert(0, (by.entity, by.key))
    return list(dict.fromkeys(each for each in found if each[0] in _SHOWN))


def _column(kind: str, name: str) -> Column:
    def value(run: Any) -> str:
        found = (run.get(kind) or {}).get(name)
        return "" if found is None else short(found)

    return Column(name, value, right=kind == METRIC)
