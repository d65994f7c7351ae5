"""Compares the catalogs of a link by digests, periodically, and reports entities that differ."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Collection
from datetime import UTC, datetime

import structlog

from catalog.client import ClientError
from catalog.model.errors import ServerBusy
from catalog.model.masking import counted
from catalog.store import links
from replication.store.linkconflicts import MOST_CONFLICTS
from replication.transfer.comparison import DifferingOrigin, OriginState
from replication.transfer.linkrun import LinkRun
from replication.transfer.transfer import LinkPeer

_log = structlog.get_logger(__name__)

_CONFLICTS_AT_ONCE = 1000
_MOST_TOLD = 3
_SHARED = 1 / 15
"""The share of the interval for which fingerprints serve comparisons."""


@contextlib.asynccontextmanager
async def compared_periodically(
    run: LinkRun, peer: LinkPeer, is_current: Callable[[], bool]
) -> AsyncIterator[None]:
    """Compare a link with its peer while the context is open.

    The number of entities that differ is stored with the link; a change of the number is an event
    in the history of the link. Nothing is repaired.

    Args:
        is_current: tells whether the link has brought every change of the source.
    """
    if not run.settings.comparison_interval_seconds:
        yield
        return
    comparing = asyncio.create_task(_compare_for_ever(run, peer, is_current))
    try:
        yield
    finally:
        comparing.cancel()
        # `wait` does not raise the CancelledError of the task, which would end the link's run.
        await asyncio.wait([comparing])


async def _compare_for_ever(run: LinkRun, peer: LinkPeer, is_current: Callable[[], bool]) -> None:
    interval, random = run.settings.comparison_interval_seconds, run.resources.timing.random
    # A random delay, since the links of a node start together, and hundreds may share a source.
    await asyncio.sleep(interval * random.random())
    while True:
        try:
            found = await _lasting_differences(run, peer, is_current)
            if found is not None:
                await _report(run, found)
        except (ClientError, ServerBusy) as error:
            _log.info("link not compared", link=run.link.id, cause=str(error))
        # An unexpected error in one comparison must not end the later comparisons of the link.
        except Exception:
            _log.exception("comparison failed", link=run.link.id)
        # A random share of the interval keeps links of one source from comparing at the same time.
        await asyncio.sleep(interval * (0.9 + 0.2 * random.random()))


async def _lasting_differences(
    run: LinkRun, peer: LinkPeer, is_current: Callable[[], bool]
) -> Collection[DifferingOrigin] | None:
    """The differences that two comparisons find; `None` if the catalogs cannot be compared now.

    A change under way shows up in the first comparison only, because the link has the interval of
    its pulls to bring the change before the second comparison.
    """
    if not is_current():
        return None
    # Hundreds of links may compare with one catalog: those of a minute share fingerprints.
    first = await _differences(run, peer, run.settings.comparison_interval_seconds * _SHARED)
    if not first:
        return first
    await asyncio.sleep(run.interval)
    again = await _differences(run, peer, 0.0)
    return first & again if again is not None and is_current() else None


async def _differences(
    run: LinkRun, peer: LinkPeer, max_age: float
) -> frozenset[DifferingOrigin] | None:
    """The differences without the conflicts of the link; operators see the conflicts already."""
    found = await peer.differences(max_age)
    if not found:
        return None if found is None else frozenset()
    conflicts = {c.origin async for each in run.conflicts(_CONFLICTS_AT_ONCE) for c in each}
    # A link stores at most `MOST_CONFLICTS`, so unstored conflicts may be among the differences.
    if len(conflicts) >= MOST_CONFLICTS:
        return None
    return frozenset(each for each in found if each.origin not in conflicts)


async def _report(run: LinkRun, found: Collection[DifferingOrigin]) -> None:
    async with run.database.acquire() as connection:
        before = await links.save_comparison(connection, run.link, datetime.now(UTC), len(found))
    if len(found) == before:
        return
    if not found:
        await run.remember("agrees", "All entities agree with those of the other catalog again.")
        return
    _log.warning("link differs from its peer", link=run.link.id, entities=len(found))
    told = sorted(found, key=lambda each: (each.origin.authority, each.origin.xid))[:_MOST_TOLD]
    more = f" and {len(found) - len(told)} more" if len(found) > len(told) else ""
    await run.remember(
        "differs",
        f"{counted(len(found), 'entities')}: {', '.join(map(_shown, told))}{more}. "
        f"`concord link reset {run.link.id}` brings what differs.",
    )


def _shown(each: DifferingOrigin) -> str:
    here, there = _state(each.here), _state(each.there)
    states = f"{here}, other content" if here == there else f"{here} here, {there} there"
    return f"{each.origin.xid} of {each.origin.authority} ({states})"


def _state(state: OriginState | None) -> str:
    if state is None:
        return "missing"
    return f"{'deleted at' if state.is_deleted else 'epoch'} {state.epoch}"
