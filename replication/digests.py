"""Serves digests, which two catalogs compare to find the entities that differ."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.responses import json_response
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.errors import BadRequest
from catalog.store import digests
from catalog.store.changes import read_head
from catalog.store.database import Connection
from replication.feed import cursor_at, limited_streams, read_number, write_chunks

_COLUMNS = ("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket")


async def get_digests(request: web.Request) -> web.StreamResponse:
    """`GET /replication/digests`: all buckets' fingerprints, or rows with `format=csv`."""
    context = request.app[CONTEXT]
    match request.query.get("format", "json"):
        case "json":
            return await _send_buckets(context)
        case "csv":
            return await _send_rows(request, context)
        case _:
            raise BadRequest(request.path, error_detail='"format" needs to be json or csv')


async def _send_buckets(context: Context) -> web.Response:
    async with context.database.snapshot() as connection:
        head = await read_head(connection)
        buckets = await digests.read_buckets(connection)
    return json_response(
        {
            "digestversion": DIGEST_VERSION,
            "buckets": [[b.number, b.count, b.fingerprint] for b in buckets],
        },
        headers={"Concord-Cursor": cursor_at(context, head.now)},
    )


async def _send_rows(request: web.Request, context: Context) -> web.StreamResponse:
    start = read_number(request, "from", 0)
    stop = read_number(request, "to", BUCKETS)
    if not start <= stop <= BUCKETS:
        raise BadRequest(
            request.path, error_detail=f'"from" must not exceed "to", nor "to" {BUCKETS}'
        )
    verify = request.query.get("verify", "false")
    if verify not in ("true", "false"):
        raise BadRequest(request.path, error_detail='"verify" needs to be true or false')
    async with limited_streams(context.database), context.database.snapshot() as connection:
        head = await read_head(connection)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/csv; charset=utf-8",
                "Concord-Cursor": cursor_at(context, head.now),
            }
        )
        await response.prepare(request)
        await response.write(",".join(_COLUMNS).encode() + b"\n")
        if verify == "true":
            await write_chunks(response, _computed_lines(connection, start, stop))
        else:
            await digests.copy_rows(connection, start, stop, response.write)
    await response.write_eof()
    return response


async def _computed_lines(connection: Connection, start: int, stop: int) -> AsyncIterator[bytes]:
    async for row in digests.stream_computed(connection, start, stop):
        flag, digest = "true" if row.deleted else "false", row.digest.hex()
        values = (row.authority, row.origin, row.xid, row.epoch, flag, digest, row.bucket)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        yield text.getvalue().encode()
