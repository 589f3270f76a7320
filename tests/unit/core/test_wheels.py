from __future__ import annotations

from typing import Any

import pytest

from wherry import CondaDependencies, UserErrorException
from wherry.core import environments, wheels
from wherry.core.requirements import pip_problem

DIGEST = "a1" * 32
NAME = "mine-1.0-py3-none-any.whl"
ADDRESS = f"wherry://wheels/{DIGEST}/{NAME}"


@pytest.mark.parametrize(
    "name",
    [
        NAME,
        "my_project-1!2.0rc1.post2+cu118-1build-cp311.py3-none-manylinux_2_17_x86_64.linux.whl",
        "A.b_c-0-py2.py3-none-any.whl",
    ],
)
def test_names_of_wheels(name: str) -> None:
    assert wheels.check_name(name) == name
    address = wheels.Wheel(DIGEST, name).address
    assert pip_problem(address) is None
    assert wheels.wheels_of(asking(address)) == {wheels.Wheel(DIGEST, name)}


@pytest.mark.parametrize(
    "name",
    ["mine.whl", "mine-1.0.tar.gz", "mine-1.0-py3-none-any.WHL", "mine-1.0-py3-none-any.whl\n",
     "../mine-1.0-py3-none-any.whl", "a/mine-1.0-py3-none-any.whl", "-1.0-py3-none-any.whl",
     "mine-one-py3-none-any.whl", "möwe-1.0-py3-none-any.whl", "m i-1.0-py3-none-any.whl", "",
     f"{'m' * 250}-1.0-py3-none-any.whl", None],
)  # fmt: skip
def test_names_that_are_none(name: Any) -> None:
    with pytest.raises(UserErrorException, match=r"not the name of a wheel|more than 255"):
        wheels.check_name(name)


def asking(*pip: str, **python: Any) -> dict[str, Any]:
    conda = {"dependencies": ["python=3.11", {"pip": list(pip)}]}
    return environments.parse({"python": {"conda": conda, **python}})


def test_an_environment_asks_for_them_in_lines_and_in_its_lock() -> None:
    other = f"wherry://wheels/{'b2' * 32}/{NAME}"
    assert wheels.wheels_of(asking("pandas", f"mine[fast] @ {other} ; python_version > '3'")) == {
        wheels.Wheel("b2" * 32, NAME)
    }
    locked = {"python": {"lock": {"pylock": f'archive = {{ url = "{ADDRESS}", hashes = 1 }}'}}}
    assert wheels.wheels_of(locked) == {wheels.Wheel(DIGEST, NAME)}
    nothings: list[Any] = [None, {}, {"python": None}, {"python": {"lock": None}}, {"docker": {}}]
    for nothing in nothings:
        assert wheels.wheels_of(nothing) == set()


@pytest.mark.parametrize(
    "line",
    [
        "wherry://wheels/123/mine-1.0-py3-none-any.whl",
        f"wherry://wheels/{DIGEST}/mine.whl",
        f"wherry://wheels/{DIGEST}/../../x/{NAME}",
        f"mine @ wherry://wheels/{DIGEST.upper()}/{NAME}",
        f"--find-links wherry://wheels/{DIGEST}",
        f"{ADDRESS}?token=x",
        f"{ADDRESS} wherry://other",
    ],
)
def test_addresses_that_are_none_are_refused_where_they_are_written(line: str) -> None:
    with pytest.raises(UserErrorException, match="under which no workspace keeps a wheel"):
        CondaDependencies.create(pip_packages=[line])
    with pytest.raises(UserErrorException, match="under which no workspace keeps a wheel"):
        asking(line)


def test_the_content_counts() -> None:
    other = ADDRESS.replace("a1", "b2")
    hashes = {environments.content_hash(asking(each)) for each in (ADDRESS, ADDRESS, other)}
    assert len(hashes) == 2
