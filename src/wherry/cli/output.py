"""Data on stdout: a table for people; JSON, YAML and tab-separated lines for programs."""

from __future__ import annotations

from typing import Any, List, Mapping, Optional, Sequence

from .session import Session
from .table import Column, render


def emit(session: Session, data: Any, columns: Optional[Sequence[Column]] = None) -> None:
    """Print records. ``columns`` says what a table of them shows; ``--query`` overrides it."""
    if session.query is not None:
        data, columns = select(session.query, data), None
    if session.output == "json":
        session.write(to_json(data))
    elif session.output == "yaml":
        session.write(to_yaml(data), newline=False)
    elif session.output == "tsv":
        _write_lines(session, to_tsv(data, columns))
    else:
        _write_lines(session, to_table(session, data, columns))


def count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def select(query: str, data: Any) -> Any:
    import jmespath
    from jmespath.exceptions import JMESPathError

    try:
        return jmespath.search(query, data)
    except JMESPathError as error:
        from .ending import Usage

        reason = str(error).splitlines()[0].rstrip(":")
        raise Usage(
            f"--query {query!r} cannot be used: {reason}",
            hint="it is written in JMESPath, such as \"[?status=='Failed'].id\"",
        ) from None


def to_json(data: Any) -> str:
    import json

    return json.dumps(_finite(data), indent=2, ensure_ascii=False)


def to_yaml(data: Any) -> str:
    import yaml

    text = yaml.safe_dump(data, sort_keys=False, allow_unicode=True, default_flow_style=False)
    # yaml ends a document that is a bare scalar with a line of dots
    return text[: -len("...\n")] if text.endswith("\n...\n") else text


def to_tsv(data: Any, columns: Optional[Sequence[Column]] = None) -> List[str]:
    """One record to a line, without a head; what would break the form becomes a space."""
    rows = data if isinstance(data, list) else [data]
    if columns is not None:
        return ["\t".join(_plain(column.value(row)) for column in columns) for row in rows]
    return ["\t".join(_plain(cell) for cell in _cells(row)) for row in rows]


def to_table(session: Session, data: Any, columns: Optional[Sequence[Column]] = None) -> List[str]:
    if columns is not None:
        return render(data if isinstance(data, list) else [data], columns, session)
    if isinstance(data, Mapping):
        pairs = [Column("", _first), Column("", _second, wraps=True)]
        return render([(key, _short(value)) for key, value in data.items()], pairs, session)[1:]
    if isinstance(data, list) and data and all(isinstance(row, Mapping) for row in data):
        names = list(dict.fromkeys(key for row in data for key in row))
        return render(data, [_field(name) for name in names], session)
    return to_tsv(data) if data not in (None, []) else []


def _write_lines(session: Session, lines: Sequence[str]) -> None:
    if lines:
        session.write("\n".join(lines))


def _cells(row: Any) -> Sequence[Any]:
    if isinstance(row, Mapping):
        return list(row.values())
    return row if isinstance(row, list) else [row]


def _plain(value: Any) -> str:
    return _short(value).replace("\t", " ").replace("\r", " ").replace("\n", " ")


def _short(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, dict)):
        import json

        return json.dumps(value, ensure_ascii=False) if value else ""
    return str(value)


def _field(name: str) -> Column:
    return Column(name, lambda row: _short(row.get(name)))


def _first(pair: Any) -> str:
    return str(pair[0])


def _second(pair: Any) -> str:
    return str(pair[1])


def _finite(data: Any) -> Any:
    """JSON has no NaN and no infinity: they become null."""
    if isinstance(data, float):
        return data if data - data == 0 else None
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
