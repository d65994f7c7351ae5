"""Brings the copies that the labels of a link select.

The feed has every change, whatever the labels. Held entities are kept up to date by the feed. A
group or resource that may be newly selected is requested as a whole, since most of its entities
changed long ago. Entities that have lost the labels are dropped.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field

from catalog.client import ClientError, Unreachable
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import group_path
from catalog.store import entities as store
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.labels import LabelSieve, has_labels, is_default, resource_path
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import Allowance
from replication.sources.copypages import COPIES_OF_ONE, CopyPage, pages_of
from replication.transfer.linkrun import LinkRun

# Small, since the whole page is held in memory before it is sorted.
_PAGE = 200
_SCOPES_AT_ONCE = 50


@dataclass(slots=True)
class _Sorted:
    """The copies of a page to apply, and the origins to request with their descendants."""

    apply: list[Incoming] = field(default_factory=list)
    ask: list[Origin] = field(default_factory=list)


async def labelled_changes(
    run: LinkRun, cursor: str, wait_seconds: float, filters: Sequence[tuple[str, str]]
) -> AsyncGenerator[CopyPage]:
    """The pages of one answer of the source's feed, for a link that selects by labels.

    The cursor comes last, with the groups and resources that may have lost their labels.
    """
    lines = run.peer.change_lines(cursor, limit=_PAGE, wait_seconds=wait_seconds, filters=filters)
    copies, end = await _read_page(run, lines)
    units = frozenset(origin for copy in copies for origin in _units_of(copy))
    if units:
        async with run.database.acquire() as connection:
            held = await store.load_by_origin(connection, units)
        page = _sort(copies, held, run.link.definition.labels)
        for start in range(0, len(page.ask), _SCOPES_AT_ONCE):
            named = [each for each in filters if each[0] != "scope"]
            named += [("scope", each.xid) for each in page.ask[start : start + _SCOPES_AT_ONCE]]
            async for asked in labelled_listing(run, run.peer.snapshot_lines(named)):
                # The feed's own cursor, which comes last, is older: the listing may lack changes of
                # other entities.
                asked.cursor, asked.present = None, ()
                yield asked
        if page.apply:
            yield CopyPage(copies=page.apply)
    yield CopyPage(cursor=end.cursor, labelled=units, is_last=end.behind == 0)


async def labelled_listing(
    run: LinkRun, lines: AsyncGenerator[bytes], *, is_bulk: bool = False
) -> AsyncGenerator[CopyPage]:
    """The labelled entities of a complete listing, and the origins of the remaining entities."""
    sieve = LabelSieve(run.link.definition.labels)
    pages = pages_of(run.context, lines, Allowance.of(run.settings), is_bulk=is_bulk)
    async with contextlib.aclosing(pages):
        async for page in pages:
            passed = [each for copy in page.copies for each in sieve.take(copy)]
            is_complete = page.cursor is not None
            if is_complete:
                passed += sieve.end()
            left_out = sieve.left_out(is_complete=is_complete)
            selected = CopyPage(
                copies=passed,
                cursor=page.cursor,
                is_bulk=is_bulk,
                present=[origin_of(each) for each in left_out],
            )
            yield selected
            page.applied = selected.applied


async def _read_page(run: LinkRun, lines: AsyncGenerator[bytes]) -> tuple[list[Incoming], FeedEnd]:
    allowance = Allowance.of(run.settings, COPIES_OF_ONE * _PAGE)
    copies: list[Incoming] = []
    end: FeedEnd | None = None
    async with contextlib.aclosing(lines):
        async for line in lines:
            if end is not None:
                raise ClientError("Something follows the cursor that ends a stream.")
            read = read_line(line)
            if isinstance(read, FeedEnd):
                end = read
            else:
                allowance.take(len(line))
                copies.append(read)
    if end is None or not end.cursor:
        raise Unreachable(f"The answer of {run.peer.url} broke off.", is_doubtful=True)
    return copies, end


def _sort(
    copies: Collection[Incoming], held: dict[Origin, Entity], labels: Collection[str]
) -> _Sorted:
    """Sort the copies of a page.

    Args:
        held: the held groups and resources of the page.
    """
    page = _Sorted()
    live = {origin_of(copy): copy for copy in copies if isinstance(copy, Entity)}
    followed: set[Origin] = set()
    for copy in sorted(copies, key=lambda each: each.origin.count("/")):
        if isinstance(copy, Tombstone | MalformedCopy):
            units = _units_of(copy)
            # A deletion of an entity that this node does not hold is of no use.
            if not units or any(unit in held for unit in units):
                page.apply.append(copy)
        elif _is_followed(copy, live, held, followed, labels, page.ask):
            followed.add(origin_of(copy))
            page.apply.append(copy)
    return page


def _is_followed(
    copy: Entity,
    live: dict[Origin, Entity],
    held: dict[Origin, Entity],
    followed: set[Origin],
    labels: Collection[str],
    ask: list[Origin],
) -> bool:
    """Whether a copy is applied; an origin that may be newly selected is added to `ask`."""
    origin = origin_of(copy)
    before = held.get(origin)
    if copy.kind == "group":
        if has_labels(copy.attributes, labels) and not (
            before and has_labels(before.attributes, labels)
        ):
            ask.append(origin)
        return before is not None
    resource = Origin(copy.authority, resource_path(copy.origin))
    if copy.kind == "version":
        return resource in held or resource in followed
    if before is not None:
        return True
    group = Origin(copy.authority, group_path(copy.origin))
    if group in ask:
        return False
    now = live.get(group)
    if group in held and now is not None and has_labels(now.attributes, labels):
        return True
    id = copy.attributes.get("defaultversionid")
    default = live.get(Origin(copy.authority, f"{copy.origin}/versions/{id}"))
    if default is None or (is_default(copy, default) and has_labels(default.attributes, labels)):
        ask.append(origin)
    return False


def _units_of(copy: Incoming) -> list[Origin]:
    """The origins of a copy's group and resource."""
    if isinstance(copy, MalformedCopy) or not copy.origin.startswith("/"):
        return []
    paths = {group_path(copy.origin), resource_path(copy.origin)}
    return [Origin(copy.authority, path) for path in paths]
