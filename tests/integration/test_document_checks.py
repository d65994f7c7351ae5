"""Checks of documents run between transactions, within the limits of a request and a client."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest

from catalog.formats.checker import Budget, BudgetSpent, Check, Key
from catalog.load.limiter import Share, Things
from catalog.writing import documentchecks
from tests.integration.conftest import Node, start_node

AVRO = "Avro/1.12"
SCHEMAS = "/schemagroups/g/schemas"


class PacedChecker:
    """Runs no check before the test lets it; then a document with `bad` in it is not valid.

    A comparison finds a fault where the older version has `strict` in it. A check of `slow` takes
    five seconds of the budget.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.clients: list[str] = []
        self.let = asyncio.Event()
        self.let.set()
        self._begun = asyncio.Event()

    def remembered(self, key: Key) -> None:
        """It remembers nothing."""

    async def run(
        self, checks: Iterable[Check], budget: Budget, *, client: str = ""
    ) -> dict[Key, str]:
        self.clients.append(client)
        self._begun.set()
        await self.let.wait()
        found = {}
        for check in checks:
            if budget.seconds <= 0:
                raise BudgetSpent
            found[check.key] = self._answer(check, budget)
        return found

    def _answer(self, check: Check, budget: Budget) -> str:
        contents = [document.content for document in check.documents]
        self.asked.append((check.direction, *(content.decode() for content in contents)))
        if b"slow" in contents[0]:
            budget.seconds -= 5
        fault = b"strict" if check.direction else b"bad"
        return "it is at fault" if fault in contents[0] else ""

    def hold(self) -> None:
        """Let no check end that begins from now on."""
        self.let.clear()
        self._begun.clear()

    async def has_begun(self) -> None:
        async with asyncio.timeout(10):
            await self._begun.wait()
        self._begun.clear()


@pytest.fixture
async def node(database_url: str) -> AsyncIterator[Node]:
    async with start_node(database_url, request_timeout_seconds=20) as running:
        await running.put("/schemagroups/g")
        few = Share(3, per_key=2, things=Things("requests"))
        running.context.checked_requests.share = few
        yield running


@pytest.fixture
def checker(node: Node, monkeypatch: pytest.MonkeyPatch) -> PacedChecker:
    checker = PacedChecker()
    monkeypatch.setattr(node.context.checked_requests, "checker", checker)
    return checker


def schema(text: str, **more: Any) -> dict[str, Any]:
    return {"format": AVRO, "contenttype": "text/plain", "schema": text, **more}


@contextlib.asynccontextmanager
async def send_later(
    node: Node, method: str, path: str, body: Any
) -> AsyncIterator[asyncio.Task[Any]]:
    task = asyncio.create_task(node.send(method, path, body))
    try:
        yield task
    finally:
        task.cancel()


async def locks(node: Node) -> tuple[int, int]:
    """How many advisory locks there are, and how many transactions are open."""
    async with node.database.acquire() as connection:
        held = await connection.fetchval(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND database ="
            " (SELECT oid FROM pg_database WHERE datname = current_database())"
        )
        idle = await connection.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
            " AND state LIKE 'idle in transaction%'"
        )
    return held, idle


@pytest.mark.parametrize("is_predicted", [True, False])
async def test_a_check_holds_neither_a_lock_nor_a_transaction(
    node: Node, checker: PacedChecker, *, is_predicted: bool
) -> None:
    """Whether the request tells what will be checked, or only the transaction finds it."""
    path, body = f"{SCHEMAS}/s$details", schema("a")
    if not is_predicted:
        await node.put(path, {**body, "format": "Runes/1"})
        body = {"format": AVRO}
    before = await locks(node)
    checker.hold()
    async with send_later(node, "PATCH", path, body) as patch:
        await checker.has_begun()
        assert await locks(node) == before
        assert (await node.send("GET", "/schemagroups/g")).status == 200
        assert (await node.send("PUT", "/schemagroups/g", {"name": "n"})).status == 200
        checker.let.set()
        assert (await patch).json["formatvalidated"] is True
    assert checker.asked == [("", "a")]


