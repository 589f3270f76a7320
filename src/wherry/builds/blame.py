"""The resolver's refusal, and the line of the user's file that it is about."""

from __future__ import annotations

import re
from typing import List

from wherry.builds.error import BuildError
from wherry.builds.recipe import Recipe, conda_parts, name_of
from wherry.builds.redacting import without_secrets

_UNREACHABLE = re.compile(r"Failed to fetch: `?(\S+?)`?$", re.MULTILINE)


def unresolved(recipe: Recipe, output: str) -> BuildError:
    explanation = output.strip()
    unreachable = _UNREACHABLE.search(output)
    if unreachable and "No solution found" not in output:
        return BuildError(
            f"the package index did not answer while {recipe.name} was resolved: {unreachable[1]}",
            hint="the target must reach a package index; UV_INDEX_URL names one of your own",
            explanation=explanation,
        )
    guilty = blamed(recipe, output)
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


def shown(recipe: Recipe, requirement: str) -> str:
    """With its place in the file, if that is known."""
    place = recipe.place(requirement)
    return without_secrets(requirement) + (f" ({place})" if place else "")


def blamed(recipe: Recipe, output: str) -> List[str]:
    """The requirements that the explanation speaks of, those quoted whole before all others."""
    asked = [*recipe.pip, *recipe.conda]
    quoted = [each for each in asked if _mentions(output, each.replace(" ", ""))]
    if quoted and "Couldn't parse" in output:
        return quoted
    named = [each for each in asked if _mentions(output, _name(each))]
    return named if len(named) < 4 or not quoted else quoted


def _name(requirement: str) -> str:
    return name_of(requirement) or conda_parts(requirement)[0]


def _mentions(output: str, word: str) -> bool:
    return bool(word) and bool(
        re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-])", output.replace(" ", " "))
    )
