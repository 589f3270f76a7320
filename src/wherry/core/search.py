"""Conditions on things that are searched for: ``metrics.auc > 0.8 and tags.team = 'x'``.

The language is MLflow's: comparisons joined by ``and``.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, NamedTuple, Optional, Tuple, Union

from .errors import UserErrorException
from .nearest import suggest

METRIC, PARAM, TAG, ATTRIBUTE, DATASET, PROPERTY = (
    "metrics",
    "params",
    "tags",
    "attributes",
    "datasets",
    "properties",
)
NUMBER, TEXT = "number", "text"
Value = Union[float, str, Tuple[str, ...], None]

_NAMES = {
    **dict.fromkeys(("metric", "metrics"), METRIC),
    **dict.fromkeys(("param", "params", "parameter", "parameters"), PARAM),
    **dict.fromkeys(("tag", "tags"), TAG),
    **dict.fromkeys(("attribute", "attributes", "attr", "run"), ATTRIBUTE),
    **dict.fromkeys(("dataset", "datasets"), DATASET),
    **dict.fromkeys(("property", "properties"), PROPERTY),
}
_EXAMPLES = {
    "filter": "metrics.auc > 0.8 and tags.team = 'x'",
    "order": "metrics.auc DESC",
}
_OF_NUMBERS = ("=", "!=", ">", ">=", "<", "<=")
_OF_TEXTS = ("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN", "IS NULL", "IS NOT NULL")
_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]))
    |(?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<name>[A-Za-z_][\w./@:\-]*\.?(?:`[^`]*`|"[^"]*")?|`[^`]*`)
    |(?P<sign><=|>=|!=|<>|==|=|<|>|\(|\)|,)
    )""",
    re.VERBOSE,
)


class Condition(NamedTuple):
    """``value`` is a number for metrics and numeric attributes, a tuple for IN, else a text."""

    entity: str
    key: str
    operator: str
    value: Value


class Order(NamedTuple):
    entity: str
    key: str
    descending: bool


@dataclass(frozen=True)
class Vocabulary:
    """What can be asked of some kind of thing: its entities, and its attributes with their kind.

    ``synonyms`` are other names of attributes.
    """

    entities: FrozenSet[str]
    attributes: Mapping[str, str]
    synonyms: Mapping[str, str]


class _Token(NamedTuple):
    kind: str
    text: str


def parse_filter(text: Optional[str], words: Vocabulary) -> List[Condition]:
    """
    >>> parse_filter("metrics.auc > 0.8 and tags.team = 'x'", RUNS)[0]
    Condition(entity='metrics', key='auc', operator='>', value=0.8)
    """
    if not text or not text.strip():
        return []
    reader = _Reader(text, words)
    found = [reader.condition()]
    while not reader.at_end:
        if reader.word() != "AND":
            raise reader.wrong("comparisons are joined by 'and' alone")
        found.append(reader.condition())
    return found


def parse_order(text: str, words: Vocabulary) -> Order:
    """A ``-`` in front means DESC, too.

    >>> parse_order("metrics.auc DESC", RUNS)
    Order(entity='metrics', key='auc', descending=True)
    """
    reader = _Reader(text.strip().lstrip("-"), words, "order")
    entity, key = reader.subject()
    direction = "ASC" if reader.at_end else reader.word()
    if direction not in ("ASC", "DESC") or not reader.at_end:
        raise reader.wrong("an order is a name, and ASC or DESC after it")
    return Order(entity, key, direction == "DESC" or text.strip().startswith("-"))


def meets(condition: Condition, value: Any) -> bool:
    """Whether a value is as asked for, where there is no database to ask."""
    operator, wanted = condition.operator, condition.value
    if operator in ("IS NULL", "IS NOT NULL"):
        return (value is None) == (operator == "IS NULL")
    if value is None:
        return False
    return bool(_COMPARED[operator](value, wanted))


def _is_like(value: str, pattern: str, flags: int = 0) -> bool:
    parts = (".*" if each == "%" else "." if each == "_" else re.escape(each) for each in pattern)
    return re.fullmatch("".join(parts), value, re.DOTALL | flags) is not None


_COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": lambda value, wanted: value == wanted,
    "!=": lambda value, wanted: value != wanted,
    ">": lambda value, wanted: value > wanted,
    ">=": lambda value, wanted: value >= wanted,
    "<": lambda value, wanted: value < wanted,
    "<=": lambda value, wanted: value <= wanted,
    "IN": lambda value, wanted: value in wanted,
    "NOT IN": lambda value, wanted: value not in wanted,
    "LIKE": _is_like,
    "ILIKE": lambda value, wanted: _is_like(value, wanted, re.IGNORECASE),
}


