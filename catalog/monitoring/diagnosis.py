"""Runs checks of a node at once, each in bounded time, and collects the findings."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Literal, TypeAlias

from catalog.model.masking import described
from catalog.settings import Settings
from catalog.store.connections import Connection, DatabaseUnusable
from catalog.store.schemamigration import OfAnotherVersion, check_version
from catalog.store.servers import connected

Level = Literal["ok", "warning", "error"]

_SECONDS = 20.0
_MOST_CONNECTIONS = 4


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A finding of a check about a subject, with advice for a repair."""

    subject: str
    level: Level
    text: str
    advice: str = ""


class CheckedNode:
    """The node to check: the settings, the database, and the tokens of the user.

    Args:
        settings: the settings of the environment.
        dsn: the database; `None` if no database exists yet.
        token_for: returns the token to send to the node at a URL.
    """

    def __init__(
        self, settings: Settings, dsn: str | None, token_for: Callable[[str], str | None]
    ) -> None:
        self.settings = settings
        self.dsn = dsn
        self.token_for = token_for
        # Checks run at once, and must not use up the connections that the server allows.
        self._free = asyncio.Semaphore(_MOST_CONNECTIONS)

    @asynccontextmanager
    async def server(self) -> AsyncIterator[Connection]:
        """A connection to the database, whatever the schema.

        Raises:
            DatabaseUnusable
        """
        if self.dsn is None:
            raise DatabaseUnusable("there is none yet")
        async with self._free, connected(self.dsn) as connection:
            yield connection

    @asynccontextmanager
    async def database(self) -> AsyncIterator[Connection]:
        """A connection to the database of a catalog of this version, without a migration.

        Raises:
            OfAnotherVersion
            DatabaseUnusable
        """
        async with self.server() as connection:
            await check_version(connection)
            yield connection


Check: TypeAlias = Callable[[CheckedNode], Awaitable[Sequence[Diagnosis]]]


async def examine(
    checked: CheckedNode, checks: Sequence[Check], *, seconds: float = _SECONDS
) -> list[Diagnosis]:
    """Run the checks at once, and return the findings in the order of the checks.

    A check that fails or takes too long is reported as an error itself.
    """
    found = await asyncio.gather(*(_make(checked, check, seconds) for check in checks))
    return list(dict.fromkeys(diagnosis for each in found for diagnosis in each))


async def _make(checked: CheckedNode, check: Check, seconds: float) -> Sequence[Diagnosis]:
    subject = str(getattr(check, "__name__", "check")).removeprefix("check_").replace("_", " ")
    try:
        async with asyncio.timeout(seconds):
            return await check(checked)
    except TimeoutError:
        text, advice = f"it could not be checked within {seconds:g} seconds", ""
    except OfAnotherVersion:
        # The check of the schema reports the version.
        return []
    except DatabaseUnusable as error:
        # Each check that needs the database has the same finding, which is reported once.
        subject = "database"
        text = f"it cannot be used, so what depends on it was not checked: {error}"
        advice = "Check CONCORD_DATABASE_URL or CONCORD_DATA_DIR, and that the server runs."
    # A defect in a check must not hide the findings of the remaining checks.
    except Exception as error:
        text, advice = f"the check itself failed: {described(error)}", ""
    return [Diagnosis(subject, "error", text, advice)]
