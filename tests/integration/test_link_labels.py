"""Links that select by labels hold what has them, and what is above it, whatever changes."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.integration.conftest import Node
from tests.integration.federation import (
    Rows,
    databases,
    digest_rows,
    drop_log,
    eventually,
    link,
    link_history_is,
    link_is,
    own_rows,
    running,
    start_member,
    write_some,
)
from tests.integration.meteredsource import follow, metered

LABELLED = {"labels": {"public": "yes", "team": "shop"}}
G, OPEN, CLOSED = "/messagegroups/g", "/messagegroups/open", "/messagegroups/closed"
WANTED = ["public=yes", "team"]


@pytest.fixture
async def nodes(postgres_url: str, template: str) -> AsyncIterator[list[Node]]:
    """Two fresh nodes that do not know each other."""
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one, pull_interval_seconds=0.3) as first,
        start_member(two, pull_interval_seconds=0.3, link_delete_count=100) as second,
    ):
        yield [first, second]


async def rows_of(node: Node, *paths: str) -> Rows:
    """What a node controls at these paths and below, without the groups above."""
    rows = await own_rows(node)
    return {
        o: row
        for o, row in rows.items()
        if row[1] == "false" and any(o[1] == p or o[1].startswith(f"{p}/") for p in paths)
    }


async def group_row(node: Node, path: str) -> Rows:
    return {o: row for o, row in (await own_rows(node)).items() if o[1] == path}


async def holds(target: Node, rows: Rows) -> bool:
    own = target.database.node.authority
    held = {
        o: row
        for o, row in (await digest_rows(target)).items()
        if o[0] != own and row[1] == "false"
    }
    return held == rows


async def becomes(target: Node, source: Node, *paths: str, group: str = "") -> None:
    """Wait until a node holds just what is at these paths of a source, and one group above."""

    async def is_so() -> bool:
        above = await group_row(source, group) if group else {}
        return await holds(target, {**above, **await rows_of(source, *paths)})

    await eventually(is_so)


async def fill(source: Node) -> None:
    """A group of which two resources have the labels, one that has them, and one without."""
    for id in ("m", "m-1", "m-1.x", "other"):
        labels = LABELLED if id in ("m", "m-1.x") else {"labels": {"public": "yes"}}
        for version in ("1", "2"):
            await source.put(f"{G}/messages/{id}/versions/{version}", labels)
    await source.put(OPEN, LABELLED)
    await source.put(f"{OPEN}/messages/any", {})
    await write_some(source, "closed", messages=1)


@pytest.mark.parametrize("mode", ["pull", "events"])
async def test_labels_select_groups_and_resources_as_they_are_now(
    nodes: list[Node], mode: str
) -> None:
    source, target = nodes
    await fill(source)
    await link(target, source, id="from", mode=mode, labels=WANTED, prefix="x-")
    m, mx = f"{G}/messages/m", f"{G}/messages/m-1.x"
    async with running(target), running(source, deliveries=True):
        await becomes(target, source, m, mx, OPEN, group=G)
        await link_is(target, "from", "current")
        # A resource loses and gets its labels, by a version and by another default version.
        await source.put(f"{mx}/versions/3", {})
        await source.put(f"{G}/messages/other/versions/3", LABELLED)
        await source.put(f"{G}/messages/new", LABELLED)
        other, new = f"{G}/messages/other", f"{G}/messages/new"
        await becomes(target, source, m, other, new, OPEN, group=G)
        default = {"defaultversionid": "2", "defaultversionsticky": True}
        await source.put(f"{mx}/meta", default)
        await source.put(f"{other}/meta", default)
        await becomes(target, source, m, mx, new, OPEN, group=G)
        # Groups do; what is in them has labels of its own, or not.
        await source.put(OPEN, {})
        await source.put(CLOSED, LABELLED)
        await source.put(f"{OPEN}/messages/any", {"description": "unseen"})
        await becomes(target, source, m, mx, new, CLOSED, group=G)
        # The last that was selected in a group goes, and the group with it.
        for path in (m, mx, new):
            assert (await source.send("DELETE", path)).status == 204
        await becomes(target, source, CLOSED)
        await link_is(target, "from", "current")
    shown = await target.get("/replication/links/from")
    assert (shown["labels"], shown["conflicts"]) == (WANTED, 0)
    assert (await target.get("/messagegroups/x-closed/messages/m0"))["description"]


async def test_other_labels_fetch_what_is_missing_and_a_lost_place_is_compared(
    nodes: list[Node],
) -> None:
    source, target = nodes
    await fill(source)
    m, mx = f"{G}/messages/m", f"{G}/messages/m-1.x"
    more = {f"k{number}": {"labels": {"public": "yes"}} for number in range(12)}
    assert (await source.send("POST", f"{G}/messages", more)).status == 200
    others = [f"{G}/messages/{id}" for id in ("m-1", "other", *more)]
    async with metered(source) as way:
        await follow(target, way, labels=["public", "team"])
        async with running(target):
            await becomes(target, source, m, mx, OPEN, group=G)
            await link_is(target, "from", "current")
            way.forget()
            answer = await target.send(
                "PATCH", "/replication/links/from", {"labels": ["public=yes"]}
            )
            assert answer.status == 200, answer.body
            await link_history_is(target, "from", "compared", "copied")
            await becomes(target, source, m, mx, *others, OPEN, group=G)
            await link_is(target, "from", "current")
        assert way.requests["/replication/snapshot"] == 0
        await source.put(OPEN, {})
        await source.put(f"{mx}/versions/2", {"description": "without labels now"})
        assert (await source.send("DELETE", m)).status == 204
        await drop_log(source)
        way.forget()
        async with running(target):
            await link_history_is(target, "from", "compared", "resynchronise", "compared")
            await becomes(target, source, *others, group=G)
            await link_is(target, "from", "current")
        assert way.requests["/replication/snapshot"] == 0
        # A complete copy doubts nothing that the source has, so what another link brings stays.
        await follow(target, way, id="all")
        await target.send("POST", "/replication/links/from/reset", {"full": True})
        everything = ("/messagegroups", "/schemagroups")
        async with running(target):
            await becomes(target, source, *everything)
            await link_history_is(target, "from", "copied", "compared")
            await link_is(target, "from", "current")
            await becomes(target, source, *everything)
        for mode, needed in (("push", "target"), ("pull", "source")):
            body = {"mode": mode, needed: way.url, "labels": ["public" if mode == "push" else "="]}
            refused = await target.send("POST", "/replication/links?force", body)
            assert refused.error == "invalid_attribute"
