"""Carries on the handovers of a node: gives groups that are promised, takes groups that were given.

Each side reports the state of the handover in every request, and each step may be repeated. So a
handover continues from the stored states after a crash of either side.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog

from catalog.client import BadAnswer, Client, ClientError, Refused
from catalog.model.concorderrors import CatalogRecovering
from catalog.model.errors import ServerBusy
from catalog.operations.handovers import GET_HANDOVER, TELL_OFFER, HandoverOffer, HandoverState
from catalog.store.database import Connection, wait_for
from catalog.supervisor import backoff_from
from replication.handover.handovercopies import Unfit
from replication.handover.handovertransactions import fetch_given, give, load_group, take
from replication.peers.linkerrors import NO_LINK, cause_of, describe
from replication.peers.peeraccess import access_of_row
from replication.store import handovers
from replication.store.handovers import Handover
from replication.transfer.linkrun import LinkResources

_log = structlog.get_logger(__name__)

_LOOK_SECONDS = 30.0
_MOST_AT_ONCE = 4
# The taker is asked again soon, then less often, before the handover is postponed.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
_LONGEST_ERROR = 1000


class HandoverRunner:
    """Carries on the handovers of the node, a few at a time.

    `wakeup` makes the runner look for due handovers at once.
    """

    def __init__(self, resources: LinkResources) -> None:
        self.wakeup = asyncio.Event()
        self._context = resources.context
        self._database = resources.context.database
        self._resources = resources
        self._random = resources.timing.random
        self._backoff = backoff_from(resources.context.settings)
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)

    async def run(self) -> None:
        """Carry on handovers, for ever."""
        while True:
            try:
                # Cleared before the look, so that a wakeup during the look is not missed.
                self.wakeup.clear()
                if not await self.run_once():
                    await wait_for(self.wakeup, await self._rest())
            except ServerBusy:
                await self._database.recovered()

    async def run_once(self) -> int:
        """Take the next step of each due handover; return the number of due handovers."""
        async with self._database.acquire() as connection:
            due = await handovers.read_due(connection, datetime.now(UTC))
        async with asyncio.TaskGroup() as group:
            for handover in due:
                group.create_task(self._carry_on(handover))
        return len(due)

    async def _rest(self) -> float:
        async with self._database.acquire() as connection:
            at = await handovers.read_next_due(connection)
        if at is None:
            return _LOOK_SECONDS
        return min(_LOOK_SECONDS, max(0.0, (at - datetime.now(UTC)).total_seconds()))

    async def _carry_on(self, handover: Handover) -> None:
        try:
            async with self._places:
                peer = await self._peer(handover)
                step = self._give if handover.role == "give" else self._take
                await step(handover, peer)
        except ClientError as error:
            if not handover.failures:
                _log.warning("handover interrupted", id=handover.id, cause=cause_of(error))
            await self._postpone(handover, describe(error, handover.peer, NO_LINK))
        except Unfit as error:
            await self._postpone(handover, f"{handover.xid} cannot be handed over: {error}.")
        except CatalogRecovering:
            await self._postpone(handover, "This node is recovering its own entities.")
        except ServerBusy:
            raise
        # An unexpected error must stop neither the links nor the remaining handovers.
        except Exception as error:
            _log.exception("handover failed", id=handover.id)
            await self._postpone(handover, f"{type(error).__name__}: {error}")

    async def _give(self, handover: Handover, peer: Client) -> None:
        """Tell the taker of the handover until the taker has promised, or has taken the group."""
        if handover.state == "offered":
            async with self._database.snapshot() as connection:
                await load_group(connection, self._database.node.authority, handover.xid)
        own = self._database.node.authority
        offer = HandoverOffer(id=handover.id, group=handover.xid, authority=own)
        for pause in _PAUSES:
            told = await peer.call(TELL_OFFER, offer)
            if told.authority != handover.authority:
                raise ClientError(
                    f"{handover.peer} claims to be {told.authority} now, and the group was "
                    f"offered to {handover.authority}."
                )
            state = told.state
            if handover.state == "offered" and state == "promised":
                given = await give(self._context, handover, told.floor)
                _log.info("group given", group=handover.xid, to=handover.authority)
                if given.state == "given":
                    # The next offer wakes the taker, which learns the new state when it asks.
                    handover = given
                    continue
                return
            if handover.state == "given" and state == "done":
                # Not before the taker says so: a taker that crashes fetches the lines again.
                async with self._database.transaction() as connection:
                    await handovers.drop_copies(connection, handover.id)
                    await self._move_on(connection, handover, "done")
                return
            if state not in ("asked", "promised"):
                raise ClientError(
                    f"{handover.peer} says that the handover is {state}.",
                    "If this catalog was restored from a backup, let it recover.",
                )
            if told.error:
                raise ClientError(f"{handover.peer} does not go on: {told.error}")
            await asyncio.sleep(pause)
        await self._postpone(handover, None)

    async def _take(self, handover: Handover, peer: Client) -> None:
        """Ask the giver for the state of the handover, and take the next step."""
        assert handover.theirs is not None
        state = await self._ask(handover, peer)
        if state in ("aborted", None):
            # The giver did not give the group, so the consent stands for another offer.
            async with self._database.transaction() as connection:
                await self._move_on(connection, handover, "consented", theirs=None)
            return
        if state == "done":
            raise ClientError(
                f"{handover.peer} says that this node has taken {handover.xid} already.",
                "If it was restored from a backup, recover: `concord recover --from` a catalog "
                "that follows it; then end this with `concord handover abort --force`.",
            )
        if handover.state == "asked":
            if state == "offered":
                await fetch_given(self._context, peer, handover)
            own = self._database.node.authority
            # After the promise, the giver decides. The floor is stored with the promise, since the
            # new epochs are computed from the floor.
            async with self._database.transaction() as connection:
                floor = await handovers.read_floor(connection, own, handover.xid)
                await self._move_on(connection, handover, "promised", floor=floor)
            return
        if state == "given":
            copies = await fetch_given(self._context, peer, handover)
            await take(self._context, handover, copies)
            _log.info("group taken", group=handover.xid, of=handover.authority)
            return
        # The giver reports that the group was given; if the report is lost, the node asks again.
        await self._postpone(handover, None)

    async def _ask(self, handover: Handover, peer: Client) -> HandoverState | None:
        """The state of the handover at the giver; `None` if the giver knows of no such handover."""
        assert handover.theirs is not None
        try:
            found = await peer.call(GET_HANDOVER, id=handover.theirs)
        except Refused as error:
            if error.problem.status == 404 and error.problem.name == "not_found":
                return None
            raise
        expected = handover.xid, self._database.node.authority, "give"
        if (found.group, found.authority, found.role) != expected:
            raise BadAnswer(peer.url, "another handover than the one that it told of")
        return found.state

    async def _move_on(
        self, connection: Connection, handover: Handover, state: HandoverState, **changed: Any
    ) -> None:
        """Change the state of a handover, unless an operator or a request has changed it before."""
        current = await handovers.lock(connection, handover.id)
        if current is not None and current.state == handover.state:
            await handovers.move_on(connection, current, state, datetime.now(UTC), **changed)

    async def _postpone(self, handover: Handover, error: str | None) -> None:
        """Try a handover again later; without an error, the handover only waits."""
        told = None if error is None else error[:_LONGEST_ERROR]
        seconds = self._backoff.delay(handover.failures + 1, self._random)
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        async with self._database.acquire() as connection:
            await handovers.postpone(connection, handover, told, at)

    async def _peer(self, handover: Handover) -> Client:
        url, sealed = handover.peer, handover.sealed
        access = await access_of_row(self._context, url, sealed, "handovers", handover.id)
        return self._resources.client_of(url, access)
