"""Takes pushed copies from catalogs whose pushes the operator of this node accepts.

The pusher begins with a complete copy, in requests of bounded size, then sends changes. The last
request of a step has the cursor up to which every copy was sent. The cursor is saved in the
transaction of the copies before it, and each later request names the cursor that it continues from:
a repeated copy changes nothing, and a missing request is noticed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import orjson
from aiohttp import web

from catalog.access.identity import identity_of
from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.body import read_body
from catalog.http.route import Route
from catalog.model.caller import EVERYTHING, Everything, WriteScope
from catalog.model.concorderrors import (
    LimitExceeded,
    PushAwaitsAnswer,
    PushOutOfStep,
    PushStopped,
)
from catalog.model.entity import Origin
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.linkterms import State
from catalog.model.masking import counted, printable
from catalog.model.roles import Permission
from catalog.operations.feed import DIFFERING, MOST_PUSHED, PUSH, PushQuery, Verdict, is_push_cursor
from catalog.operations.operation import LINES
from catalog.store import links
from catalog.store.links import Link, LinkReplaced
from replication.applying.apply import AppliedBatch, Batch, apply_batch
from replication.applying.deletionlimit import TooManyDeletions
from replication.applying.eviction import doubt_copies, drop_doubted
from replication.deciding.addresses import rules_of
from replication.deciding.batch import CopyFinding
from replication.deciding.copychecks import Incoming
from replication.deciding.mapping import mapping_of
from replication.deciding.pinning import policy_of
from replication.deciding.provenance import Policy
from replication.deciding.pushscope import check_acceptance
from replication.feed.confirmations import SAVE_SECONDS
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.linkbounds import LinkGate, most_pushed_bytes, too_many_copies
from replication.peers.pushers import Pusher, accepting_link, read_pusher
from replication.store import doubtedcopies, linkconflicts
from replication.store.copies import count_replicas

_LONGEST_LOSS = 300
# Bytes of lines after which reading yields to other requests.
_READ_AT_ONCE = 256 * 1024
# Replicas are counted again after a number of changes: the largest number of replicas of a link,
# divided by this.
_MEASURED_AGAIN = 20


@dataclass(slots=True, kw_only=True)
class _Intake:
    """The shared state of all pushes to a node.

    By link, `unmeasured` has the number of changes since the last count of replicas, and `reported`
    the time at which the link was last stored as current.
    """

    gate: LinkGate
    unmeasured: Counter[str] = field(default_factory=Counter)
    reported: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pushed:
    """The content of a request.

    Args:
        copies: the copies, in any order.
        after: the cursor before the copies; `None` for a part of a complete copy.
        cursor: the cursor up to which every copy was sent; `None` if more copies are to come.
        begins: a complete copy follows, or a copy of only the differing origins.
        is_whole: the announced copy is complete.
        is_current: the sender has no further changes after the copies.
        size: the bytes of the body.
        expected: the number of copies in the announced copy, if the sender states it.
        loss: the reason why the sender may lack earlier copies, if the sender lost data.
    """

    copies: Sequence[Incoming]
    after: str | None
    cursor: str | None
    begins: bool
    is_whole: bool
    is_current: bool
    size: int
    expected: int | None
    loss: str

    @property
    def is_question(self) -> bool:
        """Whether the sender only asks for its cursor."""
        return not (self.copies or self.after or self.cursor or self.begins)

    @property
    def ends_copy(self) -> bool:
        """Whether a complete copy ends with the request."""
        return self.after is None and self.cursor is not None


async def post_entities(request: web.Request, query: PushQuery) -> web.Response:
    """Apply copies that arrive as the lines of a feed.

    `begin=differing` is refused while the link has doubted copies. Copies without `after` are a
    part of the complete copy. The answer has a line with the verdict for each copy, and a line with
    the cursor.

    Raises:
        PushNotAccepted: the operator of this node does not accept the pushes of the sender.
        PushOutOfStep: the copies do not follow the last cursor; the sender asks for the cursor.
        PushStopped: the sender sent more than the link may bring.
        PushAwaitsAnswer: the deletions exceed the limit, and an operator has to decide.
        Forbidden, Unauthenticated: the sender may not write to every path that the link may write.
    """
    context = request[CONTEXT]
    pusher = read_pusher(request)
    link = await accepting_link(context, pusher, request.path)
    writable = identity_of(request).scope_of(Permission.PUSH)
    if writable is not EVERYTHING:
        async with context.database.acquire() as connection:
            await check_acceptance(connection, writable, link.definition)
    if link.question is not None:
        raise _asked(pusher, link.error or "", request.path)
    pushed = await _read_pushed(request, query)
    policy = policy_of(
        link.definition, own=context.database.node.authority, source=pusher.authority
    )
    try:
        if pushed.begins:
            if not pushed.is_whole and await _needs_all(context, link):
                raise PushOutOfStep(request.path, error_detail="a complete copy is needed")
            await _begin(context, link, policy, pushed)
            return await _answer(context, link, (), None)
        if not pushed.is_question:
            _check_step(link, pushed, request.path)
        applied = await _apply(context, link, policy, pushed, writable)
        findings = applied.findings
        if pushed.is_question:
            findings = await _conflicts(context, link, query.conflicts)
        # A sender asks for the cursor before further copies, so a question about deletions stops
        # the sender until an operator answers.
        is_complete = pushed.is_question and link.cursor is not None
        if is_complete or pushed.ends_copy:
            await _drop_doubted(context, link, policy)
        if pushed.is_current and pushed.after is not None:
            await _report_current(context, link, is_saved=pushed.cursor is not None)
    except LinkReplaced as error:
        raise ServerBusy(request.path, detail="What is accepted was changed.") from error
    except TooManyDeletions as error:
        raise _asked(pusher, error.message, request.path) from error
    except ClientError as error:
        message = f"{error.message} {error.hint}".strip()
        await _report(context, link, "refused", error=message[:1000])
        raise _stopped(pusher, error.message, request.path) from error
    return await _answer(context, link, findings, pushed.cursor or link.cursor, applied.changes)


def _asked(pusher: Pusher, question: str, subject: str) -> PushAwaitsAnswer:
    return PushAwaitsAnswer(
        subject,
        authority=pusher.authority,
        error_detail=question.rstrip("."),
        detail="The operator of the node that refuses them answers at the link.",
    )


def _stopped(pusher: Pusher, reason: str, subject: str) -> PushStopped:
    return PushStopped(
        subject,
        authority=pusher.authority,
        error_detail=reason.rstrip("."),
        detail="The operator of the node that refuses them finds the reason at the link.",
    )


async def _read_pushed(request: web.Request, query: PushQuery) -> _Pushed:
    """The content of a request, of bounded size.

    Raises:
        BadRequest: the parameters or the last line are invalid; the errors of `read_body`.
        LimitExceeded: the request has too many copies.
    """
    body = await read_body(request, most=most_pushed_bytes(request[CONTEXT].settings))
    if body.count(b"\n") > MOST_PUSHED + 1:
        raise LimitExceeded(limit=str(MOST_PUSHED), things="copies", setting="fixed")
    copies: list[Incoming] = []
    cursor, size = None, 0
    for line in body.splitlines():
        if cursor is not None:
            raise BadRequest(request.path, error_detail="something follows the cursor")
        read = read_line(line)
        if isinstance(read, FeedEnd):
            cursor = read.cursor
        else:
            copies.append(read)
        size += len(line)
        if size > _READ_AT_ONCE:
            await asyncio.sleep(0)
            size = 0
    if cursor is not None and not is_push_cursor(cursor):
        raise BadRequest(request.path, error_detail="that cannot be a cursor")
    pushed = _Pushed(
        copies=copies,
        after=query.after,
        cursor=cursor,
        begins=query.begin is not None,
        is_whole=query.begin != DIFFERING,
        is_current=query.current,
        size=len(body),
        expected=query.copies,
        loss=printable(query.lost[:_LONGEST_LOSS]),
    )
    if pushed.begins and (copies or query.after or cursor):
        raise BadRequest(request.path, error_detail='nothing goes with "begin"')
    return pushed


def _check_step(link: Link, pushed: _Pushed, subject: str) -> None:
    """Refuse copies that would leave a gap.

    Raises:
        PushOutOfStep
    """
    if pushed.after is None and (link.doubts or link.cursor is not None):
        raise PushOutOfStep(subject, error_detail="no complete copy has begun")
    if pushed.after is not None and pushed.after != link.cursor:
        raise PushOutOfStep(subject, error_detail="they come after another cursor than the last")


async def _begin(context: Context, link: Link, policy: Policy, pushed: _Pushed) -> None:
    async with context.database.transaction() as connection:
        await links.forget_cursor(connection, link, loss=pushed.loss)
        await linkconflicts.forget(connection, link.id)
        if pushed.loss:
            at = datetime.now(UTC)
            await links.remember(connection, link, at, "lost data", pushed.loss)
        if not pushed.is_whole:
            await doubtedcopies.keep_among(connection, link.id, ())
    if pushed.is_whole:
        await doubt_copies(context, link, policy, overruled=link.doubts)
    await _report(context, link, "copying", copies=pushed.expected)


async def _apply(
    context: Context, link: Link, policy: Policy, pushed: _Pushed, writable: WriteScope | Everything
) -> AppliedBatch:
    """Apply a batch of a link when the gate admits it."""
    if not pushed.copies and pushed.cursor is None:
        return AppliedBatch(findings=(), changes=0)
    await _check_held(context, link, policy)
    is_bulk = pushed.after is None
    batch = Batch(
        copies=pushed.copies,
        policy=policy,
        link=link,
        cursor=pushed.cursor,
        size=pushed.size,
        behind=0 if pushed.is_current else None,
        is_bulk=is_bulk,
        mapping=mapping_of(link.definition),
        addresses=rules_of(link.definition),
        writable=writable,
    )
    async with _intake_of(context).gate.turn(is_bulk=is_bulk) as turn:
        applied = await apply_batch(context, batch)
        turn.has_delayed = applied.has_delayed
    _intake_of(context).unmeasured[link.id] += applied.changes
    if pushed.ends_copy:
        async with context.database.acquire() as connection:
            at = datetime.now(UTC)
            await links.remember(
                connection, link, at, "copied", "the pusher sent all that was missing"
            )
    return applied


async def _drop_doubted(context: Context, link: Link, policy: Policy) -> None:
    if number := await drop_doubted(context, link, policy):
        detail = f"{counted(number, 'replicas')} not at their authority"
        async with context.database.acquire() as connection:
            await links.remember(connection, link, datetime.now(UTC), "dropped", detail)


async def _conflicts(context: Context, link: Link, last: str | None) -> list[CopyFinding]:
    """The copies that a link could not apply, after the origin that the request names."""
    authority, _, xid = (last or "").partition("\n")
    after = None if last is None else Origin(authority, xid)
    async with context.database.acquire() as connection:
        found = await linkconflicts.load(connection, link.id, after, MOST_PUSHED)
    return [
        CopyFinding(
            origin=conflict.origin,
            xid=conflict.xid,
            epoch=conflict.epoch,
            verdict=Verdict(conflict.verdict),
            detail=conflict.detail,
        )
        for conflict in found
    ]


async def _check_held(context: Context, link: Link, policy: Policy) -> None:
    """Count the replicas of a link's authorities, at first and after many changes.

    Raises:
        TooMuchSent
    """
    most, unmeasured = context.settings.link_copies, _intake_of(context).unmeasured
    if unmeasured.get(link.id, most) < most // _MEASURED_AGAIN:
        return
    async with context.database.acquire() as connection:
        held = await count_replicas(connection, policy.authorities, own=policy.own)
    if held > most:
        raise too_many_copies(context.settings, "Of its authorities, this node has")
    unmeasured[link.id] = 0


def _intake_of(context: Context) -> _Intake:
    return context.database.shared.part(_Intake, lambda: _Intake(gate=LinkGate()))


async def _report(
    context: Context,
    link: Link,
    state: State,
    *,
    error: str | None = None,
    currentat: datetime | None = None,
    copies: int | None = None,
) -> None:
    async with context.database.acquire() as connection:
        await links.save_state(
            connection,
            link,
            state,
            error=error,
            currentat=currentat,
            error_class=None if error is None else "too_much",
            copies=copies,
        )


async def _report_current(context: Context, link: Link, *, is_saved: bool) -> None:
    """Store that a link is current, at most once a second if copies have saved the state."""
    now, reported = asyncio.get_running_loop().time(), _intake_of(context).reported
    is_known = is_saved and link.state in ("behind", "current")
    if is_known and now - reported.get(link.id, float("-inf")) < SAVE_SECONDS:
        return
    reported[link.id] = now
    await _report(context, link, "current", currentat=datetime.now(UTC))


async def _needs_all(context: Context, link: Link) -> bool:
    """Whether the link needs a complete copy, since replicas are doubted."""
    if link.doubts or link.loss is not None:
        return True
    if link.cursor is not None:
        return False
    async with context.database.acquire() as connection:
        return await doubtedcopies.has_overruled(connection, link.id)


async def _answer(
    context: Context,
    link: Link,
    findings: Sequence[CopyFinding],
    cursor: str | None,
    changes: int = 0,
) -> web.Response:
    doubts = await _needs_all(context, link)
    end = {"cursor": cursor, "changes": changes, "doubts": doubts}
    shown = [*map(_show_finding, findings), end]
    body = b"".join(orjson.dumps(line) + b"\n" for line in shown)
    return web.Response(body=body, content_type=LINES)


def _show_finding(finding: CopyFinding) -> dict[str, Any]:
    shown = {
        "authority": finding.origin.authority,
        "origin": finding.origin.xid,
        "epoch": finding.epoch,
        "verdict": finding.verdict.value,
        **({"xid": finding.xid} if finding.xid != finding.origin.xid else {}),
    }
    return shown | ({"detail": finding.detail} if finding.detail else {})


routes: Sequence[Route] = (Route(PUSH, post_entities),)
