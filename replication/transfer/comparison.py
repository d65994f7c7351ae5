"""Compares the selection of a link in two catalogs by digests, from merged buckets to origins."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from catalog.client import Answer, BadAnswer, Client, ClientError, Unreachable
from catalog.context import Context
from catalog.model.digest import BUCKETS, DIGEST_VERSION
from catalog.model.entity import Origin
from catalog.model.linkterms import is_scope
from catalog.model.xid import depth
from catalog.operations.feed import MOST_AGE_SECONDS, MOST_RANGES, BucketDigests, DigestAuthorities
from replication.feed.digestrequests import shared_fingerprints
from replication.peers.linkbounds import Allowance
from replication.store import digests
from replication.store.digests import SHARED_BITS, DigestSelection

Buckets = Mapping[int, tuple[int, int]]
"""The number of rows and the fingerprint of each merged bucket that is not empty."""
BucketRanges = Sequence[tuple[int, int]]
"""Ranges of buckets in order, each with its first bucket and the bucket after its last."""

LEVELS = (SHARED_BITS, 12, 16)
"""The bits by which buckets are merged, level by level."""
EVERYWHERE: BucketRanges = ((0, BUCKETS),)
_FEW_ROWS = 1000
_DIGESTS = "/replication/digests"
_MOST_DIFFERING = 100_000
# Of one answer about buckets that are merged into larger ones.
_MOST_MERGED = 1 << 14
# The most buckets whose rows are listed by one request.
_MOST_LISTED = 1 << 11
_MOST_EPOCH = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketDifference:
    """The ranges of buckets that differ, with the greater number of rows of the two sides."""

    ranges: BucketRanges
    rows: int

    @property
    def is_small(self) -> bool:
        """Whether a list of the rows costs no more than a finer comparison."""
        return self.rows <= _FEW_ROWS


def find_difference(here: Buckets, there: Buckets, bits: int) -> BucketDifference:
    """Find the buckets, merged by their first bits, that differ between two catalogs."""
    nothing = (0, 0)
    differing = [
        number
        for number in sorted({*here, *there})
        if here.get(number, nothing) != there.get(number, nothing)
    ]
    rows = sum(max(here.get(n, nothing)[0], there.get(n, nothing)[0]) for n in differing)
    width = BUCKETS >> bits
    return BucketDifference(
        ranges=_joined((n * width, (n + 1) * width) for n in differing), rows=rows
    )


def divided(ranges: BucketRanges, most_ranges: int, most_buckets: int) -> Iterator[BucketRanges]:
    """Divide ranges into parts of at most `most_ranges` ranges and `most_buckets` buckets."""
    part: list[tuple[int, int]] = []
    rest = most_buckets
    for begin, stop in ranges:
        start = begin
        while start < stop:
            end = min(stop, start + rest)
            part.append((start, end))
            rest -= end - start
            start = end
            if not rest or len(part) == most_ranges:
                yield part
                part, rest = [], most_buckets
    if part:
        yield part


def as_text(ranges: BucketRanges) -> str:
    """The parameter `ranges` of a request."""
    return ",".join(f"{start}-{stop}" for start, stop in ranges)


def _joined(ranges: Iterator[tuple[int, int]]) -> BucketRanges:
    joined: list[tuple[int, int]] = []
    for start, stop in ranges:
        if joined and joined[-1][1] == start:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    return joined


class LinkEnds(Protocol):
    """The two catalogs of a comparison: this node, and a peer."""

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

    def __str__(self) -> str:
        return f"{'deleted at' if self.is_deleted else 'epoch'} {self.epoch}"


@dataclass(frozen=True, slots=True)
class DifferingOrigin:
    """An origin whose states differ; `None` means that not even a tombstone exists."""

    origin: Origin
    here: OriginState | None
    there: OriginState | None

    def __str__(self) -> str:
        here, there = self.here or "missing", self.there or "missing"
        is_other = str(here) == str(there)
        states = f"{here}, other content" if is_other else f"{here} here, {there} there"
        return f"{self.origin.xid} of {self.origin.authority} ({states})"


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestComparison:
    """The origins whose states differ, and the number of rows of the other catalog.

    Args:
        cursor: the cursor from before the comparison.
        wanted: the origins to copy, in order.
    """

    cursor: Any
    rows: int
    differing: Sequence[DifferingOrigin]
    wanted: Sequence[Origin] = ()


def unsettled(
    differing: Iterable[DifferingOrigin], authority: str, *, sends: bool
) -> list[DifferingOrigin]:
    """The differences that a current link must not leave.

    The receiver has the sender's own entities in the same state. Entities that the sender relays
    may have come to the receiver in a newer state by another link, but not in an older one.

    Args:
        authority: the authority of the sender, which is this node if it `sends`.
    """
    return [each for each in differing if _is_unsettled(each, authority, sends=sends)]


def _is_unsettled(each: DifferingOrigin, authority: str, *, sends: bool) -> bool:
    sent, held = (each.here, each.there) if sends else (each.there, each.here)
    # Each catalog drops its tombstones by its own clock.
    if all(state is None or state.is_deleted for state in (sent, held)):
        return False
    if each.origin.authority == authority:
        return True
    return sent is not None and (held is None or held.epoch <= sent.epoch)


def in_copy_order(states: Mapping[Origin, OriginState | None]) -> list[Origin]:
    """Origins in the order of their copies: deletions first, the deepest first, then parents first.

    Args:
        states: the states at the sender.
    """

    def order(origin: Origin) -> tuple[bool, int, str]:
        state, level = states[origin], depth(origin.xid)
        is_deleted = state is None or state.is_deleted
        return not is_deleted, -level if is_deleted else level, origin.xid

    return sorted(states, key=order)


async def find_differences(
    flow: LinkEnds, wanted: DigestSelection, *, is_whole: bool = False
) -> DigestComparison | None:
    """Compare a selection of this node with the same selection of the other catalog, by digests.

    Args:
        is_whole: if this node has no entity of the selection, list every entity of the other
            catalog.

    Returns:
        `None` if this node has no entity of the selection, or too much differs to be listed.

    Raises:
        ClientError: the other catalog does not answer, or offers no such digests.
    """
    found = await descend(flow, wanted, is_whole=is_whole)
    if found is None:
        return None
    differing: list[DifferingOrigin] = []
    async for part in list_differing(flow, wanted, found.difference):
        differing += part
        if len(differing) > _MOST_DIFFERING:
            return None
    return DigestComparison(cursor=found.cursor, rows=found.rows, differing=differing)


async def read_authorities(source: LinkEnds) -> tuple[list[str], str]:
    """Read the authorities of a source's entities, and the cursor from before the request.

    Returns:
        at most one authority more than the source may name.

    Raises:
        ClientError
    """
    answer = await source.peer.request("GET", _DIGESTS, params={"format": "authorities"})
    try:
        found = DigestAuthorities.model_validate_json(answer.body).authorities
    except ValueError as error:
        raise _malformed(source, "no authorities") from error
    if not all(0 < len(each) <= 1024 and "\0" not in each for each in found):
        raise _malformed(source, "no authorities")
    return found, _cursor_of(source, answer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Descent:
    """The ranges of buckets that differ, the number of rows, and the cursor of the first answer."""

    cursor: str
    rows: int
    difference: BucketDifference


async def descend(
    flow: LinkEnds, wanted: DigestSelection, *, is_whole: bool = False
) -> Descent | None:
    """Find the ranges of buckets that differ; `None` as for `find_differences`.

    The cursor is the cursor of the first answer: the feed brings every later change of the source.
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
    if selection.may_be_shared(bits):
        found = await shared_fingerprints(flow.context, selection.max_age)
        merged = found.merged(selection.authorities)
    else:
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
        if wanted.may_be_shared(bits):
            params.append(("maxage", str(min(MOST_AGE_SECONDS, int(wanted.max_age)))))
        answer = await flow.peer.merged_digests(params)
        cursor = cursor or _cursor_of(flow, answer)
        found |= _read_merged(flow, answer, bits)
    return found, cursor


