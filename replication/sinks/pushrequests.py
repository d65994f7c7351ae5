"""The requests that push copies to another node, and the answers of the target."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import structlog

from catalog.client import BadAnswer, Client, ClientError, JsonObject, Refused
from catalog.context import Context
from catalog.model.entity import Origin
from catalog.model.masking import printable
from catalog.operations.feed import DIFFERING, MOST_PUSHED, PushEndLine, Verdict, VerdictLine
from catalog.operations.links import FoundCatalog
from catalog.operations.peers import Handshake
from catalog.store import links
from catalog.store.changes import LogCursor, Position
from replication.applying.apply import traces_of
from replication.deciding.batch import origin_of
from replication.deciding.copychecks import Copy
from replication.deciding.decide import CONFLICTS
from replication.feed.feedlines import write_end
from replication.feed.feedrequests import lines_of
from replication.peers import handshake
from replication.peers.keyhistories import tell_histories
from replication.peers.linkerrors import describe
from replication.peers.peeraccess import PeerAccess
from replication.sources.ownlog import read_push_cursor, write_push_cursor
from replication.store import linkconflicts
from replication.store.linkconflicts import CopyFinding
from replication.store.loghistory import read_cursor
from replication.transfer.linkrun import Applied, AwaitsAnswer, LinkRun, OutOfStep

_log = structlog.get_logger(__name__)

_OUT_OF_STEP, _AWAITS_ANSWER = "push_out_of_step", "push_awaits_answer"
# Below the limit of targets, so that requests are short and a repetition sends little.
_MOST_BYTES = 4 * 1024 * 1024
_BYTES_OF_END = 1024
_LONGEST_DETAIL = 500
# The refusals that an operator of the source should see.
_REFUSALS = CONFLICTS | {Verdict.REFUSED}
_NOT_ACCEPTED = "the target does not accept its authority or path by this link"


@dataclass(slots=True, kw_only=True)
class PushRequest:
    """The lines of one request, and the copy of each line."""

    lines: list[bytes] = field(default_factory=list)
    copies: dict[Origin, Copy] = field(default_factory=dict)
    size: int = 0

    def add(self, copy: Copy, line: bytes) -> None:
        self.lines.append(line)
        self.copies[origin_of(copy)] = copy
        self.size += len(line)


@dataclass(slots=True, kw_only=True)
class PushFlow:
    """A link and its target after the handshake.

    `after` is the cursor up to which the target has every copy, `None` during a complete copy.
    `needs_all` is false only if the target accepts a copy of the differing origins. `loss` is the
    reason why this node may lack entities of the target, if the node lost data.
    """

    run: LinkRun
    target: Handshake
    after: str | None = None
    needs_all: bool = True
    loss: str = ""
    # The authorities and keys that the target already knows.
    _told: set[tuple[str, str]] = field(default_factory=set)

    def admits(self, copy: Copy) -> bool:
        """Whether the target needs a copy; the target needs no copies of its own entities."""
        return copy.authority != self.target.authority

    async def cursor_of(self, position: Position) -> str:
        """The cursor of a position in this node's log, for the target to keep."""
        database = self.run.database
        async with database.acquire(database.pools.feed) as connection:
            cursor = await read_cursor(connection, database.node.instance, position)
        return write_push_cursor(database.node.instance, cursor, self.run.link.id)

    def own_cursor(self, cursor: str | None) -> LogCursor | None:
        """The cursor in this log as kept by the target; `None` for a cursor of another link."""
        return read_push_cursor(self.run.database.node.instance, self.run.link.id, cursor)

    async def ask(self, after: Origin | None = None) -> list[CopyFinding]:
        """Ask the target for the cursor, and for copies after an origin that it could not apply."""
        named = [] if after is None else [("conflicts", f"{after.authority}\n{after.xid}")]
        *lines, last = await self._request(b"", named)
        try:
            end = PushEndLine.model_validate(last)
        except ValueError as error:
            raise BadAnswer(f"{self.run.peer.url}/replication/entities", "no cursor") from error
        self.after, self.needs_all = end.cursor, end.doubts
        return self._read(lines)

    async def send(
        self, request: PushRequest, *, cursor: str | None = None, behind: int | None = None
    ) -> Applied:
        """Send a request, and save the cursor and the conflicts when the target has answered.

        Args:
            cursor: the cursor up to which every copy is sent with this request; `None` within a
                step.
            behind: the number of changes after the cursor; 0 marks the target as current.
        """
        await self._tell_keys(request)
        params = [("after", self.after)] if self.after is not None else []
        params += [("current", "")] if behind == 0 else []
        end = [] if cursor is None else [write_end(cursor)]
        traces, by = traces_of(request.copies.values()), {"concord.link": self.run.link.id}
        with self.run.context.shared.tracing.spans_in("push", traces, kind="client", attributes=by):
            answer = await self._request(b"".join([*request.lines, *end]), params)
        findings = self._findings_in(answer[:-1], request)
        sent = await self._save(request, findings, cursor, behind)
        if cursor is not None:
            self.after = cursor
        return sent

    async def _tell_keys(self, request: PushRequest) -> None:
        """Send the target the keys of signed copies, before the first copy with a new key."""
        signed = {(copy.authority, copy.signedby) for copy in request.copies.values()}
        if untold := {each for each in signed if each[1]} - self._told:
            authorities = {authority for authority, _ in untold}
            await tell_histories(self.run.context, self.run.peer, authorities)
            self._told |= untold

    async def begin(self, copies: int, *, is_whole: bool = True) -> None:
        """Announce the number of copies of a complete copy, or of the differing origins."""
        async with self.run.database.acquire() as connection:
            await links.expect(connection, self.run.link, copies)
        begin = "" if is_whole else DIFFERING
        lost = [("lost", self.loss)] if self.loss else []
        await self._request(b"", [("begin", begin), ("copies", str(copies)), *lost])
        self.after = None

    async def _request(self, body: bytes, params: list[tuple[str, str]]) -> list[JsonObject]:
        node = self.run.database.node
        try:
            return await self.run.peer.push(
                body, authority=node.authority, instance=str(node.instance), params=params
            )
        except Refused as error:
            if error.problem.name == _AWAITS_ANSWER:
                raise AwaitsAnswer(describe(error, self.run.peer.url), error) from error
            if error.problem.name == _OUT_OF_STEP:
                raise OutOfStep(describe(error, self.run.peer.url)) from error
            raise

    def _read(self, lines: Iterable[JsonObject]) -> list[CopyFinding]:
        """The verdicts of the target, in printable form for an operator."""
        try:
            told = [VerdictLine.model_validate(line) for line in lines]
        except ValueError as error:
            url = f"{self.run.peer.url}/replication/entities"
            raise BadAnswer(url, "something else than verdicts") from error
        return [
            CopyFinding(
                origin=Origin(each.authority, each.origin),
                xid=each.origin if each.xid is None else each.xid,
                epoch=each.epoch,
                verdict=each.verdict,
                detail=printable((each.detail or "")[:_LONGEST_DETAIL]),
            )
            for each in told
        ]

    def _findings_in(self, lines: Iterable[JsonObject], request: PushRequest) -> list[CopyFinding]:
        """The verdict on each copy of a request; `BadAnswer` if one is missing or unknown."""
        told = {each.origin: each for each in self._read(lines)}
        if not request.copies.keys() <= told.keys():
            url = f"{self.run.peer.url}/replication/entities"
            raise BadAnswer(url, "something else than a verdict for each copy")
        findings = []
        for origin, copy in request.copies.items():
            verdict, detail = told[origin].verdict, told[origin].detail
            reason = _NOT_ACCEPTED if verdict is Verdict.REFUSED else ""
            findings.append(CopyFinding.about(copy, verdict, detail or reason))
        return findings

    async def _save(
        self,
        request: PushRequest,
        findings: Sequence[CopyFinding],
        cursor: str | None,
        behind: int | None,
    ) -> Applied:
        conflicts = [each for each in findings if each.verdict in _REFUSALS]
        settled = [each.origin for each in findings if each.verdict not in _REFUSALS]
        applied = sum(each.verdict is Verdict.APPLY for each in findings)
        async with self.run.database.transaction() as connection:
            await links.save_progress(
                connection,
                self.run.link,
                cursor=cursor,
                applied=applied,
                at=datetime.now(UTC),
                copies=len(request.copies),
                size=request.size,
                behind=behind,
                settled=settled,
            )
            if conflicts:
                await linkconflicts.add(connection, self.run.link.id, conflicts)
        return Applied(copies=len(request.copies), changes=applied, conflicts=len(conflicts))


