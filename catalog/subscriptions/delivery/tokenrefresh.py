"""Refreshes the access tokens of sinks before expiry, or when a sink has refused a token.

One process of a node refreshes tokens at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from functools import partial

import aiohttp
import structlog

from catalog.context import Context
from catalog.http.outboundconnections import open_session
from catalog.http.tokenendpoint import RefreshFailed, refresh_token
from catalog.keys.keyring import SecretUnreadable
from catalog.model.credentials import REFRESH_SECONDS, RefreshGrant, TokenCredential, refresh_time
from catalog.model.errors import ServerBusy
from catalog.settings import Settings
from catalog.store.database import Connection, wait_for
from catalog.store.leadership import listening, run_heartbeat
from catalog.subscriptions.stored import sinkcredentials
from catalog.subscriptions.stored.sinkcredentials import StoredCredential
from catalog.subscriptions.stored.subscriptions import SUBSCRIPTION_CHANNEL
from catalog.supervisor import LoopTiming, backoff_from, run_as_leader

_log = structlog.get_logger(__name__)

_MOST_AT_ONCE = 32
_MOST_PER_ENDPOINT = 4
# An announcement can be lost.
_LOOK_SECONDS = 5.0
# A token with no lifetime left is refreshed no more often.
_LEAST_SECONDS = 1.0
# The time before the end of a token without a refresh at which an event warns of the end.
_WARNED_BEFORE = timedelta(days=1)
# An answer may hold the only refresh token that is still valid.
_LAST_ANSWERS_SECONDS = 3.0


async def run_token_refresh(context: Context, *, timing: LoopTiming | None = None) -> None:
    """Refresh the access tokens of this node's subscriptions, for ever."""
    timing = timing or LoopTiming()
    serve = partial(_serve, context, timing)
    await run_as_leader(context.database, "token refresh", serve, timing=timing)


async def _serve(context: Context, timing: LoopTiming, connection: Connection) -> None:
    seconds = context.settings.delivery_timeout_seconds
    async with (
        open_session(context.settings, total_seconds=seconds) as session,
        asyncio.TaskGroup() as group,
    ):
        refresher = TokenRefresher(context, timing, session, group)
        group.create_task(run_heartbeat(connection))
        async with listening(connection, SUBSCRIPTION_CHANNEL, refresher.announce):
            await refresher.run()


class TokenRefresher:
    """Refreshes due tokens, with a bound on concurrent refreshes, in all and per endpoint.

    A token is claimed for longer than its refresh can take. So two processes do not refresh the
    same token, even while one process takes over: an endpoint may take a refresh token for stolen
    when it sees the token twice.
    """

    def __init__(
        self,
        context: Context,
        timing: LoopTiming,
        session: aiohttp.ClientSession,
        group: asyncio.TaskGroup,
    ) -> None:
        self._database = context.database
        self._keys = context.keys
        self._settings: Settings = context.settings
        self._timing = timing
        self._session = session
        self._group = group
        self._backoff = backoff_from(context.settings)
        self._claim = timedelta(seconds=2 * context.settings.delivery_timeout_seconds + 60)
        self._running: dict[asyncio.Task[None], str] = {}
        self._is_announced = asyncio.Event()

    def announce(self, _: str) -> None:
        """Look soon for tokens that are due."""
        self._is_announced.set()

    async def run(self) -> None:
        """Refresh for ever; when cancelled, wait for outstanding answers first."""
        try:
            while True:
                # Cleared before the look, so that an announcement in between causes a further look.
                self._is_announced.clear()
                try:
                    pause = await self._start_due()
                except ServerBusy:
                    await self._database.recovered()
                else:
                    await wait_for(self._is_announced, pause)
        finally:
            if self._running:
                await asyncio.wait(self._running, timeout=_LAST_ANSWERS_SECONDS)

    async def _start_due(self) -> float:
        """Start refreshes, warn of other tokens, and return the seconds until the next look."""
        now = self._timing.now()
        counts = Counter(self._running.values())
        busy = [endpoint for endpoint, count in counts.items() if count >= _MOST_PER_ENDPOINT]
        ending = now + _WARNED_BEFORE
        async with self._database.acquire() as connection:
            await sinkcredentials.warn_of_ending(connection, ending)
            due = await sinkcredentials.claim_due(
                connection,
                now,
                until=now + self._claim,
                busy=busy,
                per_endpoint=_MOST_PER_ENDPOINT,
                limit=_MOST_AT_ONCE - len(self._running),
            )
            for stored in due:
                self._start(stored)
            following = await sinkcredentials.next_refresh(connection, busy=busy)
        if len(self._running) >= _MOST_AT_ONCE or following is None:
            return _LOOK_SECONDS
        return min(max((following - now).total_seconds(), 0.0), _LOOK_SECONDS)

    def _start(self, stored: StoredCredential) -> None:
        task = self._group.create_task(self._refresh(stored))
        self._running[task] = stored.endpoint or ""
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._is_announced.set()

    async def _refresh(self, stored: StoredCredential) -> None:
        answer = await self._ask(stored)
        while True:
            try:
                await self._store(stored, answer)
                return
            # Keep the answer: the endpoint may answer a refresh token only once.
            except ServerBusy:
                await self._database.recovered()

    async def _ask(self, stored: StoredCredential) -> TokenCredential | RefreshFailed:
        """The new credential."""
        try:
            credential = sinkcredentials.open_credential(self._keys, stored)
        except SecretUnreadable as error:
            return RefreshFailed(reason=error.reason, cause=error.cause)
        assert isinstance(credential, TokenCredential)
        assert credential.refresh is not None
        grant = credential.refresh
        answer = await refresh_token(self._session, self._settings, grant, self._timing.now())
        if isinstance(answer, RefreshFailed):
            return answer
        return TokenCredential(
            token=answer.token,
            scheme=answer.scheme or credential.scheme,
            expiresat=self._timing.now() + timedelta(seconds=answer.lifetime_seconds),
            refresh=RefreshGrant(token=answer.refresh or grant.token, endpoint=grant.endpoint),
        )

    async def _store(
        self, stored: StoredCredential, answer: TokenCredential | RefreshFailed
    ) -> None:
        now = self._timing.now()
        if isinstance(answer, RefreshFailed):
            await self._store_failure(stored, answer, now)
            return
        assert answer.expiresat is not None
        due = refresh_time(
            answer.expiresat, now, lead_seconds=REFRESH_SECONDS, least_seconds=_LEAST_SECONDS
        )
        async with self._database.transaction() as connection:
            is_stored = await sinkcredentials.renew(
                connection, self._keys, stored, answer, refreshat=due
            )
        if is_stored:
            _log.info("access token refreshed", subscription=stored.subscription)

    async def _store_failure(
        self, stored: StoredCredential, answer: RefreshFailed, now: datetime
    ) -> None:
        failures = stored.failures + 1
        pause = self._backoff.delay(failures, self._timing.random, at_least=answer.retry_after)
        if failures == 1:
            _log.warning(
                "access token not refreshed",
                subscription=stored.subscription,
                reason=answer.reason,
                cause=answer.cause,
            )
        refreshat = now + timedelta(seconds=pause)
        async with self._database.transaction() as connection:
            await sinkcredentials.note_failure(
                connection, stored, answer.reason, refreshat=refreshat
            )
