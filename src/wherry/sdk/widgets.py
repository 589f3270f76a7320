"""``RunDetails``: a run in a notebook, live where that is possible."""

from __future__ import annotations

import importlib
import threading
import time
from contextlib import suppress
from typing import Any, Dict, List, Mapping, Optional

from ..core.errors import WherryError
from . import display
from .console import echo
from .handle import TERMINAL

_PAUSE_S = 2.0
_FAILURES = 100


class RunDetails:
    """A view of a run that follows it while the notebook goes on.

    >>> RunDetails(run).show()

    Without ipywidgets it shows how the run is now, as text.
    """

    def __init__(self, run_instance: Any) -> None:
        self._run = run_instance
        self._thread: Optional[threading.Thread] = None

    def show(self, render_lib: Any = None, widget_settings: Any = None) -> None:
        """Show it and return at once. Never fails: a view is not worth an exception."""
        try:
            widget = _make_widget()
            if widget is None:
                echo(self.text())
                return
            widget.value = self._repr_html_()
            self._thread = threading.Thread(target=self._follow, args=(widget,), daemon=True)
            self._thread.start()
        except Exception as error:  # noqa: BLE001 - see above
            echo(f"The run cannot be shown: {error}\n")

    def get_widget_data(self) -> Dict[str, Any]:
        """What the view shows."""
        record = self._run._latest()
        return {"status": record.get("status"), "run_id": self._run.id, "metrics": self._metrics()}

    def text(self) -> str:
        """The view as text."""
        record = self._run._latest()
        lines = [
            f"RunId: {self._run.id}",
            f"Status: {record.get('status', 'unknown')}",
        ]
        if record.get("message"):
            lines.append(f"Message: {record['message']}")
        lines += [f"  {name}: {value}" for name, value in _summary(self._metrics())]
        return "\n".join([*lines, f"Web View: {self._run.get_portal_url()}", ""])

    def _repr_html_(self) -> str:
        record = self._run._latest()
        head = display.fields(
            [
                ("Id", self._run.id),
                ("Experiment", record.get("experiment")),
                ("Status", record.get("status", "unknown")),
                ("Message", record.get("message")),
                ("Details Page", display.link(self._run.get_portal_url(), "Link to the run")),
            ]
        )
        metrics = display.table(["Metric", "Value"], _summary(self._metrics()))
        tail = display.escape("\n".join(self._tail()))
        return f"{head}{metrics}<pre>{tail}</pre>"

    def _follow(self, widget: Any) -> None:
        for _ in range(_FAILURES):
            with suppress(WherryError):
                self._follow_to_the_end(widget)
                return
            time.sleep(_PAUSE_S)

    def _follow_to_the_end(self, widget: Any) -> None:
        while True:
            record: Mapping[str, Any] = self._run._current()
            widget.value = self._repr_html_()
            if record.get("status") in TERMINAL:
                return
            self._run._await(str(record["status"]), _PAUSE_S, patience_s=0.0)

    def _metrics(self) -> Dict[str, Any]:
        try:
            found: Dict[str, Any] = self._run.get_metrics()
        except WherryError:
            return {}
        return found

    def _tail(self, count: int = 10) -> List[str]:
        try:
            sizes = {file["path"]: file["size"] for file in self._run.list_files()}
            chunks: List[bytes] = []
            for name, size in sizes.items():
                if name.startswith("user_logs/"):
                    start = max(0, size - 4096)
                    self._run.stream_logs(chunks.append, name=name, offset=start, follow=False)
        except WherryError:
            return []
        return b"".join(chunks).decode("utf-8", "replace").splitlines()[-count:]


def _make_widget() -> Any:
    """An HTML widget that is on display, or None where there is no notebook to show it."""
    try:
        widgets = importlib.import_module("ipywidgets")
        interactive = importlib.import_module("IPython")
    except ImportError:
        return None
    if interactive.get_ipython() is None:
        return None
    widget = widgets.HTML()
    interactive.display.display(widget)
    return widget


def _summary(metrics: Mapping[str, Any]) -> List[List[Any]]:
    rows = []
    for name, value in metrics.items():
        several = isinstance(value, list) and value
        rows.append([name, f"{value[-1]} (last of {len(value)})" if several else value])
    return rows
