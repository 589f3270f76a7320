"""Requests that the OpenAPI document allows or forbids, by the thousand, each answer checked."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
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
        "compute": ["cluster", "machine", "local", *(f"made{n}" for n in range(6))],
        "site": ["lab", "local", *(f"made{n}" for n in range(4))],
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


# What a field of a target or a site may be, and what it may not.
_FIELDS: dict[str, list[Any]] = {
    "max_nodes": [0, 1, 2, "3", -1, 10**9, 1.5, True, None, "٣", "x"],
    "min_nodes": [0, 0, 0, 1, 5, -1, None],
    "idle_seconds": [0, 1, 60, -1, 10**12],
    "vm_size": ["", "local-1", "STANDARD_D2_V2", "huge", "\u202e", 5],
    "vm_priority": ["dedicated", "lowpriority", "low_priority", "cheap"],
    "location": ["", "local", "eastus", "lab", "nowhere", "../x"],
    "address": ["127.0.0.1", "h1", "::1", "-oProxyCommand=x", "a b", "$(id)", ""],
    "port": [1, 2, "22", 0, 65536, True],
    "username": ["me", "", "-x", "a;b"],
    "jump": ["", "me@127.0.0.1:1", "@", "a,b,,c"],
    "host_key": ["", "ssh-ed25519 AAAA", "x\ny"],
    "python": ["", "/usr/bin/python3", "$(id)"],
    "cores": [1, 0.5, 0, -1, 1e300],
    "memory": ["4GB", 10, -1, 10**30, "much"],
    "gpus": [0, 1, -1],
    "price_per_hour": [0, 1.5, -1],
}
_CLUSTER = ("max_nodes", "min_nodes", "idle_seconds", "vm_size", "vm_priority", "location")
_MACHINE = ("address", "port", "username", "jump", "host_key", "python")
_HOST = (*_MACHINE, "cores", "memory", "gpus", "price_per_hour")


def _steer_compute(body: dict[str, Any], chance: random.Random) -> None:
    """Mostly one thing is wrong with it: what is all wrong ends early."""
    if "config" not in body or chance.random() < 0.2:
        return
    if body.get("kind") and "type" not in body:
        hosts = [_fields(_HOST, chance) for _ in range(chance.randrange(3))]
        body.update(kind="ssh", config={"hosts": hosts, **_fields(_MACHINE[2:], chance)})
    elif chance.random() < 0.7:
        body["config"] = {"max_nodes": 1, **_fields(_CLUSTER, chance)}
        if "type" in body:
            body.update(type=chance.choice(["AmlCompute", "BatchAI"]), kind=None)
    else:
        body["config"] = {"address": "127.0.0.1", "port": 1, **_fields(_MACHINE, chance)}
        if "type" in body:
            body.update(type="VirtualMachine", kind=None)
    for name in ("secrets", "tags"):
        if name in body and chance.random() < 0.8:
            body[name] = {}


def _fields(names: Sequence[str], chance: random.Random) -> dict[str, Any]:
    return {name: chance.choice(_FIELDS[name]) for name in names if chance.random() < 0.3}


def _steer_body(body: Any, target: Target, chance: random.Random) -> None:
    if not isinstance(body, dict):
        return
    _steer_compute(body, chance)
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
