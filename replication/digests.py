"""Serves digests, which two catalogs compare to find the entities that differ."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import AsyncGenerator
from functools import partial

from aiohttp import hdrs, web

from catalog.context import CONTEXT, Context
from catalog.http.responses import json_response
from catalog.http.stream import in_pieces, stream_share, write_piece
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.errors import BadRequest
from catalog.store import digests
from catalog.store.changes import read_head
from catalog.store.database import Connection
from catalog.store.digests import DigestSelection
from replication.feed import MOST_NAMED, check_complete, cursor_at, read_filter, read_number
from replication.wire import is_label

MOST_BITS = 16
"""The bits of the number of a bucket."""
MOST_RANGES = 250
"""Ranges of buckets in one request."""
MOST_AUTHORITIES = MOST_NAMED + 1
"""The most authorities that are named: one more than a filter may name."""
_RANGE = re.compile(r"([0-9]{1,5})-([0-9]{1,5})")
_NARROWING = {"ranges", "authority", "scope", "type", "label"}
_COLUMNS = ("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket")
_SIGNED_COLUMNS = (*_COLUMNS, "signature", "signedby")


async def get_digests(request: web.Request) -> web.StreamResponse:
    """`GET /replication/digests`: all buckets' fingerprints, or rows with `format=csv`.

    With `bits`, fingerprints are those of buckets merged by their first bits, and count tombstones,
    too. With `ranges`, merged buckets and rows are those of some buckets, and may be restricted to
    an `authority`, a `scope` or a `type` as the feed is; the last line of such rows is the cursor,
    so that a reader knows that it has all of them. A `label` restricts them further. Rows of all
    buckets, or of those `from` one up to another, have computed digests with `verify=true`, and
    columns for signatures with `signatures=true`.
    `format=authorities` names the authorities.
    """
    context = request.app[CONTEXT]
    match request.query.get("format", "json"):
        case "json" if "bits" in request.query:
            return await _send_merged(request, context)
        case "json":
            return await _send_buckets(request, context)
        case "csv":
            return await _send_rows(request, context)
        case "authorities":
            return await _send_authorities(request, context)
        case _:
            detail = '"format" needs to be json, csv or authorities'
            raise BadRequest(request.path, error_detail=detail)


async def _send_buckets(request: web.Request, context: Context) -> web.Response:
    database = context.database
    async with stream_share(request), database.snapshot(database.pools.streams) as connection:
        head = await read_head(connection)
        cursor = await cursor_at(context, connection, head.now)
        buckets = await digests.read_buckets(connection)
    return json_response(
        {
            "digestversion": DIGEST_VERSION,
            "buckets": [[b.number, b.count, b.fingerprint] for b in buckets],
        },
        headers={"Concord-Cursor": cursor},
    )


async def _send_merged(request: web.Request, context: Context) -> web.Response:
    bits = read_number(request, "bits", MOST_BITS)
    if bits > MOST_BITS:
        raise BadRequest(request.path, error_detail=f'"bits" must not exceed {MOST_BITS}')
    selection, database = _read_selection(request), context.database
    async with stream_share(request), database.snapshot(database.pools.streams) as connection:
        head = await read_head(connection)
        check_complete(context, head, selection.authorities, request.path)
        cursor = await cursor_at(context, connection, head.now)
        buckets = await digests.read_merged(connection, selection, bits)
    return json_response(
        {
            "digestversion": DIGEST_VERSION,
            "bits": bits,
            "buckets": [[b.number, b.count, b.fingerprint] for b in buckets],
        },
        headers={"Concord-Cursor": cursor},
    )


async def _send_authorities(request: web.Request, context: Context) -> web.Response:
    """Send the authorities of entities and tombstones."""
    async with context.database.snapshot(context.database.pools.feed) as connection:
        head = await read_head(connection)
        cursor = await cursor_at(context, connection, head.now)
        found = await digests.read_authorities(connection, MOST_AUTHORITIES)
    headers = {"Concord-Cursor": cursor}
    return json_response({"authorities": found}, headers=headers)


def _read_selection(request: web.Request) -> DigestSelection:
    """The parameters `ranges`, as `0-256,512-768`, `authority`, `scope`, `type` and `label`."""
    wanted = read_filter(request)
    text = request.query.get("ranges", f"0-{BUCKETS}")
    parts = [_RANGE.fullmatch(part) for part in text.split(",", MOST_RANGES)]
    ranges = [(int(part[1]), int(part[2])) for part in parts if part is not None]
    bounds = [bound for each in ranges for bound in each]
    is_read = len(ranges) == len(parts) <= MOST_RANGES
    if not is_read or bounds != sorted(bounds) or bounds[-1] > BUCKETS:
        detail = (
            f'"ranges" needs to be up to {MOST_RANGES} ranges of buckets in order, as 0-256,512-768'
        )
        raise BadRequest(request.path, error_detail=detail)
    authorities = None if wanted.authorities is None else sorted(wanted.authorities)
    labels = request.query.getall("label", [])
    if len(labels) > MOST_NAMED or not all(map(is_label, labels)):
        detail = f'"label" needs to be up to {MOST_NAMED} labels, as name or name=value'
        raise BadRequest(request.path, error_detail=detail)
    return DigestSelection(
        ranges=ranges,
        authorities=authorities,
        scope=wanted.scope,
        types=wanted.types,
        labels=labels,
    )


async def _send_rows(request: web.Request, context: Context) -> web.StreamResponse:
    selection = _read_selection(request) if _NARROWING & request.query.keys() else None
    start = read_number(request, "from", 0)
    stop = read_number(request, "to", BUCKETS)
    if not start <= stop <= BUCKETS:
        raise BadRequest(
            request.path, error_detail=f'"from" must not exceed "to", nor "to" {BUCKETS}'
        )
    verify = _read_switch(request, "verify", selection)
    is_signed = _read_switch(request, "signatures", selection)
    database = context.database
    async with stream_share(request), database.snapshot(database.pools.streams) as connection:
        head = await read_head(connection)
        if selection is not None:
            check_complete(context, head, selection.authorities, request.path)
        cursor = await cursor_at(context, connection, head.now)
        response = web.StreamResponse(
            headers={
                "Content-Type": "text/csv; charset=utf-8",
                "Concord-Cursor": cursor,
            }
        )
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        write = partial(write_piece, request, response)
        await write(",".join(_SIGNED_COLUMNS if is_signed else _COLUMNS).encode() + b"\n")
        if verify:
            lines = _computed_lines(connection, start, stop, is_signed=is_signed)
            async for piece in in_pieces(lines):
                await write(piece)
        elif selection is not None:
            await digests.copy_rows_within(connection, selection, write)
            await write(cursor.encode() + b"\n")
        else:
            await digests.copy_rows(connection, start, stop, write, is_signed=is_signed)
        await response.write_eof()
    return response


def _read_switch(request: web.Request, name: str, selection: DigestSelection | None) -> bool:
    """A parameter of rows that are not narrowed."""
    text = request.query.get(name, "false")
    if text not in ("true", "false"):
        raise BadRequest(request.path, error_detail=f'"{name}" needs to be true or false')
    if selection is not None and text == "true":
        raise BadRequest(request.path, error_detail=f'"{name}" takes "from" and "to" only')
    return text == "true"


async def _computed_lines(
    connection: Connection, start: int, stop: int, *, is_signed: bool
) -> AsyncGenerator[bytes]:
    async for row in digests.stream_computed(connection, start, stop):
        flag, digest = "true" if row.deleted else "false", row.digest.hex()
        signed = ((row.signature or b"").hex(), row.signedby or "") if is_signed else ()
        values = (row.authority, row.origin, row.xid, row.epoch, flag, digest, row.bucket, *signed)
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerow(values)
        yield text.getvalue().encode()
