"""Conda packages, solved and linked by rattler from a channel that the test builds."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.builds.channel import CondaChannel
from tests.builds.index import Index
from tests.builds.test_pypi import run_in, versions
from tests.builds.test_wheels import Shelf
from wherry.builds import BuildError, channels, conda, prepare
from wherry.builds.conda_names import requirement


def spec(*dependencies: Any, channel: str = "", **more: Any) -> dict[str, Any]:
    described = {"channels": [channel] if channel else [], "dependencies": list(dependencies)}
    return {"name": "conda", "python": {"conda": described, **more}}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One for all of these, so that rattler itself is fetched once."""
    return str(tmp_path_factory.mktemp("conda") / "root")


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> CondaChannel:
    made = CondaChannel(tmp_path_factory.mktemp("channel"))
    made.add_python()
    made.add_module("wherry-nowhere", "1.2", "VALUE = 12\n")
    made.add_module("wherry-nowhere", "1.10", "VALUE = 110\n", depends=["wherry-below >=1"])
    made.add_module("wherry-nowhere", "2.0", "VALUE = 200\n")
    made.add_module("wherry-below", "1.0", "VALUE = 1\n")
    script = b'export WHERRY_SET="$CONDA_PREFIX/share"; export PATH="/odd:$PATH"'
    files = {
        "etc/conda/activate.d/set.sh": script,
        "etc/conda/env_vars.d/set.json": b'{"WHERRY_ALSO": "1"}',
    }
    made.add("wherry-sets", "1.0", files)
    linked = b'#!/bin/sh\necho "$PKG_NAME $PKG_VERSION" >"$PREFIX/linked"\n'
    made.add("wherry-links", "1.0", {"bin/.wherry-links-post-link.sh": linked})
    made.add("wherry-breaks", "1.0", {"bin/.wherry-breaks-post-link.sh": b"#!/bin/sh\nexit 3\n"})
    return made


def test_a_channel_with_a_python_of_its_own(channel: CondaChannel, root: str) -> None:
    said: list[str] = []
    wanted = spec(
        "python=3", "wherry-nowhere=1", {"pip": ["six==1.16.0", "azureml-defaults"]},
        channel=channel.url,
    )  # fmt: skip
    made = prepare(wanted, root, progress=said.append)
    code = "import sys, six, wherry_nowhere as w; print(w.VALUE, six.__version__, sys.base_prefix)"
    assert run_in(made, code) == f"110 1.16.0 {made.prefix}"
    assert made.variables["CONDA_PREFIX"] == made.prefix
    assert made.lock is not None
    records = {each["name"]: each for each in made.lock["conda"]}
    assert set(records) == {"python", "wherry-nowhere", "wherry-below"}
    assert records["wherry-nowhere"]["version"] == "1.10"
    assert records["wherry-nowhere"]["url"].startswith(channel.url)
    assert len(records["wherry-nowhere"]["sha256"]) == 64
    assert versions(made) == {"six": "1.16.0"}
    assert len(made.notices) == 1
    assert {"downloading 3 of 3", "linking 3 of 3", "ready"} <= set(said)
    assert not prepare(wanted, root).built


def test_a_lock_of_conda_packages_is_built_exactly(channel: CondaChannel, root: str) -> None:
    pinned = spec("python=3", "wherry-nowhere=1.2", {"pip": ["six"]}, channel=channel.url)
    lock = prepare(pinned, root).lock
    again = prepare({"python": {"lock": lock}}, root)
    assert again.built
    assert again.lock == lock
    assert run_in(again, "import six, wherry_nowhere as w; print(w.VALUE)") == "12"


def test_the_pip_section_keeps_what_conda_brought(
    channel: CondaChannel, root: str, index: Index
) -> None:
    index.add("onlypip", "1.0", "wherry-below")
    index.add("wherry_below", "9.0", source="VALUE = 'from pip'")
    wanted = spec(
        "python=3", "wherry-below", {"pip": [f"--index-url {index.url}/simple", "onlypip"]},
        channel=channel.url,
    )  # fmt: skip
    made = prepare(wanted, root)
    assert run_in(made, "import onlypip, wherry_below; print(wherry_below.VALUE)") == "1"
    assert versions(made) == {"onlypip": "1.0"}
    assert made.notices == []


def test_the_pip_section_may_have_a_wheel_of_the_workspace(
    channel: CondaChannel, root: str
) -> None:
    shelf = Shelf()
    mine = shelf.add("mine", "1.0", source="WORD = 'kept'")
    wanted = spec("python=3", "wherry-below", {"pip": [mine]}, channel=channel.url)
    made = prepare(wanted, root, fetch=shelf.fetch)
    assert run_in(made, "import mine, wherry_below; print(mine.WORD)") == "kept"
    assert made.lock is not None
    assert made.lock["pypi"][0]["url"] == mine
    assert root not in made.lock["pylock"]


def test_packages_may_set_variables(channel: CondaChannel, root: str) -> None:
    made = prepare(spec("python=3", "wherry-sets", channel=channel.url), root)
    assert made.variables["WHERRY_SET"] == f"{made.prefix}/share"
    assert made.variables["WHERRY_ALSO"] == "1"
    assert made.variables["PATH"].startswith(f"{made.prefix}/bin:")


