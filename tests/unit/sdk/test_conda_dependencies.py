from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from wherry import CondaDependencies, UserErrorException
from wherry.core.requirements import conda_problem, pip_problem
from wherry.sdk.conda_dependencies import _scalar

HERE = f"python={sys.version_info[0]}.{sys.version_info[1]}"


def test_the_file_as_azure_ml_orders_it() -> None:
    packages = CondaDependencies.create(
        conda_packages=["scikit-learn"],
        pip_packages=["tqdm>=4"],
        python_version="3.11",
        pip_indexurl="https://example.org/simple",
    )
    packages.add_channel("defaults")
    assert packages.serialize_to_string() == (
        "name: project_environment\n"
        "dependencies:\n"
        "- python=3.11\n"
        "- pip:\n"
        "  - --index-url https://example.org/simple\n"
        "  - azureml-defaults\n"
        "  - tqdm>=4\n"
        "- scikit-learn\n"
        "channels:\n"
        "- anaconda\n"
        "- conda-forge\n"
        "- defaults\n"
    )


def test_without_a_version_the_python_that_runs_here() -> None:
    packages = CondaDependencies()
    assert packages.conda_packages == [HERE]
    assert packages.pip_packages == ["azureml-defaults"]
    assert packages.get_python_version() == HERE[len("python=") :]


def test_what_is_named_again_is_replaced() -> None:
    packages = CondaDependencies.create(conda_packages=["numpy=1.20"], pip_packages=["Pandas<2"])
    packages.add_conda_package("conda-forge::numpy=1.26")
    packages.add_pip_package("pandas>=2")
    packages.set_python_version("3.9")
    assert packages.conda_packages == ["python=3.9", "conda-forge::numpy=1.26"]
    assert packages.pip_packages == ["azureml-defaults", "pandas>=2"]


def test_taking_away() -> None:
    packages = CondaDependencies.create(conda_packages=["numpy=1.20"], pip_packages=["a==1"])
    packages.remove_conda_package("numpy")
    packages.remove_pip_package("azureml-defaults")
    packages.remove_pip_package("nosuch")
    packages.remove_channel("anaconda")
    assert packages.conda_packages == [HERE]
    assert packages.pip_packages == ["a==1"]
    assert packages.conda_channels == ["conda-forge"]


def test_options_of_pip() -> None:
    packages = CondaDependencies()
    packages.set_pip_index_url("https://one")
    packages.set_pip_option("--extra-index-url https://two")
    packages.set_pip_option("--extra-index-url https://three")
    packages.set_pip_index_url("--index-url https://four")
    assert packages.pip_options == [
        "--extra-index-url https://two",
        "--extra-index-url https://three",
        "--index-url https://four",
    ]
    packages.remove_pip_option("--extra-index-url https://two")
    assert len(packages.pip_options) == 2
    packages.remove_pip_option("--index-url")
    assert packages.pip_options == ["--extra-index-url https://three"]
    packages.set_pip_requirements(["b", "c"])
    assert packages.pip_packages == ["b", "c"]
    assert packages.pip_options == ["--extra-index-url https://three"]


def test_tensorflow() -> None:
    packages = CondaDependencies()
    packages.add_tensorflow_pip_package("cpu", "2.16.1")
    packages.add_tensorflow_conda_package("gpu")
    assert "tensorflow==2.16.1" in packages.pip_packages
    assert "tensorflow-gpu" in packages.conda_packages
    packages.remove_tensorflow_pip_package()
    packages.remove_tensorflow_conda_package("gpu")
    assert packages == CondaDependencies()
    with pytest.raises(UserErrorException, match="core_type is 'tpu'"):
        packages.add_tensorflow_pip_package("tpu")


def test_requirements_are_merged_by_name() -> None:
    lines = ["pandas>=1", "numpy", "Pandas<3", "pandas>=1"]
    assert CondaDependencies.merge_requirements(lines) == ["pandas>=1,<3", "numpy"]


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda p: p.add_pip_package("pandas=1"), "'pandas=1' is no pip requirement"),
        (lambda p: p.add_conda_package("--pre"), "an option of pip"),
        (lambda p: p.add_channel(""), "'' is no channel"),
        (lambda p: p.set_pip_option("pre"), "'pre' is no option of pip"),
        (lambda p: p.set_pip_requirements("pandas"), "is 'pandas', not a list"),
        (lambda p: CondaDependencies.create(conda_packages="numpy"), "is 'numpy', not a list"),
    ],
)
def test_mistakes(act: Any, said: str) -> None:
    packages = CondaDependencies()
    with pytest.raises(UserErrorException, match=said):
        act(packages)
    assert packages == CondaDependencies()


def test_a_file_comes_back(tmp_path: Path) -> None:
    packages = CondaDependencies.create(conda_packages=["numpy=1.26"], pip_packages=["a>=1"])
    where = packages.save_to_file(tmp_path, "mine.yml")
    assert CondaDependencies(where) == packages
    packages.save(tmp_path)
    assert CondaDependencies(tmp_path / "conda_dependencies.yml") == packages


