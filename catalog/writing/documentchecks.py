"""Runs the checks of documents that requests cause, within the limits of one request and client.

No check runs while a transaction is open: there, `KnownResults` answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar
from weakref import WeakValueDictionary

from catalog.formats import Budget, BudgetSpent, Check, Checker, Key
from catalog.load.limiter import Share, Things
from catalog.model.concorderrors import LimitExceeded
from catalog.model.errors import ServerBusy

_Result = TypeVar("_Result")

# Other writes may change what the documents of a request are compared with, while these are
# checked; so many times they are checked anew.
_MOST_ROUNDS = 16
# Requests of one client that disturb each other so often go on one after the other.
_ROUNDS_TOGETHER = 2
# The time of all checks of a request, without the wait for their turns.
_SECONDS_OF_REQUEST = 20.0
# The documents that wait for their checks.
_MOST_BYTES = 64 * 1024 * 1024


class CheckedRequests:
    """The requests of a node whose documents are checked, or wait for it."""

    def __init__(self, checker: Checker) -> None:
        self.checker = checker
        self.share = Share(1000, per_key=100, things=Things("requests whose documents are checked"))
        self._contentions: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def begin(self, client: str, *, is_bounded: bool = True) -> RequestChecks:
        """The checks of a new request of a client.

        Args:
            is_bounded: whether the time is limited that they may take in all.
        """
        seconds = _SECONDS_OF_REQUEST if is_bounded else math.inf
        return RequestChecks(self, client, Budget(seconds))

    def contention(self, client: str) -> asyncio.Lock:
        """The lock of the requests of a client that have to be checked anew."""
        return self._contentions.setdefault(client, asyncio.Lock())


class RequestChecks:
    """The checks of one request, and their results, which it keeps until it ends.

    So it keeps those as well that are no fact about the documents: the check took too long.
    """

    def __init__(self, requests: CheckedRequests, client: str, budget: Budget) -> None:
        self._requests = requests
        self._client = client
        self._budget = budget
        self._known: dict[Key, str] = {}

    def known(self, key: Key) -> str | None:
        """The result of a check; `None` if it has to be run."""
        if key not in self._known:
            remembered = self._requests.checker.remembered(key)
            if remembered is None:
                return None
            self._known[key] = remembered
        return self._known[key]

    async def complete(self, transact: Callable[[KnownResults], Awaitable[_Result]]) -> _Result:
        """Run a transaction; again, as long as checks are due, once their results are known.

        Raises:
            ServerBusy: each time that checks were run, others had become due.
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
                        continue
                    await self.run(due.checks)
        detail = "What its documents are compared with is changing all the time."
        raise ServerBusy("/", detail=detail)

    async def run(self, checks: Iterable[Check]) -> None:
        """Run checks when it is the turn of the client, and keep their results.

        Raises:
            LimitExceeded: they take too long in all.
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
        """Answer at once, outside of transactions."""
        due = [check for check in checks if self.known(check.key) is None]
        if due:
            await self.run(due)
        return [self._known[check.key] for check in checks]

    async def conform(
        self, format: str, schema: bytes, payload: bytes, contenttype: str, part: str
    ) -> str:
        """As `Checker.conform`, within the limits of a client."""
        async with self._requests.share.hold(self._client, wait_seconds=0):
            return await self._requests.checker.conform(
                format, schema, payload, contenttype, part, client=self._client
            )


class ChecksDue(Exception):
    """A transaction needs results that are not known: it has to be run again with them.

    `is_part`: there are more than those of `checks`.
    """

    def __init__(self, checks: Sequence[Check], *, is_part: bool) -> None:
        super().__init__(f"{len(checks)} checks of documents are due")
        self.checks = checks
        self.is_part = is_part


class KnownResults:
    """Answers in a transaction, from the results that its request knows.

    A document whose result is unknown counts as good, and its check as due. So all checks that
    are due are found in one pass, after which `raise_due` has it all begin again.
    """

    def __init__(self, checks: RequestChecks) -> None:
        self._checks = checks
        self._due: dict[Key, Check] = {}
        self._due_bytes = 0

    @property
    def are_complete(self) -> bool:
        """Whether no check was due so far."""
        return not self._due

    async def answers(self, checks: Sequence[Check]) -> Sequence[str]:
        found = [(check, self._checks.known(check.key)) for check in checks]
        for check, answer in found:
            if answer is None and check.key not in self._due:
                self._due[check.key] = check
                self._due_bytes += sum(len(each.content) for each in check.documents)
        return [answer or "" for _, answer in found]

    def raise_due(self) -> None:
        """Raise `ChecksDue` if any check was due."""
        if self._due:
            raise ChecksDue([*self._due.values()], is_part=False)

    def raise_part(self) -> None:
        """Raise `ChecksDue` if those that were due hold as many bytes as may be kept."""
        if self._due_bytes > _MOST_BYTES:
            raise ChecksDue([*self._due.values()], is_part=True)
