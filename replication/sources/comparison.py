"""Compares what a link may bring with its source, by digests: from merged buckets to origins."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Protocol

import orjson

from catalog.client import Answer, BadAnswer, Client, ClientError, JsonObject, Unreachable
from catalog.context import Context
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.model.linkterms import is_scope
from catalog.model.xid import group_path
from catalog.operations.feed import MOST_RANGES
from catalog.operations.peers import MOST_NAMED
from catalog.store import digests, handovers
from catalog.store.digests import DigestSelection
from replication.deciding.pinning import policy_within
from replication.deciding.provenance import Policy
from replication.peers.handshake import may_pass
from replication.peers.linkbounds import Allowance
from replication.sources.bucketcomparison import (
    EVERYWHERE,
    LEVELS,
    BucketDifference,
    BucketRanges,
    Buckets,
    as_text,
    divided,
    find_difference,
)
from replication.sources.pull import Flow

_PATH = "/replication/digests"
_MOST_DIFFERING = 100_000
# What one answer about merged buckets is about.
_MOST_MERGED = 1 << 14
MOST_LISTED = 1 << 11
"""The most buckets of one list of rows."""
_MOST_EPOCH = 2**62


class LinkEnds(Protocol):
    """The two catalogs that are compared: this node, and a peer of it."""

    @property
    def context(self) -> Context: ...

    @property
    def peer(self) -> Client: ...


@dataclass(frozen=True, slots=True)
class OriginState:
    """The state of an origin at a catalog."""

    epoch: int
    is_deleted: bool
    digest: bytes


@dataclass(frozen=True, slots=True)
class DifferingOrigin:
    """An origin whose states differ; `None` stands for nothing, not even a tombstone."""

    origin: Origin
    here: OriginState | None
    there: OriginState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Differences:
    """The origins whose states differ, of so many `rows` of the other catalog.

    `cursor` is the end of the other catalog's feed before anything was compared.
    """

    cursor: str
    rows: int
    differing: Sequence[DifferingOrigin]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison:
    """The differences among the entities that a link may bring, and the number of rows in all.

    `cursor` is the end of the source's feed before anything was compared. `policy` is the link's
    among the others.
    """

    cursor: str
    rows: int
    differing: Sequence[DifferingOrigin]
    policy: Policy


async def compare(flow: Flow, *, is_whole: bool = False) -> SourceComparison | None:
    """Compare a link's replicas with its source.

    Args:
        is_whole: list all that the source has, if nothing is here.

    Returns:
        `None` if only a complete copy helps: nothing is here, the source offers no such digests,
        or too much differs to be listed.

    Raises:
        ClientError: the source does not answer now.
    """
    try:
        return await _compare(flow, is_whole=is_whole)
    except ClientError as error:
        if may_pass(error):
            raise
        return None


async def _compare(flow: Flow, *, is_whole: bool) -> SourceComparison | None:
    began = datetime.now(UTC)
    async with flow.context.database.acquire() as connection:
        policy = await policy_within(connection, flow.policy, flow.policy.authorities)
    cursor, authorities = await _authorities(flow, policy)
    if not 0 < len(authorities) <= MOST_NAMED:
        return None
    selectors = {"types": policy.types, "labels": policy.labels}
    if any(given and name not in flow.source.offers for name, given in selectors.items()):
        return None
    wanted = DigestSelection(
        authorities=authorities, scope=policy.scope, types=policy.types, labels=policy.labels
    )
    found = await find_differences(flow, wanted, is_whole=is_whole)
    if found is None:
        return None
    async with flow.context.database.acquire() as connection:
        given = await handovers.read_given(connection, policy.sender, began)
    return SourceComparison(
        cursor=cursor or found.cursor,
        rows=found.rows,
        differing=[each for each in found.differing if not _is_on_its_way(each, policy, given)],
        policy=policy,
    )


def _is_on_its_way(each: DifferingOrigin, policy: Policy, given: Collection[str]) -> bool:
    """Whether the source lacks an origin because it has not taken its group, which was given."""
    is_its_own = policy.is_own_word(each.origin)
    return each.there is None and is_its_own and group_path(each.origin.xid) in given


async def find_differences(
    flow: LinkEnds, wanted: DigestSelection, *, is_whole: bool = False
) -> Differences | None:
    """Compare a selection here with the same at the other catalog; see `compare`."""
    found = await descend(flow, wanted, is_whole=is_whole)
    if found is None:
        return None
    differing = await _list_differing(flow, wanted, found.difference)
    if differing is None:
        return None
    return Differences(cursor=found.cursor, rows=found.rows, differing=differing)


async def _authorities(flow: Flow, policy: Policy) -> tuple[str, list[str]]:
    """The authorities to compare, and the cursor before they were asked for, if they were."""
    cursor, named = "", sorted(policy.authorities or ())
    if policy.authorities is None:
        answer = await flow.peer.request("GET", _PATH, params={"format": "authorities"})
        # A source that has lost everything names nothing.
        found = [*_read_authorities(flow, answer), policy.sender]
        cursor, named = _cursor_of(flow, answer), [*dict.fromkeys(found)]
    direct = {
        authority
        for each in policy.direct
        if not (each.scope or each.types)
        for authority in each.authorities or ()
    }
    excluded = {policy.own, *direct - {policy.sender}}
    return cursor, [authority for authority in named if authority not in excluded]


async def read_authorities(source: LinkEnds) -> list[str]:
    """Read the authorities that a source has entities of; one more than it names at most.

    Raises:
        ClientError
    """
    answer = await source.peer.request("GET", _PATH, params={"format": "authorities"})
    return _read_authorities(source, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """The ranges of buckets that differ, of so many rows, and the cursor of the first answer."""

    cursor: str
    rows: int
    difference: BucketDifference


async def descend(
    flow: LinkEnds, wanted: DigestSelection, *, is_whole: bool = False
) -> Descent | None:
    """Find the ranges of buckets that differ; `None` if nothing is here, unless it `is_whole`.

    The cursor is of the first answer: whatever changes at the source after it, the feed brings.
    """
    cursor, rows, difference = "", 0, BucketDifference(ranges=EVERYWHERE, rows=0)
    for bits in LEVELS:
        here = await _merged_here(flow, replace(wanted, ranges=difference.ranges), bits)
        if bits == LEVELS[0] and not (here or is_whole):
            return None
        there, at = await _merged_there(flow, wanted, difference.ranges, bits)
        if not cursor:
            cursor, rows = at, sum(count for count, _ in there.values())
        difference = find_difference(here, there, bits)
        if difference.is_small:
            break
    return Descent(cursor=cursor, rows=rows, difference=difference)


async def _merged_here(flow: LinkEnds, selection: DigestSelection, bits: int) -> Buckets:
    async with flow.context.database.snapshot() as connection:
        merged = await digests.read_merged(connection, selection, bits)
    return {bucket.number: (bucket.count, bucket.fingerprint) for bucket in merged}


async def _merged_there(
    flow: LinkEnds, wanted: DigestSelection, ranges: BucketRanges, bits: int
) -> tuple[Buckets, str]:
    """The merged buckets of the source, and the cursor of the first answer about them."""
    found: dict[int, tuple[int, int]] = {}
    cursor = ""
    for part in divided(ranges, MOST_RANGES, _MOST_MERGED * (BUCKETS >> bits)):
        params = [("bits", str(bits)), ("ranges", as_text(part)), *_filters(wanted)]
        answer = await flow.peer.merged_digests(params)
        cursor = cursor or _cursor_of(flow, answer)
        found |= _read_merged(flow, answer, bits)
    return found, cursor


async def _list_differing(
    flow: LinkEnds, wanted: DigestSelection, difference: BucketDifference
) -> list[DifferingOrigin] | None:
    """The origins that differ in ranges of buckets; `None` if they are too many."""
    allowance = Allowance.of(flow.context.settings)
    differing: list[DifferingOrigin] = []
    most = BUCKETS if difference.is_small else MOST_LISTED
    for part in divided(difference.ranges, MOST_RANGES, most):
        here = await rows_here(flow, replace(wanted, ranges=part))
        there = await rows_there(flow, wanted, part, allowance)
        differing += [
            DifferingOrigin(origin, here.get(origin), there.get(origin))
            for origin in {**here, **there}
            if here.get(origin) != there.get(origin)
        ]
        if len(differing) > _MOST_DIFFERING:
            return None
    return differing


async def rows_here(flow: LinkEnds, selection: DigestSelection) -> dict[Origin, OriginState]:
    """The rows of this node."""
    async with flow.context.database.snapshot() as connection:
        rows = await digests.load_rows_within(connection, selection)
    return {
        Origin(row.authority, row.origin): OriginState(row.epoch, row.deleted, row.digest)
        for row in rows
    }


async def rows_there(
    flow: LinkEnds, wanted: DigestSelection, ranges: BucketRanges, allowance: Allowance
) -> dict[Origin, OriginState]:
    """The rows of the source.

    Raises:
        Unreachable: the last line is missing, so rows may be missing as well.
    """
    found: dict[Origin, OriginState] = {}
    is_first, is_complete = True, False
    lines = flow.peer.digest_lines(as_text(ranges), _filters(wanted))
    async with contextlib.aclosing(lines):
        async for line in lines:
            if is_complete:
                raise ClientError("Something follows the cursor that ends a list of digests.")
            allowance.take(len(line))
            fields = _read_fields(flow, line)
            if len(fields) == 1:
                is_complete = True
            elif not is_first:
                origin, state = _read_row(flow, fields)
                found[origin] = state
            is_first = False
    if not is_complete:
        raise Unreachable(f"The answer of {flow.peer.url} broke off.", is_doubtful=True)
    return found


def _filters(wanted: DigestSelection) -> list[tuple[str, str]]:
    named = [("authority", authority) for authority in wanted.authorities or ()]
    scope = [("scope", path) for path in wanted.scope]
    types = [("type", each) for each in wanted.types]
    return named + scope + types + [("label", each) for each in wanted.labels]


def _cursor_of(flow: LinkEnds, answer: Answer) -> str:
    cursor = answer.headers.get("Concord-Cursor", "")
    if not cursor:
        raise _malformed(flow, "no cursor")
    return cursor


def _read_json(flow: LinkEnds, answer: Answer) -> JsonObject:
    try:
        found = orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise _malformed(flow, "no JSON") from error
    if not isinstance(found, dict):
        raise _malformed(flow, "no digests")
    return found


def _read_authorities(flow: LinkEnds, answer: Answer) -> list[str]:
    found = _read_json(flow, answer).get("authorities")
    if not isinstance(found, list) or not all(
        isinstance(each, str) and 0 < len(each) <= 1024 and "\0" not in each for each in found
    ):
        raise _malformed(flow, "no authorities")
    return found


def _read_merged(flow: LinkEnds, answer: Answer, bits: int) -> dict[int, tuple[int, int]]:
    """Read merged buckets; a source that does not know of them sends others, without `bits`."""
    found = _read_json(flow, answer)
    if found.get("bits") != bits or found.get("digestversion") != DIGEST_VERSION:
        raise _malformed(flow, "no merged digests")
    try:
        buckets = {number: (count, print) for number, count, print in found["buckets"]}
    except (KeyError, TypeError, ValueError) as error:
        raise _malformed(flow, "malformed digests") from error
    for number, (count, print) in buckets.items():
        if not {type(number), type(count), type(print)} == {int}:
            raise _malformed(flow, "malformed digests")
        if not (0 <= number < 1 << bits and 0 < count <= _MOST_EPOCH):
            raise _malformed(flow, "malformed digests")
    return buckets


def _read_fields(flow: LinkEnds, line: bytes) -> list[str]:
    try:
        [fields] = csv.reader([line.decode()], strict=True)
    except (ValueError, csv.Error) as error:
        raise _malformed(flow, "malformed rows") from error
    return fields


def _read_row(flow: LinkEnds, fields: list[str]) -> tuple[Origin, OriginState]:
    try:
        authority, path, _, epoch, deleted, digest, _ = fields
        state = OriginState(int(epoch), deleted in ("true", "t"), bytes.fromhex(digest))
    except ValueError as error:
        raise _malformed(flow, "malformed rows") from error
    if not (0 < len(authority) <= 1024 and is_scope(path) and 0 <= state.epoch <= _MOST_EPOCH):
        raise _malformed(flow, "malformed rows")
    return Origin(authority, path), state


def _malformed(flow: LinkEnds, content: str) -> BadAnswer:
    return BadAnswer(f"{flow.peer.url}{_PATH}", content)