async def test_what_is_committed_was_checked_against_what_was_read(
    node: Node, checker: PacedChecker
) -> None:
    """A version's ancestor changes while the version is compared with it."""
    await node.put(f"{SCHEMAS}/s/versions/1$details", schema("one"))
    await node.put(f"{SCHEMAS}/s/versions/2$details", schema("two"))
    await node.send("PATCH", f"{SCHEMAS}/s/meta", {"compatibility": "backward"})
    version = f"{SCHEMAS}/s/versions/3$details"
    real, changes = checker._answer, iter(["strict"])

    async def run(checks: Iterable[Check], budget: Budget, *, client: str = "") -> dict[Key, str]:
        found = {check.key: real(check, budget) for check in checks}
        if any(check.direction for check in checks) and (text := next(changes, None)):
            stored = await node.send("PATCH", f"{SCHEMAS}/s/versions/2$details", schema(text))
            assert stored.status == 200, stored.body
        return found

    checker.asked.clear()
    checker.run = run  # type: ignore[method-assign]
    answer = await node.send("PUT", version, schema("three"))
    assert answer.status == 400
    assert answer.json["type"].endswith("compatibility_violation")
    assert ("backward", "two", "three") in checker.asked
    assert checker.asked[-1] == ("backward", "strict", "three")


async def test_a_request_gives_up_when_its_documents_never_cease_to_change(
    node: Node, checker: PacedChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentchecks, "_MOST_ROUNDS", 3)
    await node.put(f"{SCHEMAS}/s/versions/1$details", schema("one"))
    await node.send("PATCH", f"{SCHEMAS}/s/meta", {"compatibility": "backward"})
    real, number = checker._answer, iter(range(100))

    async def run(checks: Iterable[Check], budget: Budget, *, client: str = "") -> dict[Key, str]:
        found = {check.key: real(check, budget) for check in checks}
        if any(check.documents[-1].content == b"two" and check.direction for check in checks):
            path = f"{SCHEMAS}/s/versions/1$details"
            assert (await node.send("PUT", path, schema(f"one {next(number)}"))).status == 200
        return found

    checker.run = run  # type: ignore[method-assign]
    answer = await node.send("PUT", f"{SCHEMAS}/s/versions/2$details", schema("two"))
    assert answer.status == 503
    assert "changing all the time" in answer.json["detail"]
    assert next(number) == 2