def test_a_file_from_2020_with_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "env.yml"
    path.write_text(
        "name: old\n"
        "as_of: 2020-05-01\n"
        "channels: [conda-forge]\n"
        "dependencies:\n"
        "  # the interpreter\n"
        "  - python=3.6.2\n"
        "  - scikit-learn\n"
        "  - pip:\n"
        "      - azureml-defaults\n"
        "      - pandas==0.25\n"
        "prefix: /home/somebody/envs/old\n"
    )
    spec = CondaDependencies(path).to_spec()
    assert spec["conda"]["as_of"] == "2020-05-01"
    assert spec["file"] == str(path)
    assert spec["lines"] == {
        "python=3.6.2": 6,
        "scikit-learn": 7,
        "azureml-defaults": 9,
        "pandas==0.25": 10,
    }
    packages = CondaDependencies(path)
    packages.save(tmp_path / "again.yml")
    assert CondaDependencies(tmp_path / "again.yml").as_dict() == packages.as_dict()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- numpy\n", "env.yml is no conda file"),
        ("dependencies: numpy\n", "env.yml: .*dependencies is 'numpy', not a list"),
        ("dependencies:\n- numpy\n- a: [\n", "env.yml, line 4, cannot be read"),
        ("dependencies:\n- pip:\n  - a=1\n", "env.yml, line 3: 'a=1' is no pip requirement"),
        ("dependencies:\n- numpy\n- '--pre'\n", "env.yml, line 3: '--pre' is an option of pip"),
        ("dependency: []\n", "a field 'dependency', .*did you mean 'dependencies'"),
        ("name: a\nname: b\n", "line 2, cannot be read: 'name' stands there twice"),
    ],
)
def test_files_that_are_none(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "env.yml"
    path.write_text(text)
    with pytest.raises(UserErrorException, match=said):
        CondaDependencies(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="there is no file"):
        CondaDependencies(tmp_path / "none.yml")
    with pytest.raises(UserErrorException, match="is a folder"):
        CondaDependencies(tmp_path)


def test_without_pyyaml_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "env.yml").write_text("name: a\n")
    with pytest.raises(UserErrorException, match="need the package PyYAML"):
        CondaDependencies(tmp_path / "env.yml")
    CondaDependencies().save(tmp_path / "written.yml")


LINES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12) | (
    st.from_regex(r"[a-z0-9-]+([=<>~]{1,2}[0-9.*]+)?( ?[;#:] ?.{0,4})?", fullmatch=True)
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(LINES, max_size=4), st.lists(LINES, max_size=4), LINES)
def test_what_is_written_is_read_back(conda: list[str], pip: list[str], channel: str) -> None:
    fields = {
        "name": "n",
        "dependencies": [
            *(line.strip() for line in conda if conda_problem(line) is None),
            {"pip": [line.strip() for line in pip if pip_problem(line) is None]},
        ],
        "channels": [channel],
    }
    text = CondaDependencies(_underlying_structure=fields).serialize_to_string()
    read = yaml.safe_load(text)
    if not fields["dependencies"][-1]["pip"]:  # type: ignore[index]
        fields["dependencies"].pop()  # type: ignore[attr-defined]
    assert read == fields


@pytest.mark.parametrize(
    ("line", "written"),
    [
        ("numpy>=1.0,<2", "numpy>=1.0,<2"),
        ("conda-forge::scipy>=1", "conda-forge::scipy>=1"),
        ("git+https://x/b.git@v1#egg=b", "git+https://x/b.git@v1#egg=b"),
        ("--extra-index-url https://x/simple", "--extra-index-url https://x/simple"),
        ("a>=1; python_version < '3.9'", "a>=1; python_version < '3.9'"),
        ("pytorch=1.*=*cuda*", "pytorch=1.*=*cuda*"),
        ("on", "'on'"),
        ("3to2", "'3to2'"),
        ("a # b", "'a # b'"),
    ],
)
def test_lines_are_quoted_only_where_they_must_be(line: str, written: str) -> None:
    assert _scalar(line) == written
    assert yaml.safe_load(f"- {written}") == [line]


def test_the_whole_text() -> None:
    packages = CondaDependencies.create(
        pip_indexurl="https://x/simple",
        pip_packages=["pandas", "tqdm==4.1"],
        conda_packages=["scikit-learn", "numpy=1.26"],
        python_version="3.8",
    )
    packages.add_channel("bioconda")
    assert packages.serialize_to_string() == (
        "name: project_environment\n"
        "dependencies:\n"
        "- python=3.8\n"
        "- pip:\n"
        "  - --index-url https://x/simple\n"
        "  - azureml-defaults\n"
        "  - pandas\n"
        "  - tqdm==4.1\n"
        "- scikit-learn\n"
        "- numpy=1.26\n"
        "channels:\n"
        "- anaconda\n"
        "- conda-forge\n"
        "- bioconda\n"
    )


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda each: each.set_python_version(None), "None is no version of Python"),
        (lambda each: each.set_python_version("abc def"), "'abc def' is no version of Python"),
        (lambda each: each.remove_conda_package(None), "None is not text"),
        (lambda each: each.remove_pip_package(3), "3 is not text"),
        (lambda each: each.remove_pip_option(None), "None is not text"),
        (lambda each: each.add_conda_package(None), "None is not text"),
    ],
)
def test_words_that_are_none(act: Any, said: str) -> None:
    packages = CondaDependencies()
    with pytest.raises(UserErrorException, match=said):
        act(packages)
    assert packages == CondaDependencies()
