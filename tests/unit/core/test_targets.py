"""Names of compute targets, and the keys that keep them apart."""

from __future__ import annotations

from wherry.core.targets import key, name_of, workspace_of


def test_a_key_has_the_workspace_and_the_name() -> None:
    assert key("lab", "cpu-cluster") == "lab/cpu-cluster"
    assert name_of("lab/cpu-cluster") == "cpu-cluster"
    assert workspace_of("lab/cpu-cluster") == "lab"


def test_local_is_the_same_in_every_workspace() -> None:
    assert key("lab", "local") == key("other", "local") == "local"
    assert name_of("local") == "local"
    assert workspace_of("local") == ""
