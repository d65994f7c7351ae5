"""Runs the checks of documents that requests cause, within limits per request and per client.

No check runs while a transaction is open; in a transaction, `KnownResults` answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from catalog.formats.checker import Budget, BudgetSpent, Check, Checker, Key
from catalog.load.limiter import Share, Things
from catalog.model.concorderrors import LimitExceeded
from catalog.model.errors import ServerBusy

_Result = TypeVar("_Result")

# The limit of rounds of checks for one request. A new round is due if concurrent writes have
# changed the documents that the request's documents are compared with.
_MOST_ROUNDS = 16
# The rounds after which the requests of one client continue one at a time, since they may disturb
# each other.
_ROUNDS_TOGETHER = 2
# The time of the checks of a request, without the wait for a turn.
_SECONDS_OF_REQUEST = 20.0
# The size of the documents of a transaction that wait for checks.
_MOST_BYTES = 64 * 1024 * 1024


class CheckedRequests:
    """The requests of a node whose documents are being checked or wait for checks."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.share = Share(1000, per_key=100, things=Things("requests whose documents are checked"))
        # Weak, so that a lock goes with the last request that holds or awaits the lock.
        self._contentions: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def begin(self, client: str, *, is_bounded: bool = True) -> RequestChecks:
        """The checks of a new request; `is_bounded` limits the total time of the checks."""
        seconds = _SECONDS_OF_REQUEST if is_bounded else math.inf
        return RequestChecks(self, client, Budget(seconds))

    def contention(self, client: str) -> asyncio.Lock:
        """The lock for requests of a client that have to be checked again."""
        return self._contentions.setdefault(client, asyncio.Lock())


class RequestChecks:
    """The checks of one request, with the results, kept until the request ends.

    So results that are no fact about the documents are kept as well: the check took too long.
    """

    def __init__(self, requests: CheckedRequests, client: str, budget: Budget) -> None:
        self._requests = requests
        self._client = client
        self._budget = budget
        self._known: dict[Key, str] = {}

    def known(self, key: Key) -> str | None:
        """The result of a check; `None` if the check has to be run."""
        if key not in self._known:
            remembered = self._requests.checker.remembered(key)
            if remembered is None:
                return None
            self._known[key] = remembered
        return self._known[key]

    async def complete(self, transact: Callable[[KnownResults], Awaitable[_Result]]) -> _Result:
        """Run a transaction, and again after the checks that the transaction found due.

        Raises:
            ServerBusy: after every round of checks, further checks had become due.
            LimitExceeded, TooManyAtOnce: as `run`.
        """
        rounds = 0
        async with contextlib.AsyncExitStack() as turn:
            while rounds < _MOST_ROUNDS:
                try:
                    return await transact(KnownResults(self))
                except ChecksDue as due:
                    rounds += not due.is_part
                    if rounds == _ROUNDS_TOGETHER and not due.is_part:
                        await turn.enter_async_context(self._requests.contention(self._client))
                        # The documents of the comparisons may have changed during the wait, so the
                        # transaction finds the due checks again.
                        continue
                    await self.run(due.checks)
        detail = "What its documents are compared with is changing all the time."
        raise ServerBusy("/", detail=detail)

    async def run(self, checks: Iterable[Check]) -> None:
        """Run checks when the client has its turn, and keep the results.

        Raises:
            LimitExceeded: the checks of the request take too long in total.
            TooManyAtOnce, ServerBusy: too many requests wait for checks.
        """
        checker = self._requests.checker
        async with self._requests.share.hold(self._client, wait_seconds=0):
            try:
                found = await checker.run(checks, self._budget, client=self._client)
            except BudgetSpent as error:
                raise LimitExceeded(
                    "/",
                    limit=f"{_SECONDS_OF_REQUEST:g}",
                    things="seconds of checks",
                    setting="fixed",
                ) from error
        self._known |= found

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        """The fault found by each check, or "". Not to be called within transactions."""
        due = [check for check in checks if self.known(check.key) is None]
        if due:
            await self.run(due)
        return [self._known[check.key] for check in checks]

    async def conform(
        self, format: str, schema: bytes, payload: bytes, contenttype: str, part: str
    ) -> str:
        """Check a payload as `Checker.conform` does, within the limits of a client."""
        async with self._requests.share.hold(self._client, wait_seconds=0):
            return await self._requests.checker.conform(
                format, schema, payload, contenttype, part, client=self._client
            )


class ChecksDue(Exception):
    """A transaction needs unknown results, and has to be run again once the results are known.

    `is_part`: further checks are due besides `checks`.
    """

    def __init__(self, checks: Sequence[Check], *, is_part: bool) -> None:
        super().__init__(f"{len(checks)} checks of documents are due")
        self.checks = checks
        self.is_part = is_part


class KnownResults:
    """Answers checks in a transaction, from the known results of the request.

    A document without a known result counts as good, and the check as due. So one pass finds every
    due check, before `raise_due` lets the transaction begin again.
    """

    def __init__(self, checks: RequestChecks) -> None:
        self._checks = checks
        self._due: dict[Key, Check] = {}
        self._due_bytes = 0

    @property
    def are_complete(self) -> bool:
        """Whether every check so far had a known result."""
        return not self._due

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        found = [(check, self._checks.known(check.key)) for check in checks]
        for check, answer in found:
            if answer is None and check.key not in self._due:
                self._due[check.key] = check
                self._due_bytes += sum(len(each.content) for each in check.documents)
        return [answer or "" for _, answer in found]

    def raise_due(self) -> None:
        """Raise `ChecksDue` if a check was due."""
        if self._due:
            raise ChecksDue([*self._due.values()], is_part=False)

    def raise_part(self) -> None:
        """Raise `ChecksDue` if the documents of the due checks exceed the limit of kept bytes."""
        if self._due_bytes > _MOST_BYTES:
            raise ChecksDue([*self._due.values()], is_part=True)
