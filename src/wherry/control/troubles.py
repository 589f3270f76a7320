"""What a pass over a target met, and what of it is told on the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from wherry.core.errors import NodeUnavailableError, TargetUnavailableError
from wherry.store import runs

from .plane import Plane

log = logging.getLogger(__name__)


class Troubles:
    """``look_again`` asks for another pass."""

    def __init__(self, plane: Plane, target: str, look_again: Callable[[], None]) -> None:
        self._plane = plane
        self._target = target
        self._look_again = look_again
        self._worst: TargetUnavailableError | None = None
        self._complaint = ""

    def clear(self) -> None:
        self._worst, self._complaint = None, ""

    def outlive(self, step: Callable[..., None], *arguments: Any) -> None:
        """A disk too full to start anything is freed by clearing away what ended."""
        try:
            step(*arguments)
        except TargetUnavailableError as error:
            self._worst = error

    @contextmanager
    def alone(self, run_id: str, attempt_id: str) -> Iterator[None]:
        """What one attempt meets here does not keep the others waiting."""
        try:
            yield
        except NodeUnavailableError as error:
            self.complain(error.message)  # the other nodes have nothing to do with it
        except TargetUnavailableError:
            raise
        except runs.StaleError:
            self._look_again()  # it changed meanwhile
        except SQLAlchemyError:
            raise
        except Exception:  # one run's trouble, whatever it is
            log.exception("attempt %s of run %s", attempt_id, run_id)

    def complain(self, told: str) -> None:
        self._complaint = told

    def conclude(self) -> None:
        """What is wrong with the target is shown on it, as long as it is, and the worst raised."""
        told = self._worst.message if self._worst is not None else self._complaint
        if told:
            self._plane.problems[self._target] = told
        else:
            self._plane.problems.pop(self._target, None)
        if self._worst is not None:
            raise self._worst
