"""How objects look in a notebook."""

from __future__ import annotations

from typing import Iterable, Sequence, Tuple


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """An HTML table; cells are escaped unless they are ``Markup``."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f'<table style="width:100%"><tr>{head}</tr>{body}</table>'


def fields(pairs: Iterable[Tuple[str, object]]) -> str:
    """A table of one row."""
    named = list(pairs)
    return table([name for name, _ in named], [[value for _, value in named]])


class Markup(str):
    """HTML that is meant as such."""


def link(url: str, text: str) -> Markup:
    safe = url if url.startswith(("http://", "https://")) else "#"
    return Markup(f'<a href="{escape(safe)}" target="_blank" rel="noopener">{escape(text)}</a>')


def escape(text: str) -> str:
    import html  # has all of HTML's entities, which few scripts need

    return html.escape(text)


def _cell(value: object) -> str:
    return value if isinstance(value, Markup) else escape("" if value is None else str(value))
