"""The largest and costliest requests of each kind; meanwhile, others are served.

Each test prints the longest GET of a client beside the attack; on a machine at rest it takes less
than 250 ms.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import aiohttp
import orjson
import pytest

from tests.e2e.nodes import NodeProcess
from tests.hostile.bystander import Bystander, bystander
from tests.hostile.conftest import peak_memory_of

Attack: TypeAlias = tuple[str, str, bytes]

JSON = "application/json"
YAML = "application/cloudevents-registry+yaml"
_MEBIBYTE = 1024 * 1024


def keys(count: int, value: Any, *, prefix: str = "k") -> dict[str, Any]:
    return {f"{prefix}{number:06d}": value for number in range(count)}


def model(groups: int, **aspects: Any) -> bytes:
    types = {f"g{n}s": {"singular": f"g{n}", **aspects} for n in range(groups)}
    return orjson.dumps({"groups": types})


def messages(count: int, *, per_group: int = 200) -> dict[str, Any]:
    """Groups `i0`, `i1`, … with as many messages in all."""
    message = {"description": "a message", "labels": {"a": "b"}, "envelope": "CloudEvents/1.0"}
    group = {"messages": keys(per_group, message, prefix="m")}
    return {"messagegroups": {f"i{number}": group for number in range(count // per_group)}}


# Each is refused, with what its answer says.
REFUSED: Mapping[str, tuple[Callable[[], Attack], str]] = {
    "a model of 50,000 groups": (
        lambda: ("PUT", "/modelsource", model(50_000)),
        "fixed",
    ),
    "a model of 100,000 attributes": (
        lambda: ("PUT", "/modelsource", model(1, attributes=keys(100_000, {"type": "string"}))),
        "fixed",
    ),
    "800,000 bad ids": (
        lambda: ("POST", "/messagegroups", orjson.dumps(keys(800_000, {}, prefix="!"))),
        "CONCORD_MAX_BODY_BYTES",
    ),
    "90,000 bad ids": (
        lambda: ("POST", "/messagegroups", orjson.dumps(keys(90_000, {}, prefix="!"))),
        "and 89000 more",
    ),
    "a key that is there twice, with the same value, above deep nesting": (
        lambda: (
            "PUT",
            "/messagegroups/a",
            b'{"epoch":1,"epoch":1,"x":' + b'{"x":' * 55 + b"[%b1]" % (b"1," * 400_000) + b"}" * 56,
        ),
        "",
    ),
    "200,000 entities": (
        lambda: ("POST", "/messagegroups", orjson.dumps(keys(200_000, {}))),
        "CONCORD_MAX_REQUEST_ENTITIES",
    ),
    "five million empty arrays": (
        lambda: ("PUT", "/messagegroups/a", b'{"x":[' + b"[]," * 5_000_000 + b"[]]}"),
        "CONCORD_MAX_BODY_BYTES",
    ),
    "as many empty arrays as there may be": (
        lambda: ("PUT", "/messagegroups/a", b'{"x":[' + b"[]," * 249_000 + b"[]]}"),
        "fixed",
    ),
    "as many labels as there may be": (
        lambda: ("PUT", "/messagegroups/a", orjson.dumps({"labels": keys(490_000, "v")})),
        "fixed",
    ),
    "as many capabilities as there may be": (
        lambda: ("PUT", "/capabilities", orjson.dumps({"flags": [*keys(490_000, 0)]})),
        "capability",
    ),
    "as many event types as there may be": (
        lambda: (
            "POST",
            "/subscriptions",
            orjson.dumps({"sink": "http://example.com", "types": [*keys(490_000, 0)]}),
        ),
        "",
    ),
    "as many origins as there may be": (
        lambda: ("POST", "/replication/fetch", orjson.dumps({"origins": [0] * 490_000})),
        "",
    ),
    "as many unknown members as there may be": (
        lambda: ("POST", "/subscriptions", orjson.dumps(keys(490_000, 0))),
        "10000 JSON values",
    ),
    "16 MiB of YAML": (
        lambda: ("POST", "/apply", b"messagegroups: [" + b"a, " * (5 * _MEBIBYTE) + b"a]"),
        "CONCORD_MAX_BODY_BYTES",
    ),
    "as much YAML as there may be": (
        lambda: ("POST", "/apply", b"messagegroups: [" + b"a, " * (_MEBIBYTE // 2) + b"a]"),
        "",
    ),
}


async def _send(node: NodeProcess, attack: Attack, *, address: str = "") -> tuple[int, bytes]:
    """The answer to a request of a client, perhaps of another one than the bystander."""
    method, path, body = attack
    headers = {"Content-Type": YAML if body.startswith(b"messagegroups:") else JSON}
    timeout = aiohttp.ClientTimeout(total=120)
    connector = aiohttp.TCPConnector(local_addr=(address, 0) if address else None)
    async with (
        aiohttp.ClientSession(node.url, timeout=timeout, connector=connector) as session,
        session.request(method, path, data=io.BytesIO(body), headers=headers) as response,
    ):
        return response.status, await response.read()


def _assert_read(seen: Bystander) -> None:
    """Reads were served; writes may have waited for those of the attack.

    The bound leaves room for a machine that is busy with other tests.
    """
    assert not seen.gets.failures
    assert seen.gets.longest < 1.5, seen.gets


async def test_what_is_too_large_is_refused_at_once(victim: NodeProcess) -> None:
    for name, (make, told) in REFUSED.items():
        attack = make()
        async with bystander(victim.url) as seen:
            status, answer = await _send(victim, attack)
        print(f"{name}: {status}; GET: {seen.gets}; PUT: {seen.puts}")
        assert 400 <= status < 500, name
        assert told.encode() in answer, name
        assert len(answer) < _MEBIBYTE, name
        _assert_read(seen)
    assert peak_memory_of(victim) < 600 * _MEBIBYTE


async def test_a_large_import_leaves_readers_alone(victim: NodeProcess) -> None:
    async with bystander(victim.url) as seen:
        status, _ = await _send(victim, ("POST", "/", orjson.dumps(messages(4000))))
        assert status == 200
    print(f"import: GET: {seen.gets}")
    _assert_read(seen)
    async with bystander(victim.url) as seen:
        status, _ = await _send(victim, ("POST", "/apply", orjson.dumps(messages(4000))))
        assert status == 200
        doomed: dict[str, Any] = {f"i{number}": {} for number in range(20)}
        status, _ = await _send(victim, ("DELETE", "/messagegroups", orjson.dumps(doomed)))
        assert status == 204
    print(f"apply and delete: GET: {seen.gets}")
    _assert_read(seen)


async def test_others_have_connections_while_one_client_searches_and_imports(
    victim: NodeProcess,
) -> None:
    """32 filters with wildcards at once, then ten imports that wait for each other's locks."""
    large = orjson.dumps(messages(4000))
    assert (await _send(victim, ("POST", "/", large)))[0] == 200
    path = "/messagegroups?filter=messages.description=*z*q*"
    for attack, count in ((("GET", path, b""), 96), (("POST", "/", large), 10)):
        turns = asyncio.Semaphore(32)

        async def send(attack: Attack = attack, turns: asyncio.Semaphore = turns) -> None:
            async with turns:
                status, _ = await _send(victim, attack, address="127.0.0.2")
                assert status in (200, 503)

        async with bystander(victim.url) as seen, asyncio.TaskGroup() as tasks:
            for _ in range(count):
                tasks.create_task(send())
        print(f"{attack[0]} {count} times: GET: {seen.gets}; PUT: {seen.puts}")
        _assert_read(seen)


@pytest.mark.parametrize("aspects", [{}, {"attributes": keys(70, {"type": "string"})}])
async def test_the_largest_model_leaves_others_alone(
    victim: NodeProcess, aspects: Mapping[str, Any]
) -> None:
    messagegroups = {"singular": "messagegroup", "resources": {"messages": {"singular": "message"}}}
    source = orjson.loads(model(100 if aspects else 245, **aspects))
    source["groups"]["messagegroups"] = messagegroups
    body = orjson.dumps(source)
    async with bystander(victim.url) as seen:
        status, answer = await _send(victim, ("PUT", "/modelsource", body))
        assert status == 200, answer[:1000]
        for path in ("/model", "/openapi.json"):
            status, _ = await _send(victim, ("GET", path, b""))
            assert status == 200
    print(f"model: GET: {seen.gets}")
    _assert_read(seen)
