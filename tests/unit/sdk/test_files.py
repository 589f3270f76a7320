from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from wherry import Experiment, NotFoundError, Run, UserErrorException
from wherry.sdk.files import place_below

from .fake_server import FakeServer


@pytest.fixture
def run(experiment: Experiment, fake: FakeServer) -> Run:
    record = fake.new_run("lab", {"experiment": "churn"}, status="Running")
    return experiment.workspace.get_run(record["id"])


def test_a_file_goes_there_and_back(run: Run, tmp_path: Path) -> None:
    source = tmp_path / "größe #1 ?.bin"
    source.write_bytes(bytes(range(256)) * 1000)
    run.upload_file("outputs/größe #1 ?.bin", source)
    assert run.get_file_names() == ["outputs/größe #1 ?.bin"]
    run.download_file("outputs/größe #1 ?.bin", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == source.read_bytes()
    run.download_file("outputs/größe #1 ?.bin")
    assert (tmp_path / "größe #1 ?.bin").stat().st_size == 256_000


def test_streams_of_bytes_and_text(run: Run, fake: FakeServer) -> None:
    run.upload_file("a", io.BytesIO(b"bytes"))
    run.upload_file("./b", io.StringIO("täxt"))
    assert fake.files[run.id] == {"a": b"bytes", "b": "täxt".encode()}


def test_an_empty_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    run.upload_file("empty", tmp_path / "empty")
    run.download_file("empty", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == b""


def test_several_files_and_folders(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "plots"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.png").write_text("a")
    (folder / "deep" / "b.png").write_text("b")
    (folder / "gone").symlink_to("nowhere")
    run.upload_folder("outputs/plots", folder)
    run.upload_files(["x", "y"], [folder / "a.png", folder / "deep" / "b.png"])
    assert run.get_file_names() == ["outputs/plots/a.png", "outputs/plots/deep/b.png", "x", "y"]
    with pytest.raises(UserErrorException, match="2 names were given for 1 paths"):
        run.upload_files(["x", "y"], ["x"])


@pytest.mark.parametrize("name", ["", ".", "./"])
def test_a_folder_goes_to_the_top(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("a")
    run.upload_folder(name, tmp_path / "folder")
    assert run.get_file_names() == ["a.txt"]


def test_one_file_is_no_list(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="upload_file takes one"):
        run.upload_files("ab", [tmp_path, tmp_path])


@pytest.mark.parametrize("name", ["/etc/passwd", "../x", "a/../../x", "", "a//b", "a\0b", "."])
def test_names_that_leave_the_run_are_refused(run: Run, tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserErrorException, match="not a safe path"):
        run.upload_file(name, tmp_path / "file")


def test_what_is_not_there_cannot_be_sent(run: Run, tmp_path: Path) -> None:
    with pytest.raises(UserErrorException, match="there is no file"):
        run.upload_file("a", tmp_path / "none")
    with pytest.raises(UserErrorException, match="there is no folder"):
        run.upload_folder("a", tmp_path / "none")


def test_what_is_not_there_cannot_be_fetched(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    fake.files[run.id] = {"outputs/model.pkl": b""}
    with pytest.raises(NotFoundError, match=r"no file 'modle\.pkl'") as caught:
        run.download_file("modle.pkl", tmp_path / "x")
    assert "outputs/model.pkl" in str(caught.value.hint)
    assert not (tmp_path / "x").exists()
    assert list(tmp_path.glob(".wherry*")) == []


def test_files_by_prefix(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    fake.files[run.id] = {"outputs/a": b"a", "outputs/deep/b": b"b", "logs/c": b"c"}
    run.download_files("outputs/", tmp_path / "one")
    assert (tmp_path / "one" / "outputs" / "deep" / "b").read_bytes() == b"b"
    assert not (tmp_path / "one" / "logs").exists()
    run.download_files("outputs", tmp_path / "two", append_prefix=False)
    assert (tmp_path / "two" / "deep" / "b").read_bytes() == b"b"
    run.download_files("logs", tmp_path / "three", output_paths=["renamed"])
    assert (tmp_path / "three" / "renamed").read_bytes() == b"c"
    with pytest.raises(UserErrorException, match="1 output_paths were given for 3 files"):
        run.download_files(output_paths=["x"])


@pytest.mark.parametrize("name", ["../evil", "/tmp/evil", "a/../../evil", "..\\evil/../../x"])
def test_no_file_lands_outside_the_folder(
    run: Run, fake: FakeServer, tmp_path: Path, name: str
) -> None:
    fake.files[run.id] = {name: b"evil"}
    (tmp_path / "safe").mkdir()
    with pytest.raises(UserErrorException, match="not a safe path"):
        run.download_files(output_directory=tmp_path / "safe")
    assert list((tmp_path / "safe").iterdir()) == []


def test_no_file_lands_behind_a_link(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "link").symlink_to(tmp_path / "outside")
    fake.files[run.id] = {"link/evil": b"evil"}
    with pytest.raises(UserErrorException, match="outside"):
        run.download_files(output_directory=tmp_path / "safe")
    assert list((tmp_path / "outside").iterdir()) == []


def test_a_link_in_the_place_of_a_file_is_replaced(
    run: Run, fake: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "safe").mkdir()
    (tmp_path / "safe" / "a").symlink_to(tmp_path / "precious")
    fake.files[run.id] = {"a": b"new"}
    run.download_files(output_directory=tmp_path / "safe")
    assert (tmp_path / "precious").read_text() == "mine"
    assert (tmp_path / "safe" / "a").read_bytes() == b"new"


def test_a_folder_reached_through_a_link_may_be_filled(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert place_below(str(tmp_path / "link"), "a/b") == str(tmp_path / "link" / "a" / "b")


def test_a_broken_download_goes_on_where_it_broke(
    run: Run, fake: FakeServer, tmp_path: Path
) -> None:
    data = os.urandom(1_000_000)
    fake.files[run.id] = {"big": data}
    fake.drop("GET.*files/big", "during", 2)
    run.download_file("big", tmp_path / "big")
    assert (tmp_path / "big").read_bytes() == data
    ranges = [headers.get("Range") for headers in fake.headers if "Range" in headers]
    assert len(ranges) == 2


def test_downloads_have_the_usual_permissions(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    fake.files[run.id] = {"a": b"a"}
    run.download_file("a", tmp_path / "a")
    (tmp_path / "usual").touch()
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_all_logs(run: Run, fake: FakeServer, tmp_path: Path) -> None:
    fake.files[run.id] = {"logs/mine.txt": b"mine", "outputs/a": b"a"}
    fake.finish(run.id, b"printed")
    paths = run.get_all_logs(tmp_path / "logs")
    assert sorted(Path(path).read_bytes() for path in paths) == [b"mine", b"printed"]
