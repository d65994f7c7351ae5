"""The database finds the groups that a path names by the rule that `covers` spells out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catalog.model.caller import node_caller
from catalog.model.modelsource import default_model
from catalog.model.roles import covers, parse_path
from catalog.store.accessrules import AccessRule, add_rule, covered_groups, remove_rule
from catalog.store.database import Connection, Database

pytestmark = pytest.mark.asyncio(loop_scope="module")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
# What LIKE, or a pattern of any kind, could take for more than a character.
IDS = st.text("aB_.-~:@", min_size=1, max_size=6).map(lambda text: f"a{text}")
TYPES = st.sampled_from(["ab", "a_b", "axb", "groups"])
GROUPS = st.builds("/{}/{}".format, TYPES, IDS)


@st.composite
def paths(draw: st.DrawFn) -> str:
    """The path of a group, of which parts may be wildcards."""
    _, plural, id = draw(GROUPS).split("/")
    parts = []
    for part in (plural, id):
        start = draw(st.integers(0, len(part)))
        end = draw(st.integers(start, len(part)))
        parts.append(f"{part[:start]}*{part[end:]}" if draw(st.booleans()) else part)
    return parse_path("/".join(["", *parts]))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def connection(shared_database_url: str) -> AsyncIterator[Connection]:
    source = default_model().source
    async with (
        Database.open(shared_database_url, node_caller(), modelsource=source) as database,
        database.acquire() as connection,
    ):
        yield connection


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(given_paths=st.lists(paths(), max_size=3), groups=st.sets(GROUPS, max_size=8))
async def test_rules_cover_the_groups_that_their_paths_name(
    connection: Connection, given_paths: list[str], groups: set[str]
) -> None:
    rule = AccessRule(id="r", who="anonymous", role="reader", createdat=NOW, createdby="")
    await add_rule(connection, rule, given_paths)
    try:
        found = await covered_groups(connection, ["r", "missing"], groups)
    finally:
        await remove_rule(connection, "r")

    assert found == {group for group in groups if any(covers(p, group) for p in given_paths)}
