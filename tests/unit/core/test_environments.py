"""What an environment may say, and when two of them are the same."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry.core.environments import (
    check_version,
    content_hash,
    fingerprint_text,
    parse,
)
from wherry.core.errors import UserErrorException
from wherry.core.requirements import conda_name, conda_problem, pip_name, pip_problem

CONDA = {
    "name": "train",
    "channels": ["conda-forge"],
    "dependencies": ["python=3.11", "numpy=1.26", {"pip": ["pandas>=2", "tqdm"]}],
}


def spec(**python: Any) -> dict[str, Any]:
    return parse({"python": {"conda": copy.deepcopy(CONDA), **python}})


def test_a_specification_says_what_it_was_told_and_nothing_else() -> None:
    assert spec() == {"python": {"conda": CONDA, "user_managed": False}}
    assert parse({}) == {"python": {"user_managed": True}}
    assert parse({"python": None, "docker": None}) == {"python": {"user_managed": True}}


def test_kinds() -> None:
    assert parse({"python": {"interpreter": "/opt/python"}})["python"]["user_managed"]
    assert not spec()["python"]["user_managed"]
    image = parse({"docker": {"enabled": True, "image": "python:3.11"}})
    assert image["python"]["user_managed"]


@pytest.mark.parametrize(
    "image",
    ["python:3.11", "sha256:" + "a" * 64, "localhost:5000/a_b/c.d@sha256:" + "b" * 64, "A/b__c-d"],
)
def test_names_of_images(image: str) -> None:
    assert parse({"docker": {"enabled": True, "image": image}})["docker"]["image"] == image


@pytest.mark.parametrize(
    "image",
    ["../../info?x=", "a/../b", "a//b", "a b", "-a", "a\r\nHost: b", "\xfc", "a" * 3000, "$(a)",
     "http://a/b", "a#b", "a:", "/a", "a?all=1", "a%2e", "me:geheim@b c"],
)  # fmt: skip
def test_what_means_something_else_to_an_engine_is_no_image(image: str) -> None:
    for docker in ({"image": image}, {"image": "a", "registry": {"address": f"{image}?"}}):
        with pytest.raises(UserErrorException, match=r"no name of an image|no registry's address"):
            parse({"docker": {"enabled": True, **docker}})


def test_a_refusal_is_short_and_lets_nobody_in() -> None:
    for line in ("https://me:geheim@host/x", "::" * 100_000 + "!"):
        with pytest.raises(UserErrorException, match=r"is no conda package|…") as caught:
            parse({"python": {"conda": {"dependencies": [line]}}})
        assert "geheim" not in str(caught.value)
        assert len(str(caught.value)) < 1200


def test_a_date_may_stand_in_the_conda_file() -> None:
    found = parse({"python": {"conda": {**CONDA, "as_of": "2020-05-01", "prefix": "/x"}}})
    assert found["python"]["as_of"] == "2020-05-01"
    assert found["python"]["conda"] == CONDA


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ([], "has no fields"),
        ({"pyton": {}}, "a field 'pyton', .* did you mean 'python'"),
        ({"python": 3}, "python is 3 and has no fields"),
        ({"python": {"conda": "numpy"}}, "python.conda is 'numpy'"),
        ({"python": {"conda": {"dependencies": "numpy"}}}, "dependencies is 'numpy', not a list"),
        ({"python": {"conda": {"dependencies": [3]}}}, "3 is not text"),
        ({"python": {"conda": {"dependencies": ["--pre"]}}}, "an option of pip among the conda"),
        ({"python": {"conda": {"dependencies": [{"npm": []}]}}}, "a section 'npm'"),
        ({"python": {"conda": {"dependencies": [{"pip": "x"}]}}}, "is 'x', not a list"),
        ({"python": {"conda": {"dependencies": [{"pip": []}, {"pip": []}]}}}, "two pip sections"),
        ({"python": {"conda": {"dependencies": [{"pip": ["a b"]}]}}}, "'a b' is no pip"),
        ({"python": {"conda": {"variables": {}}}}, "has a field 'variables'"),
        ({"python": {"as_of": "yesterday"}}, "python.as_of is 'yesterday', not a date"),
        ({"python": {"as_of": "2020-02-31"}}, "not a date"),
        ({"python": {"strict": "yes"}}, "python.strict is 'yes'"),
        ({"python": {"resolver": "ratler"}}, "did you mean 'rattler'"),
        ({"docker": {"enabled": True}}, "asks for a container, but names no image"),
        ({"docker": {"image": "a", "dockerfile": "FROM b"}}, "both an image 'a' and a Dockerfile"),
        ({"docker": {"shm_size": "lots"}}, "docker.shm_size is 'lots', not a size"),
        ({"docker": {"arguments": [1]}}, "docker.arguments is 1, not text"),
        ({"variables": {"A=secret": "1"}}, "an entry 'A' that"),
        ({"variables": {"A": ["x"]}}, "an entry 'A' that"),
        ({"version": "latest"}, "'latest' is no version"),
        ({"version": "a b"}, "'a b' is no version"),
        ({"name": "a\0"}, "cannot be kept as text"),
        ({"spark": {"a": float("nan")}}, "nan is no number"),
        ({"spark": {"a": 2**70}}, "too large"),
        ({"spark": {1: 2}}, "the name 1 is not text"),
        ({"spark": {"a": object}}, "is not text, a number"),
        ({"spark": {"a": "x" * 5_000_000}}, "more than 4194304"),
    ],
)
def test_what_cannot_be_is_a_sentence(fields: Any, said: str) -> None:
    with pytest.raises(UserErrorException, match=said) as caught:
        parse(fields, "environment 'e'")
    assert caught.value.hint


def test_a_sentence_names_the_line() -> None:
    python = {
        "conda": {"dependencies": ["numpy", {"pip": ["pandas=1.0"]}]},
        "file": "conda.yml",
        "lines": {"numpy": 3, "pandas=1.0": 5},
    }
    with pytest.raises(UserErrorException, match=r"^conda.yml, line 5: 'pandas=1.0'") as caught:
        parse({"python": python})
    assert caught.value.hint == "pip pins with two equals signs: pandas==1.0"
    found = spec(file="conda.yml", lines={"tqdm": 9})
    assert (found["python"]["file"], found["python"]["lines"]) == ("conda.yml", {"tqdm": 9})


def test_the_hash_is_that_of_what_gets_installed() -> None:
    same = parse(
        {
            "name": "other",
            "version": "7",
            "variables": {"A": "1"},
            "python": {
                "file": "x.yml",
                "lines": {"tqdm": 1},
                "resolver": "auto",
                "conda": {
                    "name": "else",
                    "channels": ["conda-forge"],
                    "dependencies": [{"pip": ["tqdm", "pandas>=2 "]}, "numpy=1.26", "python=3.11"],
                },
            },
        }
    )
    assert content_hash(same) == content_hash(spec())
    assert fingerprint_text(same) != fingerprint_text(spec())
    assert len(content_hash(spec())) == 64


@pytest.mark.parametrize(
    "other",
    [
        {"python": {"conda": {**CONDA, "channels": ["defaults"]}}},
        {"python": {"conda": {**CONDA, "dependencies": ["python=3.11"]}}},
        {"python": {"conda": CONDA, "as_of": "2020-05-01"}},
        {"python": {"conda": CONDA, "resolver": "pypi"}},
        {"python": {"conda": CONDA, "lock": {"packages": []}, "user_managed": False}},
        {"python": {"conda": CONDA}, "docker": {"enabled": True, "image": "x"}},
        {"python": {"interpreter": "/opt/python"}},
    ],
)
def test_what_changes_the_installation_changes_the_hash(other: Any) -> None:
    assert content_hash(parse(other)) != content_hash(spec()) or "lock" in other["python"]


def test_a_password_and_what_only_running_needs_are_not_in_the_hash() -> None:
    def hashed(**docker: Any) -> str:
        return content_hash(parse({"docker": {"enabled": True, "image": "x", **docker}}))

    plain = hashed()
    assert hashed(shm_size="4g", arguments=["--init"], gpus="all") == plain
    named = hashed(registry={"address": "r.io", "username": "u", "password": "p"})
    assert named == hashed(registry={"address": "r.io", "password": "other"})
    assert named != plain


@pytest.mark.parametrize("version", ["1", 3, "2024-01-31", "v1.2_b"])
def test_versions(version: Any) -> None:
    assert check_version(version) == str(version)


@pytest.mark.parametrize(
    "line",
    [
        "numpy",
        "numpy=1.26",
        "numpy==1.26.*",
        "numpy 1.26.*",
        "numpy>=1.1,<2",
        "conda-forge::numpy=1",
        "numpy=1.26=py311_0",
        "python=3.8",
        "_libgcc_mutex",
        "numpy[version='>=1']",
    ],
)
def test_conda_packages(line: str) -> None:
    assert conda_problem(line) is None


@pytest.mark.parametrize(
    "line",
    [
        "pandas",
        "pandas>=1, <2",
        "pandas[parquet]==2.0 ; python_version > '3.8'",
        "pkg @ https://example.org/pkg.whl",
        "git+https://github.com/a/b@main#egg=b",
        "./local",
        "-e .",
        "--extra-index-url https://example.org/simple",
        "a==1.0 --hash=sha256:00",
        "azureml-defaults~=1.0",
        "a (>=1)",
    ],
)
def test_pip_requirements(line: str) -> None:
    assert pip_problem(line) is None


@pytest.mark.parametrize("line", ["a b", "a=1", "=1", "", "  ", "a\nb", None, 3, "a==1\r"])
def test_lines_that_are_no_pip_requirement(line: Any) -> None:
    assert pip_problem(line) is not None


def test_names_of_packages() -> None:
    assert conda_name("conda-forge::NumPy >=1") == "numpy"
    assert pip_name("Scikit_Learn[x]>=1") == "scikit-learn"


ANY = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["numpy", "a=1", "2020-05-01", "auto"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["python", "conda", "dependencies", "pip", "docker", "image", "lines", "registry"]
            )
            | st.text(max_size=3),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(ANY)
def test_anything_is_a_specification_or_a_sentence(fields: Any) -> None:
    try:
        found = parse(fields)
    except UserErrorException:
        return
    assert parse(found) == found
    assert content_hash(found) == content_hash(parse(found))