async def meet_target(context: Context, peer: Client, *, count: bool = False) -> Handshake:
    """Ask a target for its identity; `ClientError` if nothing can be pushed to it."""
    target = await handshake.shake_hands(peer, count=count)
    handshake.check_not_own(context, target)
    if not target.pushbytes:
        raise ClientError(
            f"{peer.url} takes no pushes: its software is {target.software}.",
            "Let the link lead to another catalog.",
        )
    return target


async def find_target(context: Context, url: str, access: PeerAccess) -> FoundCatalog:
    """Describe a target; `ClientError` if it does not accept pushes of this node."""
    node = context.database.node
    async with handshake.first_contact(context, url, access) as peer:
        target = await meet_target(context, peer, count=True)
        await peer.push(b"", authority=node.authority, instance=str(node.instance))
    return handshake.found_catalog(target)


async def requests_for(flow: PushFlow, copies: Sequence[Copy]) -> AsyncIterator[PushRequest]:
    """Copies in requests of a size that the target takes, none of them empty.

    A copy that is too large for the target is noted as a conflict.
    """
    # A request also has room for the line with the cursor.
    room = (flow.target.pushbytes or 0) - _BYTES_OF_END
    most = min(_MOST_BYTES, room)
    request = PushRequest()
    async for copy, line in lines_of(flow.run.context, copies):
        if len(line) > room:
            detail = f"it is larger than the {room} bytes that the target takes at once"
            conflict = CopyFinding.about(copy, Verdict.REFUSED, detail)
            async with flow.run.database.transaction() as connection:
                await linkconflicts.add(connection, flow.run.link.id, [conflict])
            continue
        is_full = request.size + len(line) > most or len(request.copies) == MOST_PUSHED
        if request.copies and is_full:
            yield request
            request = PushRequest()
        request.add(copy, line)
    if request.copies:
        yield request
