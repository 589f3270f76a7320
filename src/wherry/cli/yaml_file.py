"""A YAML file that someone wrote, with errors that name the line."""

from __future__ import annotations

from typing import Any

import yaml

from ..core.errors import UserErrorException


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


class _Strict(yaml.SafeLoader):
    """Where a name stands twice, neither is taken for what was meant."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            if key.value in seen and key.tag != "tag:yaml.org,2002:merge":
                problem = f"{key.value!r} stands there twice"
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value if isinstance(key.value, str) else id(key))
        return super().construct_mapping(node, deep=deep)
