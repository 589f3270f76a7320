"""YAML, with errors that name the line. The one place of the SDK that needs a package: PyYAML.

It comes with Wherry, but the SDK also runs where nothing is installed, so that it is loaded by
those alone who read or write YAML.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Dict, Mapping, Set, Tuple

from ..core.errors import UserErrorException

_MAX_VALUES = 100_000


def read_file(path: str, what: str = "it") -> str:
    """The text of a file that someone named; ``what`` says in sentences what it should be."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            return file.read()
    except FileNotFoundError:
        raise UserErrorException(
            f"there is no file {path!r}", hint=f"name {what}; a path is counted from where you are"
        ) from None
    except IsADirectoryError:
        raise UserErrorException(f"{path!r} is a folder", hint=f"name {what} in it") from None
    except UnicodeDecodeError:
        raise UserErrorException(
            f"{path} is not a text file in UTF-8", hint="save it as UTF-8 and repeat"
        ) from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UserErrorException(f"{path} cannot be read: {reason}") from None


def parse(text: str, where: str, hint: str = "correct it there") -> Any:
    """The value that the text stands for."""
    return _guarded(lambda yaml: yaml.load(text, Loader=strict_loader()), where, hint)


def parse_with_lines(
    text: str, where: str, hint: str = "correct it there"
) -> Tuple[Any, Dict[Tuple[Any, ...], int]]:
    """The value, and the line on which each part of it stands, by the way to it."""

    def read(yaml: Any) -> Any:
        loader = strict_loader()(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None, {}
            value = loader.construct_document(node)
        finally:
            loader.dispose()
        lines: Dict[Tuple[Any, ...], int] = {}
        _note(yaml, node, (), lines)
        return value, lines

    found: Tuple[Any, Dict[Tuple[Any, ...], int]] = _guarded(read, where, hint)
    return found


def dump(value: Mapping[str, Any]) -> str:
    """In the order given; what is None is left empty, as Azure ML writes it."""
    yaml = library()

    class Dumper(yaml.SafeDumper):  # type: ignore[name-defined,misc]
        pass

    Dumper.add_representer(
        type(None), lambda dumper, _: dumper.represent_scalar("tag:yaml.org,2002:null", "")
    )
    text: str = yaml.dump(
        dict(value), Dumper=Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def library() -> Any:
    try:
        import yaml
    except ImportError:
        raise UserErrorException(
            "YAML files need the package PyYAML, which this Python does not have",
            hint="pip install pyyaml, or do it where Wherry itself is installed",
        ) from None
    return yaml


def _guarded(act: Any, where: str, hint: str) -> Any:
    yaml = library()
    try:
        return act(yaml)
    except RecursionError:
        raise UserErrorException(
            f"{where} is nested too deeply", hint="it needs no more than a few levels"
        ) from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f", line {mark.line + 1}," if mark is not None else ""
        problem = getattr(error, "problem", None) or "it is not YAML"
        raise UserErrorException(f"{where}{place} cannot be read: {problem}", hint=hint) from None


def _note(yaml: Any, node: Any, path: Tuple[Any, ...], lines: Dict[Tuple[Any, ...], int]) -> None:
    lines[path] = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key.value, str):
                _note(yaml, value, (*path, key.value), lines)
    elif isinstance(node, yaml.SequenceNode):
        for place, value in enumerate(node.value):
            _note(yaml, value, (*path, place), lines)


@lru_cache(maxsize=1)
def strict_loader() -> Any:
    """A safe loader, only stricter: where a name stands twice, neither is taken for what was meant.

    A class made by a function, since what it is made from is loaded when it is needed.
    """
    yaml = library()

    class Strict(yaml.SafeLoader):  # type: ignore[name-defined,misc]
        def construct_document(self, node: Any) -> Any:
            if _size(yaml, node, {}) > _MAX_VALUES:
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
            _refuse_twins(yaml, node)
            return super().construct_mapping(node, deep=deep)

    return Strict


def _refuse_twins(yaml: Any, node: Any) -> None:
    seen: Set[str] = set()
    for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if not isinstance(key.value, str):
            continue
        if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
            problem = f"{key.value!r} stands there twice"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        seen.add(key.value)


def _size(yaml: Any, node: Any, known: Dict[int, float]) -> float:
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
        known[id(node)] = 1 + sum(_size(yaml, part, known) for part in parts)
    return known[id(node)]
