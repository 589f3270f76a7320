"""The resolver's refusal, and the line of the user's file that it is about."""

from __future__ import annotations

import re
from typing import Dict, List, Optional

from wherry.builds.error import BuildError
from wherry.builds.recipe import Recipe, conda_parts, name_of
from wherry.builds.redacting import without_secrets

_UNREACHABLE = re.compile(r"Failed to fetch: `?(\S+?)`?$", re.MULTILINE)
_UNBUILT = re.compile(r"Failed to build `([^`]+)`")
_UNREADABLE = "Couldn't parse requirement"
_WHEEL = re.compile(r"/([A-Za-z0-9_.]+)-[^/]+\.whl")
_LAST_LINES = 15


def unresolved(recipe: Recipe, output: str) -> BuildError:
    broken = unbuilt(recipe, output)
    if broken is not None:
        return broken
    explanation = output.strip()
    unreachable = _UNREACHABLE.search(output)
    if unreachable and "No solution found" not in output:
        return BuildError(
            f"the package index did not answer while {recipe.name} was resolved: {unreachable[1]}",
            hint="the target must reach a package index; UV_INDEX_URL names one of your own",
            explanation=explanation,
        )
    guilty = blamed(recipe, output)
    if guilty and _UNREADABLE in output:
        return BuildError(
            f"{shown(recipe, guilty[0])} in the pip section of {recipe.name} is no requirement",
            hint="write it like pandas or pandas>=2,<3",
            explanation=output[output.index(_UNREADABLE) :].partition("\n")[2].strip("\n"),
            file=recipe.file,
            line=recipe.lines.get(guilty[0]),
        )
    sentence = f"{recipe.name} cannot be resolved"
    if not guilty:
        return BuildError(sentence, explanation=explanation, file=recipe.file)
    said = [shown(recipe, each) for each in guilty]
    lines = [recipe.lines[each] for each in guilty if each in recipe.lines]
    return BuildError(
        f"{sentence}: {', '.join(said)}",
        explanation=explanation,
        file=recipe.file,
        line=lines[0] if lines else None,
    )


def uninstalled(recipe: Recipe, output: str) -> BuildError:
    return unbuilt(recipe, output) or BuildError(
        f"the packages of {recipe.name} could not be installed", explanation=output.strip()
    )


def unbuilt(recipe: Recipe, output: str) -> Optional[BuildError]:
    """Of a package that comes as source, what a compiler printed is long; its end says why."""
    found = _UNBUILT.search(output)
    if not found:
        return None
    package = found[1]
    name = name_of(package)
    guilty = [each for each, known in _asked(recipe).items() if known == name]
    place = recipe.place(guilty[0]) if guilty else ""
    return BuildError(
        f"{recipe.name} needs {package}" + (f" ({place})" if place else "") + ", for which there is"
        " no wheel here, and it could not be built from its source",
        hint="another version may have a wheel for this Python, or this version for another Python",
        explanation=_ends(output[found.start() :]),
        file=recipe.file,
        line=recipe.lines.get(guilty[0]) if guilty else None,
    )


def _ends(output: str) -> str:
    lines = [line for line in output.splitlines() if line.strip()]
    printed = next((at for at, line in enumerate(lines) if line.strip() == "[stdout]"), len(lines))
    first = min(printed, _LAST_LINES)
    if len(lines) <= first + _LAST_LINES:
        return "\n".join(lines)
    return "\n".join([*lines[:first], "  ...", *lines[-_LAST_LINES:]])


def shown(recipe: Recipe, requirement: str) -> str:
    """With its place in the file, if that is known."""
    place = recipe.place(requirement)
    return without_secrets(requirement) + (f" ({place})" if place else "")


def blamed(recipe: Recipe, output: str) -> List[str]:
    """The requirements that the explanation speaks of, those quoted whole before all others."""
    asked = _asked(recipe)
    quoted = [each for each in asked if _mentions(output, each.replace(" ", ""))]
    if quoted and _UNREADABLE in output:
        return quoted
    named = [each for each, name in asked.items() if _mentions(output, name)]
    return named if len(named) < 4 or not quoted else quoted


def _asked(recipe: Recipe) -> Dict[str, str]:
    """Each requirement with its package's name, which a wheel's address ends with."""
    pip = {each: name_of(each) or _wheel_name(each) for each in recipe.pip}
    return {**{each: conda_parts(each)[0] for each in recipe.conda}, **pip}


def _wheel_name(address: str) -> str:
    found = _WHEEL.search(address)
    return name_of(found[1]) if found else ""


def _mentions(output: str, word: str) -> bool:
    return bool(word) and bool(
        re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", output.replace(" ", " "))
    )