class _Reader:
    def __init__(self, text: str, words: Vocabulary, what: str = "filter") -> None:
        self._text = text
        self._what = what
        self._words = words
        self._tokens = self._cut(text)
        self._place = 0

    @property
    def at_end(self) -> bool:
        return self._place >= len(self._tokens)

    def wrong(self, problem: str) -> UserErrorException:
        shown = self._text if len(self._text) <= 200 else self._text[:200] + "..."
        return UserErrorException(
            f"the {self._what} {shown!r} is not understood: {problem}",
            hint=f"write it like this: {_EXAMPLES[self._what]}",
        )

    def word(self) -> str:
        token = self._next()
        return token.text.upper() if token.kind == "name" else ""

    def condition(self) -> Condition:
        entity, key = self.subject()
        numeric = entity == METRIC or (
            entity == ATTRIBUTE and self._words.attributes[key] == NUMBER
        )
        operator = self._operator()
        allowed = _OF_NUMBERS if numeric else _OF_TEXTS
        if operator not in allowed:
            what = "numbers are" if numeric else "texts are"
            raise self.wrong(f"{what} compared with {', '.join(allowed)}; {operator!r} is none")
        if operator.startswith("IS "):
            return Condition(entity, key, operator, None)
        if operator in ("IN", "NOT IN"):
            return Condition(entity, key, operator, self._several())
        return Condition(entity, key, operator, self._number() if numeric else self._string())

    def subject(self) -> Tuple[str, str]:
        token = self._next()
        if token.kind != "name":
            raise self.wrong(f"{token.text!r} is not the name of anything")
        head, dot, rest = token.text.partition(".")
        if dot and head.lower() in _NAMES and not token.text.startswith("`"):
            entity, key = _NAMES[head.lower()], _bare(rest)
        else:
            entity, key = ATTRIBUTE, _bare(token.text)
        if entity not in self._words.entities or not key:
            raise self.wrong(f"{token.text!r} is not known here")
        return entity, self._attribute(key) if entity == ATTRIBUTE else key

    def _attribute(self, key: str) -> str:
        known = self._words.synonyms.get(key.lower(), key)
        if known not in self._words.attributes:
            names = sorted(self._words.attributes)
            raise self.wrong(
                f"there is no attribute {key!r}{suggest(key, names)}; there are {', '.join(names)}"
            )
        return known

    def _operator(self) -> str:
        token = self._next()
        if token.kind == "sign":
            return {"<>": "!=", "==": "="}.get(token.text, token.text)
        word = token.text.upper()
        if word == "NOT":
            return f"NOT {self.word()}"
        if word == "IS":
            second = self.word()
            return f"IS NOT {self.word()}" if second == "NOT" else f"IS {second}"
        return word

    def _number(self) -> float:
        token = self._next()
        text = _unquoted(token.text) if token.kind == "text" else token.text
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise self.wrong(f"{token.text!r} is not a number")
        return number

    def _string(self) -> str:
        token = self._next()
        if token.kind != "text":
            raise self.wrong(f"put {token.text} in quotes: '{token.text}'")
        return _unquoted(token.text)

    def _several(self) -> Tuple[str, ...]:
        if self._next().text != "(":
            raise self.wrong("after IN come texts in parentheses: ('a', 'b')")
        found = [self._string()]
        while True:
            token = self._next()
            if token.text == ")":
                return tuple(found)
            if token.text != ",":
                raise self.wrong("after IN come texts in parentheses: ('a', 'b')")
            found.append(self._string())

    def _next(self) -> _Token:
        if self.at_end:
            raise self.wrong("it ends too soon")
        self._place += 1
        return self._tokens[self._place - 1]

    def _cut(self, text: str) -> List[_Token]:
        found: List[_Token] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None:
                raise self.wrong(f"{text[place : place + 20].strip()!r} makes no sense")
            groups: Dict[str, Any] = match.groupdict()
            kind = next(name for name, value in groups.items() if value is not None)
            found.append(_Token(kind, groups[kind]))
            place = match.end()
        return found


def _bare(name: str) -> str:
    """Without the quotes that names with other letters need."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in "`\"'":
        return name[1:-1]
    return name


def _unquoted(text: str) -> str:
    inner = text[1:-1].replace(text[0] * 2, text[0])
    return inner.replace("\\" + text[0], text[0])


RUNS = Vocabulary(
    frozenset({METRIC, PARAM, TAG, ATTRIBUTE, DATASET, PROPERTY}),
    {
        "run_id": TEXT,
        "run_name": TEXT,
        "status": TEXT,
        "user_id": TEXT,
        "start_time": NUMBER,
        "end_time": NUMBER,
        "submit_time": NUMBER,
        "number": NUMBER,
        "target": TEXT,
        "type": TEXT,
        "parent_id": TEXT,
        "experiment": TEXT,
    },
    {
        "id": "run_id",
        "name": "run_name",
        "run name": "run_name",
        "display_name": "run_name",
        "created": "start_time",
        "created_at": "start_time",
        "started_at": "start_time",
        "ended_at": "end_time",
        "submitted_at": "submit_time",
        "user": "user_id",
        "compute": "target",
    },
)
