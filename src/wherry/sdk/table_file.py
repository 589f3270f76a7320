"""Tables as files and frames. pandas and Parquet come from packages that are loaded when used."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Dict, List

from ..core.errors import UserErrorException
from .run_table import TIMES, Table, moment

ENDINGS = (".csv", ".parquet")


def to_pandas(table: Table) -> Any:
    return _package("pandas", "a table in memory").DataFrame(_with_times(table))


def check(path: Any) -> str:
    """The path of a file that can be written, or an error, before anything is asked for."""
    text = os.fspath(path)
    if not str(text).lower().endswith(ENDINGS):
        raise UserErrorException(
            f"{text!r} is neither CSV nor Parquet", hint="name a file that ends in .csv or .parquet"
        )
    folder = os.path.dirname(os.path.abspath(text))
    if not os.path.isdir(folder):
        raise UserErrorException(f"there is no folder {folder!r}", hint="make it first")
    if str(text).lower().endswith(".parquet"):
        _package("pyarrow", "Parquet")
    return str(text)


def write(path: str, table: Table) -> None:
    """Whole or not at all."""
    partial = f"{path}.partial"
    try:
        if path.lower().endswith(".parquet"):
            _write_parquet(partial, table)
        else:
            _write_csv(partial, table)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def _write_csv(path: str, table: Table) -> None:
    import csv

    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values()))


def _write_parquet(path: str, table: Table) -> None:
    arrow, parquet = _package("pyarrow", "Parquet"), _package("pyarrow.parquet", "Parquet")
    parquet.write_table(arrow.table(_with_times(table)), path)


def _with_times(table: Table) -> Dict[str, List[Any]]:
    """Moments, not texts."""
    return {
        name: [moment(each) if each else None for each in values] if name in TIMES else values
        for name, values in table.items()
    }


def _package(name: str, what: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        package = name.partition(".")[0]
        raise UserErrorException(
            f"{what} needs the package {package}, which this Python does not have",
            hint=f"pip install {package}",
        ) from None
