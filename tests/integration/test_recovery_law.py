"""Which copy is chosen depends on what the catalogs have, and not on the order of the sources."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from functools import partial

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.model.caller import Author, node_caller
from catalog.model.entity import Tombstone
from catalog.model.modelsource import default_model
from catalog.store.database import Connection, Database
from catalog.store.writes import Write, write
from replication.store import recoveries
from replication.store.recoveries import AnnouncedCopy

pytestmark = pytest.mark.asyncio(loop_scope="module")

# The epoch of an origin at a catalog, and which of the copies of that epoch it has. A tombstone has
# one form only, so what is here is of form 0.
Held = dict[str, tuple[int, int]]
ORIGINS = ("/messagegroups/a", "/messagegroups/b")
epochs = st.integers(1, 3)
here_held = st.dictionaries(st.sampled_from(ORIGINS), st.tuples(epochs, st.just(0)))
there_held = st.dictionaries(st.sampled_from(ORIGINS), st.tuples(epochs, st.integers(0, 2)))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(shared_database_url: str) -> AsyncIterator[Database]:
    source = default_model().source
    async with Database.open(shared_database_url, node_caller(), modelsource=source) as opened:
        yield opened


def tombstone_of(own: str, origin: str, epoch: int) -> Tombstone:
    return Tombstone(
        xid=origin,
        kind="group",
        authority=own,
        origin=origin,
        epoch=epoch,
        deletedat=datetime(2026, 1, 1, tzinfo=UTC),
    )


def digest_of(own: str, origin: str, epoch: int, form: int) -> bytes:
    return bytes([form]) * 32 if form else tombstone_of(own, origin, epoch).digest


def expected(own: str, here: Held, there: list[Held]) -> dict[str, tuple[int, bytes]]:
    """The rule in words: the highest epoch, then what most have, then the greatest digest."""
    chosen = {}
    for origin in ORIGINS:
        held = [each[origin] for each in (here, *there) if origin in each]
        if not held or all(each.get(origin) == here.get(origin) for each in there):
            continue
        votes = Counter(held)
        digest = partial(digest_of, own, origin)
        epoch, form = max(votes, key=lambda e: (e[0], votes[e], digest(*e)))
        chosen[origin] = epoch, digest(epoch, form)
    return chosen


async def chosen_from(
    connection: Connection, own: str, here: Held, there: list[Held]
) -> dict[str, tuple[int, bytes]]:
    sources = {f"http://{n}": None for n, _ in enumerate(there)}
    await recoveries.begin(connection, sources, datetime.now(UTC))
    found = await recoveries.read(connection)
    assert found is not None
    for source, held in zip(found.sources, there, strict=True):
        differing = [
            AnnouncedCopy(origin=origin, epoch=None)
            if origin not in held
            else AnnouncedCopy(
                origin=origin, epoch=held[origin][0], digest=digest_of(own, origin, *held[origin])
            )
            for origin in {**here, **held}
            if here.get(origin) != held.get(origin)
        ]
        await recoveries.add_copies(connection, source, differing)
    await recoveries.choose(connection, own)
    rows = await connection.fetch("SELECT origin, epoch, digest FROM recovery_choices")
    return {row["origin"]: (row["epoch"], row["digest"]) for row in rows}


@settings(
    max_examples=30,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(here=here_held, there=st.lists(there_held, min_size=1, max_size=3))
async def test_the_highest_epoch_wins_then_the_majority_in_any_order_of_sources(
    database: Database, here: Held, there: list[Held]
) -> None:
    own = database.node.authority
    async with database.acquire() as connection:
        await connection.execute("DELETE FROM tombstones")
        tombstones = [tombstone_of(own, origin, epoch) for origin, (epoch, _) in here.items()]
        await write(
            connection,
            Write(
                author=Author(kind="node"),
                interaction="i",
                at=datetime.now(UTC),
                tombstones=tombstones,
            ),
        )
        for order in itertools.permutations(there):
            assert await chosen_from(connection, own, here, [*order]) == expected(own, here, there)
