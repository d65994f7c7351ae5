"""Takes pushed copies from catalogs whose pushes the operator of this node accepts.

The pusher begins with a complete copy, in requests of bounded size, then sends changes. The last
request of a step has the cursor up to which every copy was sent. The cursor is saved in the
transaction of the copies before it, and each later request names the cursor that it continues from:
a repeated copy changes nothing, and a missing request is noticed.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
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
from catalog.model.concorderrors import LimitExceeded, PushAwaitsAnswer, PushOutOfStep, PushStopped
from catalog.model.entity import Origin
from catalog.model.errors import BadRequest, ServerBusy
from catalog.model.linkterms import State
from catalog.model.masking import counted, printable
from catalog.model.roles import Permission
from catalog.operations.feed import (
    DIFFERING,
    MOST_PUSHED,
    PUSH,
    PushEndLine,
    PushQuery,
    VerdictLine,
    is_push_cursor,
)
from catalog.operations.operation import LINES
from catalog.store import links
from catalog.store.links import Link, LinkReplaced
from replication.applying.apply import AppliedBatch, Batch
from replication.applying.deletionlimit import TooManyDeletions
from replication.applying.replicas import doubt_copies, drop_doubted
from replication.deciding.copychecks import Incoming
from replication.deciding.provenance import Policy, policy_of
from replication.deciding.selection import check_acceptance
from replication.feed.feedlines import FeedEnd, read_line
from replication.peers.handshake import accepting_link
from replication.peers.linkbounds import MEASURED_AGAIN, LinkGate, check_held, most_pushed_bytes
from replication.sinks.owncatalog import apply_in_turn
from replication.sources.copypages import CopyPage
from replication.store import doubtedcopies, linkconflicts
from replication.store.linkconflicts import CopyFinding
from replication.transfer.linkrun import SAVE_SECONDS, Start
from replication.transfer.transfer import LinkPeer, LinkSource

_LONGEST_LOSS = 300
# Bytes of lines after which reading yields to other requests.
_READ_AT_ONCE = 256 * 1024


@dataclass(slots=True, kw_only=True)
class _Intake:
    """The shared state of all pushes to a node.

    By link, `unmeasured` has the number of changes since the last count of replicas, and `reported`
    the time at which the link was last stored as current.
    """

    gate: LinkGate = field(default_factory=LinkGate)
    unmeasured: Counter[str] = field(default_factory=Counter)
    reported: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Push:
    """A request of a pusher, and the link that accepts the request.

    Copies without `query.after` are a part of a complete copy. `cursor` is the cursor up to which
    every copy was sent, `None` if more are to come; `size` is the number of bytes of the body.
    """

    context: Context
    link: Link
    policy: Policy
    writable: WriteScope | Everything
    query: PushQuery
    copies: Sequence[Incoming]
    cursor: str | None
    size: int

    @property
    def begins(self) -> bool:
        """Whether a complete copy follows, or a copy of only the differing origins."""
        return self.query.begin is not None

    @property
    def is_question(self) -> bool:
        """Whether the sender only asks for its cursor."""
        return not (self.copies or self.query.after or self.cursor or self.begins)

    @property
    def ends_copy(self) -> bool:
        """Whether a complete copy ends with the request."""
        return self.query.after is None and self.cursor is not None

    @property
    def intake(self) -> _Intake:
        return self.context.database.shared.part(_Intake, _Intake)

    async def begin(self, subject: str) -> None:
        """Begin a complete copy, or of differing origins; `PushOutOfStep` if all are needed."""
        context, link, is_whole = self.context, self.link, self.query.begin != DIFFERING
        if not is_whole and await self.needs_all():
            raise PushOutOfStep(subject, error_detail="a complete copy is needed")
        loss = printable(self.query.lost[:_LONGEST_LOSS])
        async with context.database.transaction() as connection:
            await links.forget_cursor(connection, link, loss=loss)
            await linkconflicts.forget(connection, link.id)
            if loss:
                await links.remember(connection, link, datetime.now(UTC), "lost data", loss)
            # The pusher has compared, and sends tombstones of what it lacks: no copy is in doubt.
            if not is_whole:
                await doubtedcopies.keep_among(connection, link.id, ())
        if is_whole:
            await doubt_copies(context, link, self.policy, overruled=link.doubts)
        await self.report("copying", copies=self.query.copies)

    def check_step(self, subject: str) -> None:
        """Refuse copies that would leave a gap."""
        link, after = self.link, self.query.after
        # The beginning of a complete copy forgets the cursor, and ends the doubts of a new link.
        if after is None and (link.doubts or link.cursor is not None):
            raise PushOutOfStep(subject, error_detail="no complete copy has begun")
        if after is not None and after != link.cursor:
            raise PushOutOfStep(
                subject, error_detail="they come after another cursor than the last"
            )

    async def apply(self) -> AppliedBatch:
        """Apply the copies as a batch of the link when the gate admits it, within its bounds."""
        context, link, intake = self.context, self.link, self.intake
        if not self.copies and self.cursor is None:
            return AppliedBatch(findings=(), changes=0)
        most = context.settings.link_copies
        # The replicas are counted at first, too. Counting before every batch would cost more.
        if intake.unmeasured.get(link.id, most) >= most // MEASURED_AGAIN:
            await check_held(context, self.policy)
            intake.unmeasured[link.id] = 0
        batch = Batch(
            copies=self.copies,
            policy=self.policy,
            cursor=self.cursor,
            size=self.size,
            behind=0 if self.query.current else None,
            is_bulk=self.query.after is None,
            writable=self.writable,
        )
        applied = await apply_in_turn(context, intake.gate, link, batch)
        intake.unmeasured[link.id] += applied.changes
        if self.ends_copy:
            await self.remember("copied", "the pusher sent all that was missing")
        return applied

    async def conflicts(self) -> Sequence[CopyFinding]:
        """The copies that the link could not apply, after the origin that the request names."""
        last = self.query.conflicts
        authority, _, xid = (last or "").partition("\n")
        after = None if last is None else Origin(authority, xid)
        async with self.context.database.acquire() as connection:
            return await linkconflicts.load(connection, self.link.id, after, MOST_PUSHED)

    async def settle(self) -> None:
        """Drop the copies that their authority lacks once a complete copy has ended.

        A sender asks for the cursor before further copies, so a question about deletions stops the
        sender until an operator answers.

        Raises:
            TooManyDeletions: nothing was dropped, and the link asks.
        """
        has_ended = self.ends_copy or (self.is_question and self.link.cursor is not None)
        if has_ended and (number := await drop_doubted(self.context, self.link, self.policy)):
            detail = f"{counted(number, 'replicas')} not at their authority"
            await self.remember("dropped", detail)

    async def remember(self, event: str, detail: str) -> None:
        async with self.context.database.acquire() as connection:
            await links.remember(connection, self.link, datetime.now(UTC), event, detail)

    async def report(
        self,
        state: State,
        *,
        error: str | None = None,
        currentat: datetime | None = None,
        copies: int | None = None,
    ) -> None:
        async with self.context.database.acquire() as connection:
            await links.save_state(
                connection,
                self.link,
                state,
                error=error,
                currentat=currentat,
                error_class=None if error is None else "too_much",
                copies=copies,
            )

    async def report_current(self) -> None:
        """Store that the link is current, at most once a second if copies have saved the state."""
        now, reported = asyncio.get_running_loop().time(), self.intake.reported
        is_known = self.cursor is not None and self.link.state in ("behind", "current")
        if is_known and now - reported.get(self.link.id, float("-inf")) < SAVE_SECONDS:
            return
        reported[self.link.id] = now
        await self.report("current", currentat=datetime.now(UTC))

    async def needs_all(self) -> bool:
        """Whether the link needs a complete copy, since replicas are doubted."""
        if self.link.doubts or self.link.loss is not None:
            return True
        if self.link.cursor is not None:
            return False
        async with self.context.database.acquire() as connection:
            return await doubtedcopies.has_overruled(connection, self.link.id)

    async def answer(
        self, findings: Sequence[CopyFinding] = (), cursor: str | None = None, changes: int = 0
    ) -> web.Response:
        end = PushEndLine(cursor=cursor, changes=changes, doubts=await self.needs_all())
        shown = [*map(_show_finding, findings), end.model_dump()]
        body = b"".join(orjson.dumps(line) + b"\n" for line in shown)
        return web.Response(body=body, content_type=LINES)


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
    push = await _read_push(request, query)
    link = push.link
    try:
        if push.begins:
            await push.begin(request.path)
            return await push.answer()
        if not push.is_question:
            push.check_step(request.path)
        applied = await push.apply()
        findings = await push.conflicts() if push.is_question else applied.findings
        await push.settle()
        if query.current and query.after is not None:
            await push.report_current()
    except LinkReplaced as error:
        raise ServerBusy(request.path, detail="What is accepted was changed.") from error
    except TooManyDeletions as error:
        raise _asked(push.policy.sender, error.message, request.path) from error
    except ClientError as error:
        message = f"{error.message} {error.hint}".strip()
        await push.report("refused", error=message[:1000])
        raise PushStopped(
            request.path,
            authority=push.policy.sender,
            error_detail=error.message.rstrip("."),
            detail="The operator of the node that refuses them finds the reason at the link.",
        ) from error
    return await push.answer(findings, push.cursor or link.cursor, applied.changes)


async def _read_push(request: web.Request, query: PushQuery) -> _Push:
    """Read a request of a pusher whose copies are accepted.

    Raises:
        BadRequest: the parameters or the last line are invalid; the errors of `read_body`.
        LimitExceeded: the request has too many copies.
        PushNotAccepted, PushAwaitsAnswer, Forbidden, Unauthenticated: see `post_entities`.
    """
    context, link = request[CONTEXT], await accepting_link(request)
    policy = policy_of(
        link.definition, own=context.database.node.authority, source=link.authority or ""
    )
    writable = identity_of(request).scope_of(Permission.PUSH)
    if writable is not EVERYTHING:
        async with context.database.acquire() as connection:
            await check_acceptance(connection, writable, link.definition)
    if link.question is not None:
        raise _asked(policy.sender, link.error or "", request.path)
    body = await read_body(request, most=most_pushed_bytes(context.settings))
    copies, cursor = await _read_lines(body, request.path)
    if query.begin is not None and (copies or query.after or cursor):
        raise BadRequest(request.path, error_detail='nothing goes with "begin"')
    return _Push(
        context=context,
        link=link,
        policy=policy,
        writable=writable,
        query=query,
        copies=copies,
        cursor=cursor,
        size=len(body),
    )


async def _read_lines(body: bytes, subject: str) -> tuple[list[Incoming], str | None]:
    """The copies in a body, and the cursor in its last line, if any."""
    if body.count(b"\n") > MOST_PUSHED + 1:
        raise LimitExceeded(limit=str(MOST_PUSHED), things="copies", setting="fixed")
    copies: list[Incoming] = []
    cursor, size = None, 0
    for line in body.splitlines():
        if cursor is not None:
            raise BadRequest(subject, error_detail="something follows the cursor")
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
        raise BadRequest(subject, error_detail="that cannot be a cursor")
    return copies, cursor


def _asked(authority: str, question: str, subject: str) -> PushAwaitsAnswer:
    return PushAwaitsAnswer(
        subject,
        authority=authority,
        error_detail=question.rstrip("."),
        detail="The operator of the node that refuses them answers at the link.",
    )


def _show_finding(finding: CopyFinding) -> dict[str, Any]:
    line = VerdictLine(
        authority=finding.origin.authority,
        origin=finding.origin.xid,
        epoch=finding.epoch,
        verdict=finding.verdict,
        xid=None if finding.xid == finding.origin.xid else finding.xid,
        detail=finding.detail or None,
    )
    return line.model_dump(exclude_none=True)


routes: Sequence[Route] = (Route(PUSH, post_entities),)


class PushedCopies(LinkSource, LinkPeer):
    """Gives no pages: the runner of an accepting link only drops and renames pushed copies."""

    async def resume(self, saved: str | None) -> Start[str]:
        return Start(cursor=saved or "", is_copied=True)

    async def everything(self, after: str | None) -> AsyncGenerator[CopyPage]:
        """Yield an empty page once: the other catalog sends the copies in requests to this node."""
        yield CopyPage()

    async def changes(self, cursor: str) -> AsyncGenerator[CopyPage]:
        """No changes, for ever."""
        await asyncio.Event().wait()
        yield CopyPage()
