"""A YAML file that someone wrote, with errors that name the line."""

from __future__ import annotations

from typing import Any, Dict

import yaml

from ..core.errors import UserErrorException

_MAX_VALUES = 100_000


def load(path: str) -> Any:
    try:
        with open(path, encoding="utf-8") as file:
            return yaml.load(file, Loader=_Strict)  # noqa: S506 - a safe loader, only stricter
    except UnicodeDecodeError:
        raise UserErrorException(
            f"{path} is not a text file in UTF-8", hint="save it as UTF-8 and repeat"
        ) from None
    except RecursionError:
        raise UserErrorException(
            f"{path} is nested too deeply", hint="a job needs no more than a few levels"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}," if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise UserErrorException(
            f"{path}{place} cannot be read: {problem}", hint="correct it there; a job file is YAML"
        ) from None


def value_of(text: str) -> Any:
    """A value that someone wrote on the command line; what is not YAML is text."""
    try:
        return yaml.load(text, Loader=_Strict)  # noqa: S506 - likewise
    except (yaml.YAMLError, RecursionError):
        return text


class _Strict(yaml.SafeLoader):
    """Where a name stands twice, neither is taken for what was meant."""

    def construct_document(self, node: Any) -> Any:
        if _size(node, {}) > _MAX_VALUES:
            problem = f"its references stand for more than {_MAX_VALUES} values"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
        return super().construct_document(node)

    def construct_object(self, node: Any, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep=deep)
        except (ValueError, TypeError, AttributeError, OverflowError):
            kind = node.tag.rpartition(":")[2]
            problem = f"what stands there is no {kind}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark) from None

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
            if (
                isinstance(key.value, str)
                and key.value in seen
                and key.tag != "tag:yaml.org,2002:merge"
            ):
                problem = f"{key.value!r} stands there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else id(key))
        return super().construct_mapping(node, deep=deep)


def _size(node: Any, known: Dict[int, float]) -> float:
    """How many values a node stands for once its references are followed: a few lines may be
    billions, and a node that holds itself has no end.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in known:
        known[id(node)] = float("inf")
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in parts for part in pair]
        known[id(node)] = 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]
