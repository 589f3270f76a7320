"""Worlds of tests do not outlive them: each holds a database and pipes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.control.test_reconciler import OPEN


@pytest.fixture(autouse=True)
def _worlds_end_with_their_tests() -> Iterator[None]:
    yield
    while OPEN:
        OPEN.pop().close()
