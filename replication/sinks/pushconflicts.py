"""Learns from the target of a push which copies it did not apply: its answer may have been lost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog.client import BadAnswer, JsonObject
from catalog.model.entity import Origin
from catalog.operations.feed import MOST_PUSHED, Verdict
from replication.deciding.batch import origin_of
from replication.deciding.decide import CONFLICTS
from replication.feed.feedpages import read_copies
from replication.sinks.push import PushFlow, shown_detail
from replication.sinks.sentcopies import conflict_with
from replication.sources.ownlog import sent_by
from replication.store import linkconflicts
from replication.store.linkconflicts import MOST_CONFLICTS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """A copy that the target could not apply; where it came spoilt, `origin` or `xid` may be that
    of another one."""

    origin: Origin
    xid: str
    verdict: Verdict
    detail: str

    @property
    def suspects(self) -> set[Origin]:
        """The origins that the copy may have been of."""
        return {self.origin, Origin(self.origin.authority, self.xid)}


async def learn_conflicts(flow: PushFlow) -> list[Origin]:
    """Ask the target how far it has come, and note the copies that it could not apply.

    The copies are pushed again, as are copies whose refusal the target has answered.

    Returns:
        the origins of copies that came spoilt, where nothing here has that origin: nobody knows
        what they were of.
    """
    strays: list[Origin] = []
    after: Origin | None = None
    for _ in range(MOST_CONFLICTS // MOST_PUSHED):
        told = [_read(flow, line) for line in await flow.ask(after)]
        if told:
            strays += await _note(flow, told)
        if len(told) < MOST_PUSHED:
            break
        after = told[-1].origin
    return strays


async def _note(flow: PushFlow, told: Sequence[_Told]) -> list[Origin]:
    """Note the conflicts of what is here and is sent by the link; return the origins of the rest
    that came spoilt."""
    database = flow.context.database
    async with database.snapshot(database.pools.feed) as connection:
        copies = await read_copies(connection, {each for one in told for each in one.suspects})
    sent = sent_by(flow.context, flow.link.definition)
    held = {origin_of(c): c for c in copies if sent.admits(c) and flow.admits(c)}
    conflicts = [
        conflict_with(held[origin], each.verdict.value, each.detail)
        for each in told
        for origin in each.suspects & held.keys()
        if each.verdict in CONFLICTS
    ]
    if conflicts:
        async with database.transaction() as connection:
            await linkconflicts.add(connection, flow.link.id, conflicts)
    return [e.origin for e in told if e.verdict is Verdict.INVALID and e.origin not in held]


def _read(flow: PushFlow, line: JsonObject) -> _Told:
    try:
        origin = Origin(line["authority"], line["origin"])
        told = _Told(
            origin=origin,
            xid=line.get("xid", origin.xid),
            verdict=Verdict(line["verdict"]),
            detail=shown_detail(line),
        )
        if all(isinstance(text, str) for text in (origin.authority, origin.xid, told.xid)):
            return told
    except (KeyError, TypeError, ValueError):
        pass
    raise BadAnswer(f"{flow.peer.url}/replication/entities", "no list of conflicts")