async def list_differing(
    flow: LinkEnds, wanted: DigestSelection, difference: BucketDifference
) -> AsyncIterator[list[DifferingOrigin]]:
    """The origins that differ in ranges of buckets, in parts."""
    allowance = Allowance.of(flow.context.settings)
    most = BUCKETS if difference.is_small else _MOST_LISTED
    for part in divided(difference.ranges, MOST_RANGES, most):
        async with flow.context.database.snapshot() as connection:
            rows = await digests.load_rows_within(connection, replace(wanted, ranges=part))
        here = {
            Origin(row.authority, row.origin): OriginState(row.epoch, row.deleted, row.digest)
            for row in rows
        }
        there = await _rows_there(flow, wanted, part, allowance)
        yield [
            DifferingOrigin(origin, here.get(origin), there.get(origin))
            for origin in {**here, **there}
            if here.get(origin) != there.get(origin)
        ]


async def _rows_there(
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


def _read_merged(flow: LinkEnds, answer: Answer, bits: int) -> dict[int, tuple[int, int]]:
    """Read merged buckets; an older source ignores the request and sends buckets without `bits`."""
    try:
        found = BucketDigests.model_validate_json(answer.body)
    except ValueError as error:
        raise _malformed(flow, "malformed digests") from error
    if found.bits != bits or found.digestversion != DIGEST_VERSION:
        raise _malformed(flow, "no merged digests")
    if not all(number < 1 << bits and count for number, count, _ in found.buckets):
        raise _malformed(flow, "malformed digests")
    return {number: (count, fingerprint) for number, count, fingerprint in found.buckets}


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
    return BadAnswer(f"{flow.peer.url}{_DIGESTS}", content)
