"""Requests that the OpenAPI document allows or forbids, by the thousand, each answer checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import hypothesis
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.fuzz.target import Target

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
LEFT_OUT = {"/api/v1/server/stop"}
MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)


class Campaign:
    """Seeded; ``faults`` says what was wrong, each with the request that shows it."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target = target
        self.seed = seed
        self.answers: Counter[int] = Counter()
        self.faults: list[str] = []

    @property
    def requests(self) -> int:
        return sum(self.answers.values())

    def run(self, examples: int) -> None:
        """About ``examples`` requests to every operation, half of them as the owner."""
        document = self._target.ask("GET", "openapi.json")
        schema = schemathesis.openapi.from_dict(document)
        schema.config.update(base_url=self._target.url)
        for operation in _operations(schema):
            self._target.prepare()
            for mode in MODES:
                self._attack(operation, mode, max(1, examples // 2))
        log = self._target.server_log()
        if "Traceback" in log or " ERROR " in log:
            self.faults.append("the server's log has:\n" + log[-5000:])

    def _attack(self, operation: Any, mode: GenerationMode, examples: int) -> None:
        strategy = operation.as_strategy(generation_mode=mode)

        @hypothesis.seed(self.seed)
        @hypothesis.settings(
            max_examples=examples,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @hypothesis.given(case=strategy, chance=st.randoms(use_true_random=False))
        def attack(case: Any, chance: random.Random) -> None:
            self._send(case, chance)

        # There is nothing wrong to say to an operation without parameters.
        with suppress(hypothesis.errors.Unsatisfiable):
            attack()

    def _send(self, case: Any, chance: random.Random) -> None:
        _steer(case, self._target, chance)
        owner = chance.random() < 0.7
        token = self._target.token if owner else self._target.run_token
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
        try:
            response = case.call(timeout=60)
        except Exception as error:
            self.faults.append(f"{case.method} {case.path} was not answered: {error!r}")
            return
        self.answers[response.status_code] += 1
        try:
            case.validate_response(response, checks=CHECKS)
        except BaseException as error:  # a group of failures is no Exception
            self.faults.append(f"{'owner' if owner else 'attempt'}: {_told(error)}")
        if b"Traceback" in response.content:
            self.faults.append(f"{case.method} {case.path} answers with a stack trace")


def _operations(schema: Any) -> Iterator[Any]:
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path not in LEFT_OUT:
            yield operation


def _told(error: BaseException) -> str:
    parts = getattr(error, "exceptions", [error])
    return "\n".join(str(part) for part in parts)[:3000] + "\n" + str(error)[-2000:]


def _steer(case: Any, target: Target, chance: random.Random) -> None:
    """Mostly at what exists: a request for something that is not there ends early."""
    known = {
        "workspace": ["w", "default"],
        "environment": ["Wherry-sklearn", "AzureML-Tutorial", "train"],
        "version": ["1", "latest"],
        "label": ["latest", "stable"],
        "name": ["e", "user_logs/std_log.txt", "outputs/a.txt"],
        "run_id": [target.running, target.interactive, target.ended],
        "text": [target.running, "e_", target.ended[-8:]],
        "snapshot_id": [target.snapshot_id],
        "other_id": [target.snapshot_id],
        "attempt_id": [target.attempt_id],
        "path": ["outputs/a.txt", "user_logs/std_log.txt"],
        "attempt": [target.attempt_id],
    }
    for given in (case.path_parameters, case.query):
        for name in list(given or ()):
            if name in known and chance.random() < 0.8:
                given[name] = chance.choice(known[name])
    query = case.query or {}
    if "timeout_s" in query and chance.random() < 0.9:
        query["timeout_s"] = 0.1
    query.pop("follow", None)
    _steer_body(case.body, target, chance)


def _steer_body(body: Any, target: Target, chance: random.Random) -> None:
    if not isinstance(body, dict):
        return
    many = body.get("runs")
    for each in many if isinstance(many, list) else [body]:
        if isinstance(each, dict) and "experiment" in each and chance.random() < 0.5:
            each["experiment"] = chance.choice(["e", f"x{chance.randrange(100)}"])
            each["snapshot_id"] = target.snapshot_id
            if "script" in each or "command" in each:
                each.update(script="train.py", command="", arguments=[], target="local")
                each["resources"] = {"cpu": 0.1}
            if chance.random() < 0.5:
                each["parent_id"] = target.running
