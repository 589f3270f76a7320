"""Tables of text that fit the terminal; where there is none, nothing is cut."""

from __future__ import annotations

import sys
import unicodedata
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from .session import Session

_GAP = "  "
_NARROWEST = 24
_MOST_LINES = 4


class Column(NamedTuple):
    """One column. A narrow terminal first takes ``short`` forms, then wraps the column that
    ``wraps``, then drops the columns that say so, the highest ``drops`` first.
    """

    title: str
    value: Callable[[Any], str]
    short: Optional[Callable[[Any], str]] = None
    style: Optional[Callable[[Any], Dict[str, Any]]] = None
    right: bool = False
    wraps: bool = False
    drops: int = 0


def render(rows: Sequence[Any], columns: Sequence[Column], session: Session) -> List[str]:
    """The lines of the table, the head first."""
    return layout(rows, columns, session, terminal_width())


def terminal_width() -> Optional[int]:
    """How wide stdout is; None where it is no terminal."""
    if not sys.stdout.isatty():
        return None
    import shutil

    return max(20, shutil.get_terminal_size().columns)


def layout(
    rows: Sequence[Any], columns: Sequence[Column], session: Session, width: Optional[int]
) -> List[str]:
    chosen = list(columns)
    if width is not None:
        chosen = _fitting(rows, chosen, width)
    cells = [[_one_line(column.value(row)) for column in chosen] for row in rows]
    widths = _widths([[column.title for column in chosen], *cells])
    if width is not None:
        _squeeze(chosen, widths, width)
    lines = _lines([column.title for column in chosen], chosen, widths, None, session)
    for row, texts in zip(rows, cells):
        lines += _lines(texts, chosen, widths, row, session)
    return lines


def display_width(text: str) -> int:
    """Columns on a terminal: wide characters take two, combining ones none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _fitting(rows: Sequence[Any], columns: List[Column], width: int) -> List[Column]:
    if _width(rows, columns) > width:
        columns = [_shortened(column) for column in columns]
    while _width(rows, columns, narrowest=_NARROWEST) > width:
        optional = max(columns, key=lambda column: column.drops)
        if not optional.drops:
            break
        columns = [column for column in columns if column is not optional]
    return columns


def _shortened(column: Column) -> Column:
    return column._replace(value=column.short or column.value, short=None)


def _width(rows: Sequence[Any], columns: Sequence[Column], narrowest: int = 10**6) -> int:
    """Of the whole table, with wrapping columns no wider than ``narrowest``."""
    widths = _widths(
        [[column.title for column in columns]]
        + [[_one_line(column.value(row)) for column in columns] for row in rows]
    )
    least = [
        min(width, narrowest) if column.wraps else width for column, width in zip(columns, widths)
    ]
    return sum(least) + len(_GAP) * (len(columns) - 1)


def _widths(table: Sequence[Sequence[str]]) -> List[int]:
    return [max(display_width(cell) for cell in cells) for cells in zip(*table)]


def _squeeze(columns: Sequence[Column], widths: List[int], width: int) -> None:
    """Take what is missing from the wrapping column, then from the widest ones."""
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    for place, column in enumerate(columns):
        if column.wraps and excess > 0:
            cut = min(excess, max(0, widths[place] - min(_NARROWEST, widths[place])))
            widths[place] -= cut
            excess -= cut
    while excess > 0 and max(widths) > 4:
        widths[widths.index(max(widths))] -= 1
        excess -= 1


def _lines(
    texts: Sequence[str],
    columns: Sequence[Column],
    widths: Sequence[int],
    row: Any,
    session: Session,
) -> List[str]:
    parts = [
        _wrapped(text, width) if column.wraps else [_cut(text, width)]
        for text, column, width in zip(texts, columns, widths)
    ]
    lines = []
    for number in range(max(len(part) for part in parts)):
        cells = [part[number] if number < len(part) else "" for part in parts]
        padded = [
            _padded(cell, width, column.right)
            for cell, width, column in zip(cells, widths, columns)
        ]
        if row is None:
            lines.append(session.style(_GAP.join(padded).rstrip(), bold=True))
        else:
            lines.append(_styled(cells, padded, columns, row, session))
    return lines


def _styled(
    cells: Sequence[str],
    padded: Sequence[str],
    columns: Sequence[Column],
    row: Any,
    session: Session,
) -> str:
    plain = _GAP.join(padded).rstrip()
    styles = [column.style(row) if column.style else {} for column in columns]
    if not any(styles):
        return plain
    shown = [
        text.replace(cell, session.style(cell, **style), 1) if cell and style else text
        for cell, text, style in zip(cells, padded, styles)
    ]
    return _GAP.join(shown).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - display_width(text))
    return space + text if right else text + space


def _cut(text: str, width: int) -> str:
    if display_width(text) <= width:
        return text
    kept = ""
    for char in text:
        if display_width(kept + char) > width - 1:
            break
        kept += char
    return kept + "…"


def _wrapped(text: str, width: int) -> List[str]:
    lines: List[str] = []
    line = ""
    for word in text.split(" "):
        joined = f"{line} {word}" if line else word
        if display_width(joined) <= width:
            line = joined
            continue
        if line:
            lines.append(line)
        line = word
        while display_width(line) > width:
            taken = _cut(line, width + 1)[:-1]
            lines.append(taken)
            line = line[len(taken) :]
    lines.append(line)
    if len(lines) > _MOST_LINES:
        lines = [*lines[: _MOST_LINES - 1], _cut(" ".join(lines[_MOST_LINES - 1 :]), width)]
    return lines


def _one_line(text: str) -> str:
    """Without line ends and without what moves the cursor."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else " " for char in text)
