from __future__ import annotations

from wherry.control.recent import Recent


def test_what_was_used_last_is_kept() -> None:
    recent: Recent[int] = Recent(2)
    made: list[str] = []

    def get(name: str) -> int:
        def make() -> int:
            made.append(name)
            return len(made)

        return recent.get(name, make)

    assert [get("a"), get("b"), get("a")] == [1, 2, 1]
    get("c")  # "b" was not used for the longest time
    assert [get("a"), get("b")] == [1, 4]
    assert made == ["a", "b", "c", "b"]
