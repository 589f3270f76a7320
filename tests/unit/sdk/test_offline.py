from __future__ import annotations

import pytest

from wherry import Run


def test_what_would_be_logged_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run = Run.get_context()
    run.log("a", 1)
    run.log_list("b", [1, 2])
    run.log_row("c", x=1)
    run.log_row("c", name=1)
    run.log_row(name="c", description="one column", x=1)
    run.log_table("d", {"x": [1]})
    run.log_image("e", path="plot.png")
    assert capsys.readouterr().out == (
        "Attempted to log scalar metric a:\n1\n"
        "Attempted to log list metric b:\n[1, 2]\n"
        "Attempted to log row metric c:\n{'x': 1}\n"
        "Attempted to log row metric c:\n{'name': 1}\n"
        "Attempted to log row metric c:\n{'x': 1}\n"
        "Attempted to log table metric d:\n{'x': [1]}\n"
        "Attempted to log image metric e:\nplot.png\n"
    )


def test_it_is_known_by_its_id_and_class() -> None:
    run = Run.get_context()
    assert run.id.startswith("OfflineRun_")
    assert type(run).__name__ == "_OfflineRun"


def test_it_has_no_experiment() -> None:
    """Scripts fall back to ``Workspace.from_config`` on this error."""
    with pytest.raises(AttributeError):
        _ = Run.get_context().experiment


def test_everything_else_goes_nowhere_in_peace() -> None:
    run = Run.get_context()
    run.tag("a", "b")
    run.set_tags({"c": 1})
    run.remove_tags("c")
    assert run.get_tags() == {"a": "b"}
    run.add_properties({"p": 1})
    assert run.get_properties() == {"p": "1"}
    run.upload_file("outputs/a", "a")
    run.upload_files(["b"], ["b"])
    run.upload_folder("c", "c")
    assert run.get_file_names() == ["outputs/a", "b", "c"]
    assert run.get_metrics() == {}
    run.flush()
    run.complete()
    assert run.get_status() == "Completed"
    assert run.get_details()["status"] == "Completed"


def test_children_and_contexts() -> None:
    run = Run.get_context()
    with run.child_run("fold") as child:
        assert child.parent is run
    assert child.status == "Completed"
    assert len(run.create_children(tag_key="k", tag_values=[1, 2])) == 2
    assert [each.tags for each in run.get_children()] == [{}, {"k": "1"}, {"k": "2"}]