async def test_versions_that_come_together_are_all_compared_and_written(
    node: Node, checker: PacedChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each changes what the others are compared with."""
    monkeypatch.setattr(documentchecks, "_MOST_ROUNDS", 5)
    await node.put(f"{SCHEMAS}/s/versions/0$details", schema("0"))
    await node.send("PATCH", f"{SCHEMAS}/s/meta", {"compatibility": "backward"})
    puts = (
        node.send("PUT", f"{SCHEMAS}/s/versions/{n}$details", schema(f"{n}")) for n in range(1, 13)
    )
    assert {answer.status for answer in await asyncio.gather(*puts)} == {201}


async def test_the_checks_of_a_request_take_so_long_and_no_longer(
    node: Node, checker: PacedChecker
) -> None:
    schemas = {f"s{n}": schema(f"slow {n}") for n in range(10)}
    before = await node.state()
    answer = await node.send("POST", "/schemagroups/g", {"schemas": schemas})
    assert answer.status == 413
    assert answer.json["args"] == {
        "limit": "20",
        "things": "seconds of checks",
        "setting": "fixed",
    }
    assert len(checker.asked) == 4
    assert await node.state() == before


async def test_so_many_requests_of_a_client_wait_for_checks(
    node: Node, checker: PacedChecker
) -> None:
    checker.hold()
    async with contextlib.AsyncExitStack() as stack:
        for n in range(2):
            path = f"{SCHEMAS}/s{n}$details"
            await stack.enter_async_context(send_later(node, "PUT", path, schema(f"{n}")))
            await checker.has_begun()
        answer = await node.send("PUT", f"{SCHEMAS}/more$details", schema("more"))
        assert answer.status == 429
        assert answer.headers["Retry-After"]
        assert answer.json["args"]["limit"] == "2"
        assert answer.json["args"]["setting"] == "fixed"
        async with node.context.checked_requests.share.hold("192.0.2.1"):
            refused = await node.send("PUT", f"{SCHEMAS}/more$details", schema("more"))
            assert refused.status == 429, "its own limit comes first"
        assert (await node.send("PUT", f"{SCHEMAS}/x$details", {"format": "Runes/1"})).status == 201
        checker.let.set()
    assert set(checker.clients) == {"127.0.0.1"}


async def test_so_many_requests_of_all_clients_wait_for_checks(
    node: Node, checker: PacedChecker
) -> None:
    hold = node.context.checked_requests.share.hold
    async with hold("a"), hold("a"), hold("b"):
        answer = await node.send("PUT", f"{SCHEMAS}/s$details", schema("s"))
        assert answer.status == 503
        assert "3 requests" in answer.json["detail"]
    answer = await node.send("PUT", f"{SCHEMAS}/s$details", schema("s"))
    assert answer.status == 201


async def test_the_check_of_a_message_counts_as_one_of_a_document(node: Node) -> None:
    definition = {"dataschemaformat": "JsonSchema/draft-07", "dataschema": {"type": "object"}}
    await node.put("/messagegroups/g/messages/m", {"envelope": "CloudEvents/1.0", **definition})
    event = {"specversion": "1.0", "id": "1", "type": "t", "source": "/s", "data": {}}
    path, contenttype = "/validate/messagegroups/g/messages/m", "application/cloudevents+json"
    hold = node.context.checked_requests.share.hold
    async with hold("127.0.0.1"), hold("127.0.0.1"):
        answer = await node.send("POST", path, event, Content_Type=contenttype)
        assert answer.status == 429
        assert answer.json["args"]["setting"] == "fixed"
    answer = await node.send("POST", path, event, Content_Type=contenttype)
    assert answer.status == 200
    assert answer.json["valid"] is True


async def test_a_change_of_the_capabilities_holds_no_lock_while_documents_are_checked(
    node: Node, checker: PacedChecker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documentchecks, "_MOST_BYTES", 5)
    nothing: dict[str, Any] = {"formats": [], "compatibilities": {}}
    assert (await node.send("PATCH", "/capabilities", nothing)).status == 200
    schemas = {f"s{n}": schema(f"text {n}") for n in range(3)}
    assert (await node.send("POST", "/schemagroups/g", {"schemas": schemas})).status == 200
    assert checker.asked == []
    before = await locks(node)
    checker.hold()
    task = asyncio.create_task(node.send("PATCH", "/capabilities", {"formats": ["*"]}))
    await checker.has_begun()
    assert await locks(node) == before
    assert (await node.send("PUT", "/messagegroups/m", {})).status == 201
    late = await node.send("PUT", f"{SCHEMAS}/late$details", schema("late"))
    assert late.json["formatvalidated"] is False
    checker.let.set()
    assert (await task).status == 200
    assert sorted(checker.asked) == [("", "late"), *(("", f"text {n}") for n in range(3))]
    for name in (*schemas, "late"):
        assert (await node.get(f"{SCHEMAS}/{name}$details"))["formatvalidated"] is True


async def test_a_change_of_the_capabilities_is_refused_for_what_a_check_finds(
    node: Node, checker: PacedChecker
) -> None:
    nothing: dict[str, Any] = {"formats": [], "compatibilities": {}}
    assert (await node.send("PATCH", "/capabilities", nothing)).status == 200
    schemas = {f"s{n}": schema(f"bad {n}") for n in range(3)}
    assert (await node.send("POST", "/schemagroups/g", {"schemas": schemas})).status == 200
    answer = await node.send("PATCH", "/capabilities", {"formats": ["*"]})
    assert answer.status == 400
    assert len(answer.json["violations"]) == 3


@pytest.mark.parametrize("parameters", ["", "?dryrun"])
async def test_an_apply_checks_its_documents_between_transactions(
    node: Node, checker: PacedChecker, parameters: str
) -> None:
    document = {"schemagroups": {"g": {"schemas": {"s": schema("a"), "t": schema("b")}}}}
    before = await locks(node)
    checker.hold()
    task = asyncio.create_task(node.send("POST", f"/apply{parameters}", document))
    await checker.has_begun()
    assert await locks(node) == before
    checker.let.set()
    answer = await task
    assert answer.status == 200, answer.body
    assert answer.json["created"] == 4
    assert sorted(checker.asked) == [("", "a"), ("", "b")]


async def test_a_result_is_kept_for_its_request_only(node: Node, checker: PacedChecker) -> None:
    """A check that took too long may not on another machine, or at another time."""
    body = schema("bad", meta={"compatibility": "backward"})
    for _ in range(2):
        checker.asked.clear()
        answer = await node.send("PUT", f"{SCHEMAS}/s$details", body)
        assert answer.json["type"].endswith("format_violation")
        assert checker.asked == [("", "bad")]
