"""Packages from conda channels, solved and linked by rattler in an environment of its own."""

from __future__ import annotations

import json
import os
import pkgutil
from typing import Any, Dict, List, Sequence

from wherry.builds.blame import blamed, shown
from wherry.builds.cache import Cache, read_json
from wherry.builds.channels import Channel
from wherry.builds.command import run
from wherry.builds.dates import cutoff
from wherry.builds.disk import check_space
from wherry.builds.error import BuildError, BuildStalled
from wherry.builds.recipe import Recipe
from wherry.builds.redacting import without_secrets
from wherry.builds.talk import Talk

# rattler's own environment, made like any other.
TOOL = {
    "name": "rattler",
    "python": {
        "conda": {"dependencies": ["python>=3.10", {"pip": ["py-rattler>=0.28,<0.29"]}]},
    },
}
_SOLVE_S = 300
_SILENT_S = 300.0
Record = Dict[str, Any]


class Conda:
    def __init__(self, python: str, cache: Cache, talk: Talk, recipe: Recipe, work: str) -> None:
        self._python = python
        self._cache = cache
        self._talk = talk
        self._recipe = recipe
        self._work = work

    def solve(self, channels: Sequence[Channel]) -> List[Record]:
        recipe = self._recipe
        python = f"python {_spaced(recipe.python)}".strip()
        request = {
            "act": "solve",
            "channels": [channel.url for channel in channels],
            "specs": [python, *recipe.conda],
            "as_of": cutoff(recipe.as_of) if recipe.as_of else None,
            "repodata": self._cache.path("conda", "repodata"),
            "timeout_s": _SOLVE_S,
        }
        try:
            answer = self._rattle(request)
        except BuildStalled as error:
            raise BuildError(
                f"{recipe.name} could not be resolved from {_names(channels)}: {error}",
                hint="a channel has stopped answering; try again, or set conda.resolver = pypi",
            ) from None
        if "error" in answer:
            raise self._refused(answer, channels)
        records: List[Record] = answer["records"]
        return records

    def install(self, records: Sequence[Record], prefix: str) -> None:
        self._talk.say(f"downloading {len(records)} conda packages")
        answer = self._rattle(
            {
                "act": "install",
                "records": list(records),
                "prefix": prefix,
                "packages": self._cache.path("conda", "packages"),
            }
        )
        if "error" in answer:
            check_space(answer["error"], self._cache)
            raise BuildError(
                f"the conda packages of {self._recipe.name} could not be installed",
                explanation=answer["error"].strip(),
            )

    def _rattle(self, request: Dict[str, Any]) -> Dict[str, Any]:
        asks, answers, script = (
            os.path.join(self._work, name) for name in ("ask.json", "answer.json", "rattling.py")
        )
        with open(asks, "w", encoding="utf-8") as file:
            json.dump(request, file)
        with open(script, "wb") as source:
            source.write(pkgutil.get_data("wherry.builds", "rattling.py") or b"")
        words = [self._python, "-I", script, asks, answers]
        done = run(words, self._talk, heard=self._heard, silent_s=_SILENT_S)
        answer = read_json(answers)
        if answer is None:
            check_space(done.output, self._cache)
            raise BuildError(
                f"rattler ended with exit code {done.code}", explanation=done.output.strip()
            )
        os.unlink(answers)
        return answer

    def _heard(self, line: str) -> None:
        if line.startswith("== "):
            self._talk.say(line[3:], to_log=False)
        elif line.startswith("warning: the link script "):
            self._talk.notice(line.partition(": ")[2])

    def _refused(self, answer: Dict[str, Any], channels: Sequence[Channel]) -> BuildError:
        recipe, text = self._recipe, answer["error"].strip()
        names = _names(channels)
        if answer["kind"] in ("GatewayError", "FetchRepoDataError", "IoError"):
            return BuildError(f"a conda channel of {recipe.name} ({names}) failed: {text}")
        guilty = blamed(recipe, text)
        said = [shown(recipe, each) for each in guilty]
        lines = [recipe.lines[each] for each in guilty if each in recipe.lines]
        return BuildError(
            f"{recipe.name} cannot be resolved from {names}"
            + (f": {', '.join(said)}" if said else ""),
            explanation=text,
            file=recipe.file,
            line=lines[0] if lines else None,
        )


def _names(channels: Sequence[Channel]) -> str:
    return ", ".join(dict.fromkeys(without_secrets(channel.name) for channel in channels))


def _spaced(pin: str) -> str:
    """``=3.8`` for rattler, whatever way it was written: ``3.8`` alone would be exact."""
    return f"={pin}" if pin[:1].isdigit() and not pin.endswith("*") and "," not in pin else pin
