"""Serves digests, which two catalogs compare to find differing entities."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from aiohttp import hdrs, web

from catalog.context import CONTEXT, Context
from catalog.http.responses import json_response
from catalog.http.route import Route, model_response
from catalog.http.stream import in_pieces, stream_share, while_permitted, write_piece
from catalog.model.caller import node_caller
from catalog.model.digest import DIGEST_VERSION
from catalog.operations.feed import READ_DIGESTS, DigestAuthorities, DigestSchemaIds, DigestsQuery
from catalog.operations.operation import AnswerBody
from catalog.operations.peers import MOST_NAMED
from catalog.store import schemaids
from catalog.store.changes import Head, read_head
from catalog.store.database import Database
from replication.feed.feedrequests import at_head, check_complete
from replication.store import digests
from replication.store.digests import Bucket, DigestSelection
from replication.store.loghistory import read_cursor

MOST_AUTHORITIES = MOST_NAMED + 1
"""The limit of named authorities: one more than a filter may name."""
_NARROWED_COLUMNS = ("authority", "origin", "xid", "epoch", "deleted", "digest", "bucket")


async def get_digests(request: web.Request, query: DigestsQuery) -> web.StreamResponse:
    """Read fingerprints of buckets, or rows with `format=csv`.

    With `bits`, buckets are merged by the first bits, and tombstones count as well. With `ranges`,
    merged buckets and rows are limited to some buckets, and may be restricted to an
    `authority`, a `scope` or a `type` like the feed, and further by a `label`; the last line of
    restricted rows is the cursor, which tells a reader that the rows are complete. Rows of every
    bucket, or of the buckets `from` one number `to` another, have computed digests with
    `verify=true`, and columns for signatures with `signatures=true`. `format=authorities` names
    the authorities, and `format=schemaids` the schema ids that name several schemas.
    """
    context = request[CONTEXT]
    pools = context.database.pools
    match query.format:
        case "csv":
            return await _send_rows(request, context, query)
        case "json" if query.bits is not None:
            return await _send_merged(request, context, _selection_of(query), query.bits)
        case "json":
            async with (
                stream_share(request),
                at_head(context, pools.streams) as (connection, _, cursor),
            ):
                return _answer(await digests.read_buckets(connection), None, cursor)
        case "authorities":
            async with at_head(context, pools.feed) as (connection, _, cursor):
                named = await digests.read_authorities(connection, MOST_AUTHORITIES)
            found: AnswerBody = DigestAuthorities(authorities=named)
        case "schemaids":
            async with at_head(context, pools.feed) as (connection, _, cursor):
                found = DigestSchemaIds(schemaids=await schemaids.find_conflicts(connection))
    return model_response(found, headers={"Concord-Cursor": cursor})


async def _send_merged(
    request: web.Request, context: Context, selection: DigestSelection, bits: int
) -> web.Response:
    database, authorities = context.database, selection.authorities
    if selection.may_be_shared(bits) and not database.caller.is_restricted:
        found = await shared_fingerprints(context, selection.max_age)
        check_complete(context, found.head, authorities, request.path)
        return _answer(found.merged(authorities), bits, found.cursor)
    pool = database.pools.streams
    async with stream_share(request), at_head(context, pool) as (connection, head, cursor):
        check_complete(context, head, authorities, request.path)
        return _answer(await digests.read_merged(connection, selection, bits), bits, cursor)


def _answer(buckets: Iterable[Bucket], bits: int | None, cursor: str) -> web.Response:
    shown = {
        "digestversion": DIGEST_VERSION,
        **({} if bits is None else {"bits": bits}),
        "buckets": [[b.number, b.count, b.fingerprint] for b in buckets],
    }
    return json_response(shown, headers={"Concord-Cursor": cursor})


def _selection_of(query: DigestsQuery) -> DigestSelection:
    return DigestSelection(
        ranges=query.ranges,
        authorities=sorted(set(query.authority)) or None,
        scope=tuple(query.scope),
        types=tuple(query.type),
        labels=query.label,
        max_age=query.maxage,
    )


async def _send_rows(
    request: web.Request, context: Context, query: DigestsQuery
) -> web.StreamResponse:
    selection = _selection_of(query) if query.is_narrowed else None
    start, stop, is_signed = query.start, query.stop, query.signatures
    columns: Sequence[str] = digests.COLUMNS
    pool = context.database.pools.streams
    if query.is_narrowed or is_signed:
        columns = _NARROWED_COLUMNS if query.is_narrowed else digests.SIGNED_COLUMNS
    async with stream_share(request), at_head(context, pool) as (connection, head, cursor):
        if selection is not None:
            check_complete(context, head, selection.authorities, request.path)
        headers = {"Content-Type": "text/csv; charset=utf-8", "Concord-Cursor": cursor}
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        if request.method == hdrs.METH_HEAD:
            return response
        write = partial(write_piece, request, response)
        async with while_permitted(request):
            await write(",".join(columns).encode() + b"\n")
            if query.verify:
                lines = digests.compute_rows(connection, start, stop, is_signed=is_signed)
                async for piece in in_pieces(lines):
                    await write(piece)
            elif selection is not None:
                await digests.copy_rows_within(connection, selection, write)
                await write(cursor.encode() + b"\n")
            else:
                await digests.copy_rows(connection, start, stop, write, is_signed=is_signed)
            await response.write_eof()
    return response


routes: Sequence[Route] = (Route(READ_DIGESTS, get_digests),)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedFingerprints:
    """The fingerprints of each authority at the cursor, read at the time `at` of the event loop."""

    at: float
    head: Head
    cursor: str
    by_authority: Mapping[str, Mapping[int, Bucket]]

    def merged(self, authorities: Sequence[str] | None) -> list[Bucket]:
        """The buckets of authorities, as `digests.read_merged`; `None` stands for all."""
        named = self.by_authority if authorities is None else {*authorities}
        found: dict[int, Bucket] = {}
        for authority in named:
            for number, bucket in self.by_authority.get(authority, {}).items():
                held = found.get(number)
                found[number] = bucket if held is None else held.plus(bucket)
        return [found[number] for number in sorted(found)]


@dataclass(slots=True)
class _Latest:
    found: SharedFingerprints | None = None
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


async def shared_fingerprints(context: Context, max_age: float) -> SharedFingerprints:
    """The fingerprints of the whole catalog, at most `max_age` seconds old."""
    shared, loop = context.database.shared, asyncio.get_running_loop()
    latest = shared.part(_Latest, _Latest)
    # Readers that come during a read wait for its result, instead of each reading the catalog.
    async with latest.reading:
        found = latest.found
        if found is None or loop.time() - found.at > max_age:
            # The time before the snapshot, so that the fingerprints are never older than stated.
            at, database = loop.time(), Database(shared, node_caller())
            async with database.snapshot(database.pools.streams) as connection:
                head = await read_head(connection)
                cursor = await read_cursor(connection, database.node.instance, head.now)
                by_authority = await digests.read_merged_by_authority(connection)
            found = latest.found = SharedFingerprints(
                at=at, head=head, cursor=str(cursor), by_authority=by_authority
            )
        return found
