"""The schemas of the benchmarks of the Confluent API, and catalogs that are full of them.

To register 100,000 schemas takes longer than everything else, so their rows are written before the
node starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from catalog.dialects.confluent.candidates import guid_of
from catalog.model.caller import node_caller
from catalog.model.entity import Entity
from catalog.node.noderuntime import open_database
from catalog.settings import Settings
from catalog.store.database import Connection
from catalog.store.writes import Write, write

_AT_ONCE = 5000


def text(number: int) -> str:
    """A schema of about 500 bytes, in canonical form."""
    fields = [
        {"name": f"value{field}", "type": ["null", "double"], "doc": "What a sensor measures."}
        for field in range(5)
    ]
    schema = {
        "type": "record",
        "name": f"Reading{number}",
        "namespace": "com.example.stations",
        "fields": [{"name": "station", "type": "string"}, *fields],
    }
    return orjson.dumps(schema).decode()


def guid(number: int) -> str:
    return guid_of(text(number), (), None, None)


async def fill(data: Path, groups: Mapping[str, int]) -> None:
    """Write contexts with so many subjects, each with a version, into a new database."""
    async with (
        open_database(Settings(data_dir=data)) as database,
        database.transaction() as connection,
    ):
        authority = database.node.authority
        for name, count in groups.items():
            group = f"/schemagroups/{name}"
            context = {"confluent": {"reserved": count}}
            await _write(connection, [_entity(authority, group, "group", context)])
            for first in range(0, count, _AT_ONCE):
                numbers = range(first, min(first + _AT_ONCE, count))
                made = [_subject(authority, group, number) for number in numbers]
                await _write(connection, [each for both in made for each in both])
        # As autovacuum does within minutes.
        await connection.execute("ANALYZE")


async def _write(connection: Connection, entities: list[Entity]) -> None:
    author = node_caller().author
    rows = Write(interaction="i", at=entities[0].modifiedat, author=author, entities=entities)
    await write(connection, rows)


def _subject(authority: str, group: str, number: int) -> tuple[Entity, Entity]:
    xid = f"{group}/schemas/s{number}"
    meta = {"defaultversionid": "1", "defaultversionsticky": False}
    version = {
        "format": "Avro",
        "contenttype": "application/json",
        "ancestorid": "1",
        "formatvalidated": True,
        "confluent": {
            "id": number + 1,
            "guid": guid(number),
            "schemaType": "AVRO",
        },
    }
    return (
        _entity(authority, xid, "resource", meta),
        _entity(authority, f"{xid}/versions/1", "version", version, document=text(number).encode()),
    )


def _entity(authority: str, xid: str, kind: Any, attributes: Any, **more: Any) -> Entity:
    now = datetime.now(UTC)
    return Entity(
        xid=xid,
        kind=kind,
        authority=authority,
        origin=xid,
        epoch=1,
        attributes=attributes,
        createdat=now,
        modifiedat=now,
        **more,
    ).sealed()
