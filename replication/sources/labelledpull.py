"""Brings the copies that labels select by a link.

The feed tells what has changed, whatever its labels. What is here is kept up to date by it; what
is not here and may be selected now is asked for as a whole, since most of it changed long ago. What
has lost its labels leaves.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field

from catalog.client import ClientError, Unreachable
from catalog.model.entity import Entity, Origin, Tombstone
from catalog.model.xid import group_path
from catalog.store import doubtedcopies
from catalog.store import entities as store
from replication.applying.apply import AppliedBatch
from replication.applying.leaving import leave_unlabelled
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.labels import LabelSieve, has_labels, is_default, resource_path
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import Allowance
from replication.sources.pull import COPIES_OF_ONE, Brought, Flow, apply_by, apply_lines

# A page is read as a whole, so it is small.
_PAGE = 200
_SCOPES_AT_ONCE = 50


@dataclass(slots=True)
class _Sorted:
    """The copies of a page that are applied, and the origins to be asked for with all below."""

    apply: list[Incoming] = field(default_factory=list)
    ask: list[Origin] = field(default_factory=list)


async def pull_labelled(flow: Flow, cursor: str, *, wait_seconds: float) -> Brought:
    """Apply what a page of the source's feed means for a link that selects by labels.

    The cursor is saved last of all.

    Raises:
        TooManyDeletions: the source has lost data, and the cursor is not saved.
        ClientError: after `CursorExpired`, a bootstrap is needed.
    """
    lines = flow.peer.change_lines(
        cursor, limit=_PAGE, wait_seconds=wait_seconds, filters=flow.filters
    )
    copies, end = await _read_page(flow, lines)
    brought = Brought(cursor=end)
    if not copies:
        if end != cursor:
            brought.add(await apply_by(flow, [], end))
        return brought
    units = {origin for copy in copies for origin in _units_of(copy)}
    async with flow.context.database.acquire() as connection:
        held = await store.load_by_origin(connection, units)
    page = _sort(copies, held, flow.link.definition.labels)
    for start in range(0, len(page.ask), _SCOPES_AT_ONCE):
        await _ask(flow, page.ask[start : start + _SCOPES_AT_ONCE], brought)
    if page.apply:
        brought.add(await apply_by(flow, page.apply))
    context, link, policy = flow.context, flow.link, flow.policy
    left = await leave_unlabelled(context, link, policy, units)
    brought.changes += left
    brought.deleted += left
    brought.add(await apply_by(flow, [], end))
    return brought


async def bootstrap_labelled(flow: Flow) -> Brought:
    """Apply what labels select of a snapshot of the source; see `bootstrap`."""
    lines = flow.peer.snapshot_lines(flow.filters)
    return await _bring(flow, lines, is_bulk=True, saves_cursor=True)


async def _bring(
    flow: Flow, lines: AsyncGenerator[bytes], *, is_bulk: bool, saves_cursor: bool
) -> Brought:
    """Apply what labels select of a complete listing.

    Raises:
        ClientError: it broke off.
    """
    sieve = LabelSieve(flow.link.definition.labels)

    async def apply(copies: list[Incoming], end: FeedEnd | None) -> AppliedBatch:
        passed = [each for copy in copies for each in sieve.take(copy)]
        if end is not None:
            passed += sieve.end()
        cursor = end.cursor if end is not None and saves_cursor else None
        applied = await apply_by(flow, passed, cursor, is_bulk=is_bulk)
        left_out = sieve.left_out(is_complete=end is not None)
        if is_bulk:
            await _settle(flow, left_out)
        return applied

    brought = await apply_lines(flow.context, lines, apply, Allowance.of(flow.context.settings))
    if brought is None:
        raise Unreachable(f"The answer of {flow.peer.url} broke off.", is_doubtful=True)
    return brought


async def _settle(flow: Flow, left_out: Sequence[Entity]) -> None:
    """Doubt nothing that the source has, whatever its labels: another link may bring it."""
    told = [each.origin for each in left_out if flow.policy.is_own_word(each)]
    if told:
        async with flow.context.database.transaction() as connection:
            await doubtedcopies.settle(connection, flow.link.id, told)


async def _ask(flow: Flow, origins: Sequence[Origin], brought: Brought) -> None:
    filters = [each for each in flow.filters if each[0] != "scope"]
    filters += [("scope", origin.xid) for origin in origins]
    lines = flow.peer.snapshot_lines(filters)
    found = await _bring(flow, lines, is_bulk=False, saves_cursor=False)
    brought.copies += found.copies
    brought.changes += found.changes
    brought.deleted += found.deleted


async def _read_page(flow: Flow, lines: AsyncGenerator[bytes]) -> tuple[list[Incoming], str]:
    allowance = Allowance.of(flow.context.settings, COPIES_OF_ONE * _PAGE)
    copies: list[Incoming] = []
    cursor = ""
    async with contextlib.aclosing(lines):
        async for line in lines:
            if cursor:
                raise ClientError("Something follows the cursor that ends a stream.")
            read = read_line(line)
            if isinstance(read, FeedEnd):
                cursor = read.cursor
            else:
                allowance.take(len(line))
                copies.append(read)
    if not cursor:
        raise Unreachable(f"The answer of {flow.peer.url} broke off.", is_doubtful=True)
    return copies, cursor


def _sort(
    copies: Collection[Incoming], held: dict[Origin, Entity], labels: Collection[str]
) -> _Sorted:
    """Sort the copies of a page.

    Args:
        held: the groups and resources of the page that are here.
    """
    page = _Sorted()
    live = {origin_of(copy): copy for copy in copies if isinstance(copy, Entity)}
    followed: set[Origin] = set()
    for copy in sorted(copies, key=lambda each: each.origin.count("/")):
        if isinstance(copy, Tombstone | MalformedCopy):
            units = _units_of(copy)
            # Of what is not here, nobody needs to know that it was deleted.
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
    """Whether a copy is applied; what may be selected now is asked for."""
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
    """The origins of the group and of the resource that a copy belongs to."""
    if isinstance(copy, MalformedCopy) or not copy.origin.startswith("/"):
        return []
    paths = {group_path(copy.origin), resource_path(copy.origin)}
    return [Origin(copy.authority, path) for path in paths]
