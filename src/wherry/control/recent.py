"""The last few values that were made, for those who ask again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """Values of things that never change, by name; the least recently used go first."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, name: str, make: Callable[[], T]) -> T:
        with self._lock:
            if name in self._values:
                self._values.move_to_end(name)
                return self._values[name]
        value = make()
        self.put(name, value)
        return value

    def put(self, name: str, value: T) -> None:
        with self._lock:
            self._values[name] = value
            self._values.move_to_end(name)
            while len(self._values) > self._size:
                self._values.popitem(last=False)
