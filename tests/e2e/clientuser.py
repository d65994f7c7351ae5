"""A user's program, which runs in an environment that has the distribution of the client alone."""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import sys

import catalog.client
import catalog.model
import catalog.operations
from catalog.client import Client, KeyUnusable, Refused, SyncClient, verify
from catalog.operations.feed import CopyQuery
from catalog.operations.search import SearchQuery

GROUP = "/messagegroups/shop"
MESSAGE = f"{GROUP}/messages/order.placed"


def import_everything() -> None:
    for package in (catalog.client, catalog.model, catalog.operations):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)


async def write(url: str) -> str:
    """Create a message, change the message with an epoch, and return the cursor before both."""
    async with Client.open(url) as client:
        cursor = await client.cursor()
        await client.create(GROUP, {"name": "Shop"})
        made = await client.create(MESSAGE, {"envelope": "CloudEvents/1.0"})
        await client.update(MESSAGE, {"name": "Placed"}, epoch=made["epoch"])
        try:
            await client.update(MESSAGE, {"name": "Late"}, epoch=made["epoch"])
        except Refused as refused:
            print("refused:", refused.problem.name)
        selection = CopyQuery(type=["messagegroups/messages"])
        seen: set[str] = set()
        async for page in client.follow(cursor, selection=selection):
            seen |= {copy["xid"] for copy in page.copies}
            if MESSAGE in seen:
                break
        print("followed:", *sorted(seen))
        found = await client.search(SearchQuery(q="placed"))
        print("found:", *(hit.xid for hit in found.hits))
        return cursor


def read(url: str, cursor: str) -> None:
    with SyncClient.open(url) as client:
        for id, message in client.items(f"{GROUP}/messages"):
            print("read:", id, message["name"])
        for page in client.follow(cursor):
            print("followed again:", page.cursor != cursor)
            break
        client.delete(GROUP)


def verify_without_the_library() -> None:
    headers = {"webhook-id": "1", "webhook-timestamp": "1", "webhook-signature": "v1a,AA=="}
    try:
        verify(headers, b"", "whpk_" + 43 * "A")
    except KeyUnusable as unusable:
        print("hint:", unusable.hint)


if __name__ == "__main__":
    import_everything()
    read(sys.argv[1], asyncio.run(write(sys.argv[1])))
    verify_without_the_library()