def test_a_token_of_a_channel_is_not_told(silent: str, root: str) -> None:
    channel = silent.replace("/quiet", "/t/secret/quiet")
    with pytest.raises(BuildError, match="does not answer") as caught:
        prepare(spec("six", channel=channel, resolver="rattler"), root)
    assert "secret" not in caught.value.text()
    assert "secret" not in str(prepare(spec("six", channel=channel), root))


def test_what_no_channel_has_is_refused_with_its_line(channel: CondaChannel, root: str) -> None:
    wanted = spec(
        "python=3", "wherry-nowhere=7", channel=channel.url, lines={"wherry-nowhere=7": 5},
        file="conda.yml",
    )  # fmt: skip
    with pytest.raises(BuildError, match=r"wherry-nowhere=7 \(conda.yml, line 5\)") as caught:
        prepare(wanted, root)
    assert caught.value.line == 5
    assert "wherry-nowhere" in caught.value.explanation


def test_a_channel_as_it_was(channel: CondaChannel, root: str) -> None:
    with pytest.raises(BuildError, match="cannot be resolved"):
        prepare(spec("python=3", "wherry-nowhere", channel=channel.url, as_of="2020-05-01"), root)
    later = spec("python=3", "wherry-nowhere", channel=channel.url, as_of="2020-10-01")
    assert prepare(later, root).lock is not None


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An address that accepts and never answers."""
    monkeypatch.setattr(channels, "ANSWER_S", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/quiet"


def test_a_channel_that_does_not_answer_is_named(silent: str, root: str) -> None:
    with pytest.raises(BuildError, match=rf"{silent}: no answer within") as caught:
        prepare(spec("six", channel=silent, resolver="rattler"), root)
    assert "conda.resolver" in str(caught.value.hint)


class _Stalling(BaseHTTPRequestHandler):
    """Begins to answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        self.wfile.write(b"{")
        self.wfile.flush()
        self.server.stopping.wait(60)  # type: ignore[attr-defined]

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing."""


def test_a_channel_that_stops_answering_is_named(
    root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conda, "_SILENT_S", 2.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Stalling)
    server.daemon_threads = True
    server.stopping = threading.Event()  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    channel = f"http://127.0.0.1:{server.server_address[1]}/stalls"
    try:
        with pytest.raises(BuildError, match=rf"from {channel}: .* said nothing for 2 seconds"):
            prepare(spec("six", channel=channel), root)
    finally:
        server.stopping.set()  # type: ignore[attr-defined]
        server.shutdown()
        server.server_close()


def test_where_no_channel_answers_pypi_does(silent: str, root: str) -> None:
    found = prepare(spec("six=1.16", channel=silent), root)
    assert versions(found) == {"six": "1.16.0"}
    assert "packages come from PyPI, as no conda channel answers" in found.notices[0]
    assert silent in found.notices[0]


def test_a_folder_that_is_no_channel_is_named(tmp_path: Path, root: str) -> None:
    with pytest.raises(BuildError, match="does not answer"):
        prepare(spec("six", channel=tmp_path.as_uri(), resolver="rattler"), root)


def test_what_exists_only_in_conda_is_named(root: str) -> None:
    wanted = spec("six", "cudatoolkit=10.1", "r-base", resolver="pypi", lines={"r-base": 4})
    with pytest.raises(BuildError, match=r"cudatoolkit=10.1, r-base \(line 4\) of environment"):
        prepare(wanted, root)


def test_all_that_pypi_does_not_have_are_named(root: str) -> None:
    wanted = spec("six", "wherry-nowhere=1", "wherry-below", resolver="pypi")
    with pytest.raises(BuildError, match=r"^wherry-nowhere=1, wherry-below of environment"):
        prepare(wanted, root)


def test_only_python_and_pip_need_no_channel(root: str, silent: str) -> None:
    found = prepare(spec("python", "pip", {"pip": ["six"]}, channel=silent), root)
    assert found.notices == []
    subprocess.run([found.interpreter, "-m", "pip", "--version"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("word", "pypi"),
    [
        ("scikit-learn=1.5", "scikit-learn==1.5.*"),
        ("scikit-learn", "scikit-learn"),
        ("conda-forge::numpy==1.26.4", "numpy==1.26.4"),
        ("numpy=1.26.4=py311h64a7726_0", "numpy==1.26.4"),
        ("numpy 1.26.*", "numpy==1.26.*"),
        ("pandas>=1,<2", "pandas>=1,<2"),
        ("pytorch=1.5", "torch==1.5.*"),
        ("matplotlib-base", "matplotlib"),
        ("py-xgboost>=0.90", "xgboost>=0.90"),
    ],
)
def test_conda_words_in_the_words_of_pypi(word: str, pypi: str) -> None:
    assert requirement(word) == pypi


def test_link_scripts_run_as_conda_runs_them(channel: CondaChannel, root: str) -> None:
    made = prepare(spec("python=3", "wherry-links", "wherry-breaks", channel=channel.url), root)
    assert (Path(str(made.prefix)) / "linked").read_text() == "wherry-links 1.0\n"
    assert [each for each in made.notices if "wherry-breaks" in each and "failed" in each]
