"""Job files: whatever YAML one holds, the answer is a job or a sentence."""

from __future__ import annotations

import os
import tempfile
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from wherry.cli import job_file
from wherry.core.errors import WherryError

FIELDS = [*job_file._FIELDS, *job_file._LATER, "typo", "cpu", "timeout", "python", "a-b"]
TEXTS = st.sampled_from(
    ["python train.py", "${{inputs.x}}", "$[[--a ${{inputs.y}}]]", "4GB", "1h", ".", "azureml:x"]
)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.dates()
    | st.datetimes()
    | st.binary(max_size=5)
    | st.text(max_size=8)
    | TEXTS
)
KEYS = st.sampled_from(FIELDS) | SCALARS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
JOBS = st.fixed_dictionaries(
    {"command": TEXTS},
    optional={name: VALUES for name in job_file._FIELDS if name != "command"},
) | st.dictionaries(KEYS, VALUES, max_size=6)


def read(content: bytes, changes: tuple[str, ...] = ()) -> Any:
    """The job, or the sentence."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "job.yml")
        with open(path, "wb") as file:
            file.write(content)
        try:
            return job_file.read(path, changes)
        except WherryError as error:
            return error.message


@settings(max_examples=150, deadline=None, derandomize=True)
@given(JOBS)
def test_any_fields_make_a_job_or_a_sentence(fields: Any) -> None:
    read(yaml.safe_dump(fields, allow_unicode=True).encode("utf-8", "replace"))


@settings(max_examples=100, deadline=None, derandomize=True)
@given(
    st.binary(max_size=100)
    | st.text(max_size=100).map(lambda text: text.encode("utf-8", "replace"))
)
@example(b"")
@example(b"\0")
@example(b"\xff\xfe")
@example(b"a: &a [*a]")
@example(b"&a {command: *a}")
@example(b"command: !!python/object/apply:os.system [true]")
@example(b"? [a]\n: b")
@example(b"command: x\ntags: {[1]: 2}")
@example(b"2021-99-99")
@example(b"command: x\nlimits: {timeout: .nan}")
@example(b"command: x\nlimits: {timeout: .inf}")
@example(b"command: x\nlimits: {timeout: 9" + b"9" * 400 + b"}")
@example(b"command: x\nresources: {cpu: .nan, memory: 9" + b"9" * 400 + b"}")
@example(b"command: x\nresources: {memory: 9e999GB}")
@example(b'command: x\ncode: "a\\0b"')
@example(b'command: x\nenvironment: {python: "a\\0b"}')
@example(b"command: x\nenvironment: {python: {interpreter_path: [1]}}")
@example(b"command: x\nenvironment: {[1]: 2, python: 3, 4: 5}")
@example(b"<<: *x")
@example(b"command: x\n<<: 5")
@example(b"!!set {a, b}")
@example(b"!!timestamp x")
@example(b"!!int x")
@example(b"!!binary \xc3\xa4")
@example(b"!!float {}")
@example(b"0x")
@example(b"1:99:99")
@example(b"command: x\ntype: [command]")
@example(b"command: x\ntype: {a: b}")
@example(b'command: "\\ud800"')
def test_any_bytes_make_a_job_or_a_sentence(content: bytes) -> None:
    read(content)


def test_what_is_nested_too_deeply_is_a_sentence() -> None:
    assert "nested too deeply" in read(b"a: " + b"[" * 2000)


def test_a_bomb_of_references_is_a_sentence() -> None:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    for n in range(1, 12):
        lines.append(b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 10)))
    for use in (b"tags: {t: *a11}", b"inputs: *a11", b"environment: *a11", b"typo: *a11"):
        job = b"command: x\n" + b"\n".join(lines) + b"\n" + use
        assert isinstance(read(job), str)
        sections = job.replace(b"a0: ", b"tags:\n  a0: ", 1).replace(b"\na", b"\n  a")
        assert isinstance(read(sections), str)


@pytest.mark.parametrize("size", [10, 3000])
@settings(max_examples=30, deadline=None, derandomize=True)
@given(change=st.text(max_size=20) | KEYS.map(lambda key: f"{key!r}.x=1"))
def test_any_change_makes_a_job_or_a_sentence(size: int, change: str) -> None:
    read(b"command: x", (change,))
    read(b"command: x", (f"tags.{'a.' * size}b={'[' * size}",))
