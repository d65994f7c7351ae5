"""A program that uses the client; mypy holds it against the annotations, strictly."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random
from typing import Any

from catalog.client import (
    ONCE,
    Answer,
    Backoff,
    Changes,
    Client,
    ClientError,
    DigestRow,
    Document,
    JsonObject,
    Problem,
    Refused,
    Retry,
    SignatureInvalid,
    SyncClient,
    Unreachable,
    Violation,
    is_replica,
    verify,
)
from catalog.operations.access import WHOAMI, Whoami
from catalog.operations.events import EventsQuery
from catalog.operations.feed import CopyQuery
from catalog.operations.links import CopyConflict, LinkAnswer, NewLink

RETRY = Retry(
    attempts=5,
    backoff=Backoff(initial=0.2, factor=2, cap=5, jitter=0.5),
    clock=lambda: datetime.now(UTC),
    random=Random(1),
)


async def use_entities(url: str) -> str:
    async with Client.open(url, token="secret", timeout_seconds=5, retry=RETRY) as client:
        message: JsonObject = await client.create("/messagegroups/g/messages/m", {"name": "n"})
        message = await client.update(message["xid"], {"name": None}, epoch=message["epoch"])
        message = await client.replace(message["xid"], {}, epoch=message["epoch"])
        message = await client.add_version(message["xid"], {"name": "n"})
        meta: JsonObject = await client.set_default_version(message["xid"], "1")
        async for id, version in client.versions("/messagegroups/g/messages/m"):
            id.upper(), version.items()
        found = client.items("/messagegroups", filters=["name=n"], sort="name", page_size=10)
        names: dict[str, Any] = {id: group.get("name") async for id, group in found}
        group: JsonObject = await client.entity("/messagegroups/g", inline=["messages"])
        group = await client.entity("/", wait_for=client.position, wait_seconds=3)
        position: str = (await client.request("PATCH", "/", body={})).position
        await client.export(wait_for=position)
        await client.delete("/messagegroups/g", epoch=group["epoch"])
        return f"{names} {meta} {is_replica(group)}"


async def use_documents(client: Client) -> bytes:
    document: Document = await client.document("/schemagroups/g/schemas/s")
    metadata = {"format": "Protobuf/3"}
    changed = await client.put_document(
        "/schemagroups/g/schemas/s",
        document.content + b"\n",
        content_type=document.content_type,
        metadata=metadata,
        etag=document.etag,
    )
    return changed.content


async def use_catalogs(client: Client) -> None:
    exported: JsonObject = await client.export("/messagegroups", own=True)
    await client.import_groups({"messagegroups": exported["messagegroups"]}, overwrite=True)
    model: JsonObject = await client.model()
    await client.put_modelsource(await client.modelsource())
    await client.capabilities()
    await client.update_capabilities({"pagination": True})
    conforms: bool = (await client.validate("/messagegroups/g/messages/m", {}))["valid"]
    answer: Answer = await client.request("GET", "/services", params={"name": "a"})
    assert model
    assert conforms
    assert answer.is_json


async def use_replication(client: Client) -> list[DigestRow]:
    link: LinkAnswer = await client.add_link(NewLink(source="http://127.0.0.1:8080"))
    conflicts: list[CopyConflict] = await client.conflicts(link.id)
    page: Changes = await client.changes(await client.cursor(), wait_seconds=20)
    assert [*conflicts, *page.copies, page.cursor, (await client.handshake()).authority]
    return await client.digest_rows()


async def use_feed(client: Client, cursor: str) -> str:
    page: Changes
    async for page in client.follow(cursor, selection=CopyQuery(type=["schemagroups/schemas"])):
        return page.cursor
    return cursor


def use_without_asyncio(url: str) -> list[str]:
    with SyncClient.open(url, token="secret", timeout_seconds=5, retry=RETRY) as client:
        message: JsonObject = client.create("/messagegroups/g/messages/m", {"name": "n"})
        message = client.update(message["xid"], {"name": None}, epoch=message["epoch"])
        caller: Whoami = client.call(WHOAMI)
        page: Changes = next(client.follow(client.cursor()))
        subject: str = next(client.events())["subject"]
        ids: list[str] = [id for id, _ in client.items("/messagegroups", sort="name")]
        return [*ids, subject, page.cursor, str(caller.name), message["xid"]]


async def use_events(client: Client) -> str:
    async for event in client.events(EventsQuery(type=["io.xregistry.resource.created"])):
        subject: str = event["subject"]
        return subject
    return ""


def use_signatures(headers: dict[str, str], body: bytes) -> str:
    try:
        verify(headers, body, "whpk_key")
    except SignatureInvalid as invalid:
        return f"{invalid.message} {invalid.hint}"
    return headers["webhook-id"]


async def use_errors(url: str) -> list[str]:
    try:
        async with Client.open(url, retry=ONCE) as client:
            await client.entity("/nothing/there")
    except Refused as refused:
        problem: Problem = refused.problem
        violations: tuple[Violation, ...] = problem.violations
        assert problem.status == 404
        return [violation.name for violation in violations]
    except Unreachable as error:
        return [error.message] if error.is_doubtful else []
    except ClientError as error:
        return [error.hint] if error.is_retryable else []
    return []
