"""Serves digests, which two catalogs compare to find the entities that differ."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncGenerator
from functools import partial

from aiohttp import hdrs, web

from catalog.context import CONTEXT, Context
from catalog.http.deadline import bounded
from catalog.http.responses import json_response
from catalog.http.stream import in_pieces, stream_share, write_piece
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.errors import BadRequest
from catalog.store import digests
from catalog.store.changes import read_head
from catalog.store.database import Connection
from replication.feed import cursor_at, read_number

_COLUMNS = ("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket")


@bounded
async def get_digests(request: web.Request) -> web.StreamResponse:
    """`GET /replication/digests`: all buckets' fingerprints, or rows with `format=csv`."""
    context = request.app[CONTEXT]
    match request.query.get("format", "json"):
        case "json":
            return await _send_buckets(request, context)
        case "csv":
            return await _send_rows(request, context)
        case _:
            raise BadRequest(request.path, error_detail='"format" needs to be json or csv')


async def _send_buckets(request: web.Request, context: Context) -> web.Response:
    database = context.database
    async with stream_share(request), database.snapshot(database.pools.streams) as connection:
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
    database = context.database
    async with stream_share(request), database.snapshot(database.pools.streams) as connection:
        head = await read_head(connection)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/csv; charset=utf-8",
                "Concord-Cursor": cursor_at(context, head.now),
            }
        )
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        write = partial(write_piece, request, response)
        await write(",".join(_COLUMNS).encode() + b"\n")
        if verify == "true":
            async for piece in in_pieces(_computed_lines(connection, start, stop)):
                await write(piece)
        else:
            await digests.copy_rows(connection, start, stop, write)
        await response.write_eof()
    return response


async def _computed_lines(connection: Connection, start: int, stop: int) -> AsyncGenerator[bytes]:
    async for row in digests.stream_computed(connection, start, stop):
        flag, digest = "true" if row.deleted else "false", row.digest.hex()
        values = (row.authority, row.origin, row.xid, row.epoch, flag, digest, row.bucket)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        yield text.getvalue().encode()
