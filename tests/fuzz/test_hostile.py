"""What no generator of requests makes: bodies that are no JSON, odd headers, bytes by hand."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.target import Target
from tests.homes import wait_until

pytestmark = pytest.mark.attack

ODD = {
    "nothing": b"",
    "half": b'{"name": ',
    "no JSON": b"\xff\xfe\x00",
    "a NUL": b'{"name": "a\\u0000b", "experiment": "\\u0000", "status": "\\u0000"}',
    "half a pair": b'{"name": "\\ud800", "experiment": "\\udfff", "script": "\\ud800"}',
    "raw surrogates": b'{"name": "\xed\xa0\x80"}',
    "a mark of order": b"\xef\xbb\xbf{}",
    "UTF-16": '{"name": "a"}'.encode("utf-16"),
    "huge": b'{"name": ' + b"9" * 5000 + b', "size": ' + b"9" * 400 + b"}",
    "not finite": b'{"resources": {"cpu": NaN, "gpu": Infinity}, "max_run_duration_s": -Infinity}',
    "exponents": b'{"resources": {"cpu": 1e999, "memory_bytes": 1e400}, "offset": 1e99}',
    "deep lists": b"[" * 100_000,
    "deep objects": b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
    "a list": b"[]",
    "a number": b"1e5",
    "null": b"null",
    "a word": b'"name"',
    "twice": b'{"name": "a", "name": 5, "experiment": "e", "experiment": []}',
    "other kinds": b'{"name": {"a": []}, "files": {"0": 1}, "runs": "x", "tags": [[]], "exit": []}',
    "unknown": b'{"__proto__": {}, "constructor": 1, "$ref": "#/"}',
    "long": b'{"name": "' + b"x" * 300_000 + b'"}',
    "many": b"{" + b",".join(b'"k%d": %d' % (n, n) for n in range(20_000)) + b"}",
}
TYPES = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "\u00ff;;=,"]


def json_operations(document: dict[str, Any]) -> Iterator[tuple[str, str, set[str]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if "application/json" in operation.get("requestBody", {}).get("content", {}):
                yield method.upper(), path, set(operation["responses"])


def filled(path: str, target: Target) -> str:
    known = {
        "workspace": "w",
        "name": "e",
        "run_id": target.interactive,
        "attempt_id": target.attempt_id,
        "snapshot_id": target.snapshot_id,
        "compute": "cluster",
        "site": "lab",
    }
    for name, value in known.items():
        path = path.replace(f"{{{name}}}", value)
    return path.removeprefix("/api/v1/")


def test_no_body_harms(target: Target) -> None:
    target.prepare()
    faults: list[tuple[Any, ...]] = []
    sent = 0
    for method, path, documented in json_operations(target.ask("GET", "openapi.json")):
        token = target.run_token if "attempt" in path else target.token
        for name, body in ODD.items():
            kind = TYPES[sent % len(TYPES)] if name in ("half", "a list") else "application/json"
            headers = {
                b"Authorization": f"Bearer {token}".encode(),
                b"Content-Type": kind.encode("latin-1"),
            }
            reply = target.client.request(
                method, filled(path, target), content=body, headers=headers
            )
            sent += 1
            if str(reply.status_code) not in documented or reply.status_code >= 500:
                faults.append((method, path, name, reply.status_code, reply.text[:300]))
            elif reply.status_code >= 400 and not _is_problem(reply.text):
                faults.append((method, path, name, reply.text[:300]))
    assert faults == []
    assert sent > 200
    assert "Traceback" not in target.server_log()


def _is_problem(text: str) -> bool:
    found = json.loads(text)
    return set(found) >= {"type", "code", "status", "detail"} and "Traceback" not in text


HEADS = [
    "Authorization: Bearer {token}\r\nAuthorization: Bearer other\r\n",
    "Authorization: Bearer other\r\nAuthorization: Bearer {token}\r\n",
    "Authorization: Bearer {token}, Bearer {token}\r\n",
    "Authorization: Bearer\r\n",
    "Authorization: bearer   {token}  \r\n",
    "Authorization: Basic eDp5\r\n",
    "Authorization: Bearer wa.\r\n",
    "Authorization: Bearer wa.a.b.c.d.e\r\n",
    "Authorization: Bearer \u00ff\u00fe\r\n",
    "Authorization: Bearer {token}\r\nWherry-Api: 1\r\nWherry-Api: 2\r\n",
    "Authorization: Bearer {token}\r\nWherry-Api: \u00ff\r\n",
    "Authorization: Bearer {token}\r\nRange: bytes=0-0\r\nRange: bytes=1-\r\n",
    "Authorization: Bearer {token}\r\nRange: bytes=\u00ff\r\n",
    "Authorization: Bearer {token}\r\nExpect: 100-continue\r\n",
    "Authorization: Bearer {token}\r\nContent-Encoding: gzip\r\nAccept-Encoding: *;q=9\r\n",
    "Authorization: Bearer {token}\r\nX-Forwarded-For: \u00ff\r\nCookie: a\r\nCookie: b\r\n",
    "Authorization: Bearer {token}\r\nConnection: keep-alive, close, upgrade\r\nUpgrade: h2c\r\n",
]
ADDRESSES = [
    "runs/{run}/files/outputs/a.txt",
    "runs/{run}/files/..%2f..%2f..%2fetc%2fpasswd",
    "runs/{run}/files/%2e%2e/%2e%2e/token",
    "runs/../../../token",
    "runs/{run}/files/%ff%fe",
    "runs/{run}/files/a%00b",
    "runs/%ff%fe",
    "runs/%f0%9f%90%8d",
    "workspaces/w/runs?limit=%ff&limit=5&order_by[]=x&cursor=%ff",
    "workspaces/w/runs?" + "&" * 5000,
    "workspaces/w/runs?" + "tag=a&" * 5000,
    "//runs",
    "runs/{run}/logs/user_logs/std_log.txt?offset=-1",
    "runs/{run}/wait?timeout_s=nan",
    "runs/{run}/wait?timeout_s=inf&until=end",
    "runs/{run}/metrics?name=%00",
    "snapshots/{run}/archive",
]


def test_no_head_and_no_address_harms(target: Target) -> None:
    target.prepare()
    host, _, port = target.url.removeprefix("http://").partition(":")
    lines = [(HEADS[0], address) for address in ADDRESSES]
    lines += [(head, ADDRESSES[0]) for head in HEADS]
    for head, address in lines:
        where = address.format(run=target.interactive)
        text = f"GET /api/v1/{where} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        request = f"{text}{head.format(token=target.token)}\r\n".encode("latin-1")
        with socket.create_connection((host, int(port)), timeout=60) as client:
            client.sendall(request)
            received = b""
            while piece := client.recv(65536):
                received += piece
        status = int(received.split()[1])
        assert status < 500, (head, address, received)
        assert status != 200 or b"root:" not in received
        assert target.token.encode() not in received
    assert "Traceback" not in target.server_log()


def test_slow_clients_keep_nobody_waiting(target: Target) -> None:
    """Forty uploads that never end, two hundred heads that never do, twenty who never read."""
    target.prepare()
    host, _, port = target.url.removeprefix("http://").partition(":")
    content = b"x" * (8 << 20)
    target.client.put(f"runs/{target.interactive}/files/outputs/big", content=content)
    begun = f"Host: {host}\r\nAuthorization: Bearer {target.token}\r\n"
    where = f"/api/v1/runs/{target.interactive}/files/outputs"
    sent = [
        f"PUT {where}/{n} HTTP/1.1\r\n{begun}Content-Length: 9999999\r\n\r\nx" for n in range(40)
    ]
    sent += [f"GET {where}/big HTTP/1.1\r\n{begun}X: "] * 200
    sent += [f"GET {where}/big HTTP/1.1\r\n{begun}\r\n"] * 20
    slow = [socket.create_connection((host, int(port)), timeout=60) for _ in sent]
    for client, text in zip(slow, sent, strict=True):
        client.sendall(text.encode() + (b"x" * (2 << 20) if text.startswith("PUT") else b""))
    for _ in range(20):
        assert target.ask("GET", f"runs/{target.interactive}")["status"] == "Running"
    reply = target.client.put(f"runs/{target.interactive}/files/outputs/done", content=content)
    assert reply.json()["size"] == len(content)
    heads = slow[40:240]
    wait_until(lambda: all(_is_over(client) for client in [*heads, *slow[:40]]), 180)
    for client in slow:
        client.close()
    listed = target.ask("GET", f"runs/{target.interactive}/files")["items"]
    assert {each["path"] for each in listed} == {"outputs/a.txt", "outputs/big", "outputs/done"}
    assert "Traceback" not in target.server_log()


def _is_over(client: socket.socket) -> bool:
    client.settimeout(0.01)
    try:
        received = client.recv(65536)
    except TimeoutError:
        return False
    except ConnectionResetError:
        return True
    assert not received or received.startswith(b"HTTP/1.1 408 "), received
    return True
