"""``run.log`` and its kin: written to a spool on disk, shipped by others, never in the way."""

from __future__ import annotations

import os
import time
from typing import Any, Dict, List, Mapping, Optional

from .handle import RunHandle
from .recorder import Recorder, scratch
from .values import plain, scalar

_EXACT = (float, int, str, bool)


class Tracking(RunHandle):
    """What a run can log. Nothing here raises into training: trouble is told once on stderr."""

    _recorder: Optional[Recorder] = None
    _last_stamp = 0

    def log(self, name: str, value: Any, description: str = "", step: Optional[int] = None) -> None:
        """Log a number or text. Logged again under the same name it becomes a list.

        >>> run.log("accuracy", 0.91)
        >>> run.log("loss", tensor, step=3)
        """
        if type(value) in _EXACT and type(name) is str and name and step is None:
            recorder = self._recorder or self._get_recorder()
            if recorder is not None:
                recorder.spool.append("scalar", name, value, None, self._below(recorder))
            return
        self._log("scalar", name, value, scalar, step)

    def log_list(
        self, name: str, value: Any, description: str = "", step: Optional[int] = None
    ) -> None:
        """Log a list of values, of any length.

        >>> run.log_list("alphas", [0.1, 0.2, 0.3])
        """
        self._log("list", name, value, _as_list, step)

    def log_row(
        self, name: Optional[str] = None, description: Optional[str] = None, /, **columns: Any
    ) -> None:
        """Log one row of named columns. After the row's name every keyword is a column.

        >>> run.log_row("fit", alpha=0.1, mse=3.2)
        """
        self._log("row", name_of_row(columns) if name is None else name, columns, plain)

    def log_table(self, name: str, value: Mapping[str, Any], description: str = "") -> None:
        """Log a table: a dict with the column's name and its list of cells.

        >>> run.log_table("curve", {"x": [1, 2, 3], "y": [2, 4, 8]})
        """
        self._log("table", name, value, _as_table)

    def log_image(
        self,
        name: str,
        path: Optional[str] = None,
        plot: Any = None,
        description: str = "",
    ) -> None:
        """Log a picture: a file, or anything with ``savefig`` such as a matplotlib figure.

        >>> run.log_image("roc", plot=plt)
        """
        self._guarded(name, lambda: self._store_image(name, path, plot))

    def log_confusion_matrix(self, name: str, value: Any, description: str = "") -> None:
        """Log a confusion matrix in Azure ML's JSON form."""
        self._log_document(name, value)

    def log_accuracy_table(self, name: str, value: Any, description: str = "") -> None:
        """Log an accuracy table in Azure ML's JSON form."""
        self._log_document(name, value)

    def log_residuals(self, name: str, value: Any, description: str = "") -> None:
        """Log residuals in Azure ML's JSON form."""
        self._log_document(name, value)

    def log_predictions(self, name: str, value: Any, description: str = "") -> None:
        """Log predictions in Azure ML's JSON form."""
        self._log_document(name, value)

    def _flush_own(self, timeout_s: float) -> None:
        """What this process logged is to be read by it."""
        if self._recorder is not None:
            self._recorder.flush(self._client, timeout_s)

    def _get_recorder(self) -> Optional[Recorder]:
        """The recorder, made when first needed; None when that failed and was told."""
        raise NotImplementedError

    def _below(self, recorder: Recorder) -> str:
        """Whose line it is, where the spool belongs to a run above this one."""
        return "" if recorder.run_id == self.id else self.id

    def _log(
        self, kind: str, name: str, value: Any, convert: Any, step: Optional[int] = None
    ) -> None:
        def write() -> None:
            recorder = self._get_recorder()
            if recorder is None:
                return
            if not name:
                raise ValueError("it has no name")
            converted = convert(value)
            actual = kind
            if kind == "scalar":
                actual = _kind_of(converted)
            number = None if step is None else int(step)
            recorder.spool.append(actual, str(name), converted, number, self._below(recorder))

        self._guarded(name, write)

    def _guarded(self, name: str, action: Any) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - whatever a value's own methods raise
            recorder = self._get_recorder()
            if recorder is not None:
                recorder.spool.complain(str(name), error)

    def _store_image(self, name: str, path: Optional[str], plot: Any) -> None:
        if (path is None) == (plot is None):
            raise ValueError("an image needs either path= or plot=")
        if path is not None and not os.path.isfile(path):
            raise ValueError(f"there is no file {str(path)!r}")
        ending = os.path.splitext(path)[1] if path else ".png"
        file_name = f"{_file_stem(name)}_{self._stamp()}{ending}"
        if path is not None:
            self._attach(name, file_name, path)
            return
        with scratch() as folder:
            saved = os.path.join(folder, "plot.png")
            plot.savefig(saved, bbox_inches="tight", format="png")
            self._attach(name, file_name, saved)

    def _log_document(self, name: str, value: Any) -> None:
        def write() -> None:
            from json import dumps

            text = value if isinstance(value, str) else dumps(plain(value))
            with scratch() as folder:
                saved = os.path.join(folder, "document.json")
                with open(saved, "w", encoding="utf-8") as file:
                    file.write(text)
                self._attach(name, f"{_file_stem(name)}_{self._stamp()}.json", saved)

        self._guarded(name, write)

    def _attach(self, name: str, file_name: str, source: str) -> None:
        """A file, and a metric whose value is its address."""
        recorder = self._get_recorder()
        if recorder is None:
            return
        recorder.put_file(self.id, file_name, source)
        address = f"aml://artifactId/ExperimentRun/dcid.{self.id}/{file_name}"
        recorder.spool.append("image", str(name), address, None, self._below(recorder))

    def _stamp(self) -> int:
        """The unix time; a second later for the second picture of a second."""
        Tracking._last_stamp = max(int(time.time()), Tracking._last_stamp + 1)
        return Tracking._last_stamp


def name_of_row(columns: Dict[str, Any]) -> str:
    """Where all is given by keyword, as Azure ML allows: ``log_row(name="fit", alpha=0.1)``."""
    columns.pop("description", None)
    return str(columns.pop("name", ""))


def _kind_of(value: Any) -> str:
    if value is None:
        raise ValueError("its value is None")
    if isinstance(value, list):
        return "list"
    return "row" if isinstance(value, dict) else "scalar"


def _as_list(value: Any) -> List[Any]:
    value = plain(value)
    return value if isinstance(value, list) else [value]


def _as_table(value: Any) -> Dict[str, List[Any]]:
    to_dict = getattr(value, "to_dict", None)
    if callable(to_dict) and not isinstance(value, Mapping):
        value = to_dict("list")  # a data frame
    value = plain(value)
    if not isinstance(value, dict):
        raise TypeError("a table is a dict with a list for every column")
    return {
        column: cells if isinstance(cells, list) else [cells] for column, cells in value.items()
    }


def _file_stem(name: str) -> str:
    stem = "".join("_" if letter in "/\\:\0\n\r\t" else letter for letter in str(name))
    return stem.strip(". ")[:200] or "image"
