"""What starts now, and what waits in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wherry.core.placement import Used, Waiting, place
from wherry.core.resources import Resources


def waiting(*requests: Resources) -> list[Waiting]:
    return [Waiting(f"run-{index}", wanted) for index, wanted in enumerate(requests)]


def test_the_head_that_fits_starts_and_the_rest_waits_in_order() -> None:
    queue = waiting(Resources(1), Resources(2), Resources(1))
    placed = place(queue, Resources(2, 10), [], [])
    assert [each.run_id for each in placed] == ["run-0"]


def test_gpus_are_handed_out_once() -> None:
    queue = waiting(Resources(1, 0, 1), Resources(1, 0, 2))
    placed = place(queue, Resources(8, 10, 3), ["0", "1", "2"], [Used(Resources(1, 0, 1), ("1",))])
    assert [each.gpus for each in placed] == [("0",)]
    placed = place(queue, Resources(8, 10, 3), ["0", "1", "2"], [])
    assert [each.gpus for each in placed] == [("0",), ("1", "2")]


def test_memory_counts() -> None:
    queue = waiting(Resources(1, 6), Resources(1, 5))
    assert len(place(queue, Resources(8, 10), [], [])) == 1


requests = st.builds(Resources, st.floats(0.1, 4), st.integers(0, 8), st.integers(0, 2))


@given(st.lists(requests, max_size=12), st.lists(requests, max_size=4))
def test_never_more_than_there_is(asked: list[Resources], held: list[Resources]) -> None:
    total, gpus = Resources(4, 16, 4), ["a", "b", "c", "d"]
    used: list[Used] = []
    free_gpus = list(gpus)
    for each in held:
        if each.fits(total - sum((u.resources for u in used), Resources(0, 0, 0))):
            mine, free_gpus = free_gpus[: each.gpu], free_gpus[each.gpu :]
            used.append(Used(each, tuple(mine)))
    placed = place(waiting(*asked), total, gpus, used)
    taken = sum((p.resources for p in placed), Resources(0, 0, 0))
    taken = taken + sum((u.resources for u in used), Resources(0, 0, 0))
    assert taken.fits(total)
    handed = [gpu for p in placed for gpu in p.gpus] + [gpu for u in used for gpu in u.gpus]
    assert len(handed) == len(set(handed))
    assert [p.run_id for p in placed] == [f"run-{i}" for i in range(len(placed))]
