"""Walks of a server of another make: they bring what it has, and delete only what is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalog.client import ClientError
from catalog.model.modelsource import default_model
from replication.applying.deletionlimit import TooManyDeletions
from replication.peers.linkbounds import TooMuchSent
from replication.sources.catalogwalk import WalkIncomplete
from tests.integration.conftest import Node
from tests.integration.federation import (
    databases,
    digest_rows,
    eventually,
    link_is,
    running,
    start_member,
)
from tests.integration.foreignserver import NO_FLAGS, ForeignServer, fill, foreign_server
from tests.integration.walking import LINK, assert_equal, replicas, walking

WAYS: dict[str, dict[str, Any] | None] = {
    "everything": {"flags": ["inline", "doc", "binary"]},
    "pages with everything": {"flags": ["inline", "doc", "binary"], "pagination": True},
    "pages in API view": {"flags": ["inline"], "pagination": True},
    "no flags": NO_FLAGS,
    "no capabilities": None,
}


@pytest.fixture
async def node(postgres_url: str, template: str) -> AsyncIterator[Node]:
    async with databases(postgres_url, template, 1) as (one,), start_member(one) as member:
        yield member


@pytest.mark.parametrize("way", WAYS)
async def test_a_walk_brings_all_that_a_server_has_in_any_way_that_it_offers(
    node: Node, way: str
) -> None:
    async with foreign_server(capabilities=WAYS[way]) as foreign:
        fill(foreign)
        foreign.refer("/schemagroups/s0/schemas/other", "/schemagroups/s1/schemas/x1")
        foreign.put_resource(
            "/schemagroups/s0/schemas/x0",
            compatibility="backward",
            deprecated={"alternative": "http://example.com/"},
        )
        foreign.put_version("/schemagroups/s2/schemas/empty", "1", None, description="no document")
        foreign.put_version("/schemagroups/s2/schemas/far", "1", schemaurl="http://example.com/s")
        async with walking(node, foreign) as walker:
            await walker.walk()
            await assert_equal(node, foreign)
            assert await walker.conflicts() == {}
            logged = await node.logged()

            await walker.begin_anew()
            await walker.walk()
            assert await node.logged() == logged

            foreign.put_version("/schemagroups/s0/schemas/x0", "1", b'{"changed":\n1}')
            foreign.put_version("/schemagroups/s0/schemas/x0", "3", b"{}", format="x")
            foreign.put_group("schemagroups", "new", name="new")
            foreign.put_group("messagegroups", "m0", description="changed")
            foreign.delete("/schemagroups/s1/schemas/x0/versions/1")
            foreign.delete("/messagegroups/m0/messages/y0")
            foreign.delete("/messagegroups/m1")
            foreign.refer("/schemagroups/s2/schemas/x0", "/schemagroups/s1/schemas/x1")
            await walker.walk()
            await assert_equal(node, foreign)


async def test_a_server_that_begins_anew_is_followed_and_epochs_go_on(node: Node) -> None:
    async with foreign_server() as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            await walker.walk()
            backup = foreign.backup()
            for number in range(5):
                foreign.put_group("schemagroups", "s0", name=f"again {number}")
                foreign.put_version("/schemagroups/s0/schemas/x0", "1", b"%d" % number, name="n")
            await walker.walk()
            await assert_equal(node, foreign)
            before = await replicas(node, foreign.url)

            foreign.restore(backup)
            foreign.delete("/schemagroups/s1")
            foreign.put_group("schemagroups", "s1", name="created again")
            foreign.put_version("/schemagroups/s1/schemas/x0", "1", b"created again")
            await walker.walk()
            await assert_equal(node, foreign)
            after = await replicas(node, foreign.url)
            assert all(after[xid] >= epoch for xid, epoch in before.items() if xid in after)
            assert after["/schemagroups/s0"] > before["/schemagroups/s0"]

            logged = await node.logged()
            await walker.begin_anew()
            await walker.walk()
            assert await node.logged() == logged

            foreign.delete("/schemagroups/s1")
            await walker.walk()
            foreign.put_group("schemagroups", "s1", name="created again")
            await walker.walk()
            await assert_equal(node, foreign)
            assert (await replicas(node, foreign.url))["/schemagroups/s1"] > after[
                "/schemagroups/s1"
            ]


@pytest.mark.parametrize("way", ["everything", "pages with everything"])
async def test_a_walk_of_an_unchanged_server_with_tags_costs_few_requests(
    node: Node, way: str
) -> None:
    async with foreign_server(capabilities=WAYS[way], has_tags=True, page_size=50) as foreign:
        fill(foreign, groups=8)
        async with walking(node, foreign) as walker:
            await walker.walk()
            await walker.walk()
            foreign.requests.clear()
            walked = await walker.walk()
            assert walked.entities == 0
            assert foreign.requests.total() <= 5, foreign.requests

            foreign.put_version("/schemagroups/s3/schemas/x0", "1", b"changed")
            foreign.put_group("messagegroups", "another")
            await walker.walk()
            await assert_equal(node, foreign)


async def test_documents_that_have_not_changed_are_not_read_again(node: Node) -> None:
    async with foreign_server(capabilities=WAYS["pages in API view"]) as foreign:
        fill(foreign)
        document = "/schemagroups/s0/schemas/x0/versions/1"
        async with walking(node, foreign) as walker:
            await walker.walk()
            foreign.requests.clear()
            await walker.walk()
            assert foreign.requests[document] == 0

            answer = await node.send("POST", f"/replication/links/{LINK}/reset", {"full": True})
            assert answer.status == 200
            await walker.begin_anew()
            await walker.walk()
            assert foreign.requests[document] == 1


async def test_what_does_not_fit_is_a_conflict_until_the_model_has_room_for_it(node: Node) -> None:
    plurals = ("schemagroups", "thinggroups")
    async with foreign_server(plurals=plurals) as foreign:
        fill(foreign)
        foreign.put_group("thinggroups", "g")
        foreign.put_version("/thinggroups/g/things/t", "1", name="a thing")
        foreign.put_group("schemagroups", "s0", labels="no map")
        foreign.put_group("schemagroups", "no epoch")
        deep: Any = {}
        for _ in range(200):
            deep = {"deeper": deep}
        foreign.put_group("schemagroups", "deep", extension=deep)
        foreign.put_group("schemagroups", "nul", name="a\0b")
        foreign.put_group("schemagroups", "large", number=2**60)
        foreign.put_group("schemagroups", "s1")["createdat"] = "yesterday"
        async with walking(node, foreign) as walker:
            await walker.walk()
            reasons = await walker.conflicts()
            assert set(reasons) == {
                "/thinggroups",
                "/schemagroups/s0",
                *(f"/schemagroups/s0/schemas/x{n}" for n in range(2)),
                *(f"/schemagroups/s0/schemas/x{n}/versions/{v}" for n in range(2) for v in (1, 2)),
                "/schemagroups/s1",
                *(f"/schemagroups/{gid}" for gid in ("no epoch", "deep", "nul", "large")),
            }
            assert "no such type" in reasons["/thinggroups"]
            assert "labels" in reasons["/schemagroups/s0"]
            assert "createdat" in reasons["/schemagroups/s1"]
            assert "/schemagroups/s2/schemas/x0" in await replicas(node, foreign.url)

            things = {"singular": "thing", "hasdocument": False}
            source = default_model().source
            groups = {
                **source["groups"],
                "thinggroups": {"singular": "thinggroup", "resources": {"things": things}},
            }
            answer = await node.send("PUT", "/modelsource", {**source, "groups": groups})
            assert answer.status == 200, answer.body
            foreign.put_group("schemagroups", "s0", labels={"a": "map"})
            foreign.put_group("schemagroups", "s1")["createdat"] = "2024-01-01T00:00:00Z"
            for gid in ("no epoch", "deep", "nul", "large"):
                foreign.delete(f"/schemagroups/{gid}")
            await walker.walk()
            assert await walker.conflicts() == {}
            await assert_equal(node, foreign, *plurals)


async def test_a_link_brings_only_what_is_in_its_scope(node: Node) -> None:
    scope = ["/schemagroups/s1/schemas/x1", "/messagegroups", "/schemagroups/none"]
    async with foreign_server() as foreign:
        fill(foreign, groups=2)
        async with walking(node, foreign, scope=scope, authority="urn:foreign") as walker:
            await walker.walk()
            found = await replicas(node, "urn:foreign")
            schema = "/schemagroups/s1/schemas/x1"
            assert {xid for xid in found if xid.startswith("/schemagroups")} == {
                "/schemagroups/s1",
                schema,
                f"{schema}/versions/1",
                f"{schema}/versions/2",
            }
            assert "/messagegroups/m1/messages/y1/versions/1" in found
            foreign.delete("/schemagroups/s1")
            await walker.walk()
            assert not any(
                xid.startswith("/schemagroups") for xid in await replicas(node, "urn:foreign")
            )


async def test_a_link_asks_before_it_deletes_much(node: Node) -> None:
    async with foreign_server() as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            await walker.walk()
            before = await replicas(node, foreign.url)
            foreign.groups["schemagroups"].clear()
            with pytest.raises(TooManyDeletions):
                await walker.walk()
            assert await replicas(node, foreign.url) == before
            link = await walker.link()
            question = link.get("question")
            assert (link["state"], question["deletions"], question["of"]) == ("asking", 21, 36)

            body = {"allow": question["digest"]}
            answer = await node.send("PATCH", f"/replication/links/{LINK}", body)
            assert answer.status == 200
            await walker.walk()
            await assert_equal(node, foreign)


async def test_what_moves_to_another_group_needs_no_permission(node: Node) -> None:
    async with foreign_server() as foreign:
        fill(foreign, 9)
        async with walking(node, foreign) as walker:
            await walker.walk()
            groups = foreign.groups["schemagroups"]
            for number in range(5):
                groups[f"moved{number}"] = groups.pop(f"s{number}")
            foreign.epoch += 1
            assert (await walker.walk()).deleted > 20
            await assert_equal(node, foreign)
            # What came once makes up for one loss.
            for number in range(5):
                foreign.delete(f"/schemagroups/moved{number}")
            with pytest.raises(TooManyDeletions):
                await walker.walk()


async def test_an_entity_that_a_listing_leaves_out_stays_while_its_server_shows_it(
    node: Node,
) -> None:
    async with foreign_server(capabilities=NO_FLAGS) as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            await walker.walk()
            before = await replicas(node, foreign.url)
            backup = foreign.backup()
            foreign.delete("/messagegroups/m0")
            foreign.epoch += 1
            left_out = foreign.groups
            foreign.restore(backup)
            find = foreign.groups

            class Listing(dict[str, Any]):
                """Leaves a group out wherever it is listed or counted."""

                def __iter__(self) -> Any:
                    return iter(left_out["messagegroups"])

                def __len__(self) -> int:
                    return len(left_out["messagegroups"])

            find["messagegroups"] = Listing(find["messagegroups"])
            assert (await walker.walk()).deleted == 0
            assert await replicas(node, foreign.url) == before


@pytest.mark.parametrize(
    ("fault", "at", "error"),
    [
        ("counts", 3, WalkIncomplete),
        ("circle", 3, ClientError),
        ("500", 5, ClientError),
        ("text", 0, ClientError),
    ],
)
async def test_a_listing_that_is_not_whole_ends_a_walk_with_its_reason(
    node: Node, fault: str, at: int, error: type[ClientError]
) -> None:
    async with foreign_server(capabilities=WAYS["pages with everything"]) as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            foreign.number, foreign.fault, foreign.fault_at = 0, fault, at
            with pytest.raises(error):
                await walker.walk()
            await walker.walk()
            await assert_equal(node, foreign)


def fill_alike(foreign: ForeignServer) -> None:
    """Groups of which some have ids that begin alike."""
    for gid in ("a", "m", "m.mqtt", "z"):
        foreign.put_group("messagegroups", gid)
        for number in range(3):
            foreign.put_version(f"/messagegroups/{gid}/messages/{gid}-{number}", "1", name="n")


@pytest.mark.parametrize("way", ["everything", "pages with everything", "pages in API view"])
@pytest.mark.parametrize("scope", [[], ["/messagegroups/m", "/messagegroups/m.mqtt"]])
async def test_a_listing_that_contradicts_itself_is_read_group_by_group(
    node: Node, way: str, scope: list[str]
) -> None:
    async with foreign_server(capabilities=WAYS[way], mixes_up="inlined") as foreign:
        fill_alike(foreign)
        async with walking(node, foreign, scope=scope) as walker:
            for _ in range(2):
                await walker.walk()
                found = await replicas(node, foreign.url)
                assert len(found) == (14 if scope else 28)
                assert await walker.conflicts() == {}


async def test_what_is_listed_in_the_wrong_group_only_is_a_conflict_under_its_own_name(
    node: Node,
) -> None:
    async with foreign_server(capabilities=NO_FLAGS) as foreign:
        fill_alike(foreign)
        async with walking(node, foreign) as walker:
            await walker.walk()
            before = await replicas(node, foreign.url)
            foreign.mixes_up = "all"
            with pytest.raises(WalkIncomplete, match="/messagegroups/m/messages/m-0 is listed as"):
                await walker.walk()
            assert await replicas(node, foreign.url) == before
            expected = {f"/messagegroups/m/messages/m-{number}" for number in range(3)}
            assert {*await walker.conflicts()} == expected
            foreign.mixes_up = ""
            await walker.walk()
            assert await walker.conflicts() == {}


async def test_the_traffic_of_a_walk_is_counted(node: Node) -> None:
    async with foreign_server(fault="429", fault_at=6) as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            async with running(node):
                await link_is(node, LINK, "current")
            shown = await walker.link()
    assert shown["bytes"] > 1000
    assert shown["errors"]["too_many"] == 1


@pytest.mark.parametrize("fault", ["429", "cut", "huge"])
async def test_a_walk_goes_on_after_what_may_pass(node: Node, fault: str) -> None:
    async with foreign_server() as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            foreign.number, foreign.fault, foreign.fault_at = 0, fault, 3
            await walker.walk()
            await assert_equal(node, foreign)


async def test_links_between_pages_may_name_another_host_and_are_not_followed_there(
    node: Node,
) -> None:
    public = "http://public.example"
    async with foreign_server(capabilities=WAYS["pages in API view"], public=public) as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            await walker.walk()
            await assert_equal(node, foreign)


async def test_pages_without_end_end_a_walk(node: Node) -> None:
    async with foreign_server(capabilities=NO_FLAGS, endless=True) as foreign:
        fill(foreign)
        async with walking(node, foreign) as walker:
            with pytest.raises(ClientError, match="without end"):
                await walker.walk()


async def test_what_is_too_large_for_one_answer_is_read_in_smaller_ones(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 1) as (one,),
        start_member(one, max_body_bytes=6000) as node,
        foreign_server(page_size=100) as foreign,
    ):
        fill(foreign, groups=8)
        for number in range(30):
            foreign.put_version("/schemagroups/s0/schemas/x0", f"v{number}", b"x" * 200)
        async with walking(node, foreign) as walker:
            await walker.walk()
            await assert_equal(node, foreign)


async def test_a_link_bounds_what_a_server_sends(postgres_url: str, template: str) -> None:
    async with (
        databases(postgres_url, template, 1) as (one,),
        start_member(one, link_copies=20) as node,
        foreign_server() as foreign,
    ):
        fill(foreign)
        async with walking(node, foreign) as walker:
            with pytest.raises(TooMuchSent):
                await walker.walk()


async def test_a_server_without_replication_is_walked_and_others_are_told_apart(
    node: Node,
) -> None:
    async with foreign_server() as foreign:
        answer = await node.send("POST", "/replication/links", {"source": foreign.url})
        assert answer.status == 201, answer.body
        assert (answer.json["mode"], answer.json["authority"]) == ("walk", foreign.url)
        assert answer.json["found"]["software"] == "xRegistry 1.0-rc4"

        for mode in ("pull", "events"):
            body = {"source": foreign.url, "mode": mode}
            answer = await node.send("POST", "/replication/links", body)
            assert answer.error == "source_unusable"
            assert "--mode walk" in answer.json["title"]
        body = {"source": foreign.url, "mode": "walk", "authorities": ["*"]}
        assert (await node.send("POST", "/replication/links", body)).error == "invalid_attribute"

        foreign.specversion = "0.5-wip"
        for mode in ({}, {"mode": "walk"}):
            answer = await node.send("POST", "/replication/links", {"source": foreign.url, **mode})
            assert answer.error == "source_unusable"
            assert "0.5-wip" in answer.json["title"]
        foreign.capabilities = {"flags": ["specversion"], "specversions": ["1.0-RC4"]}
        answer = await node.send("POST", "/replication/links", {"source": foreign.url, "id": "b"})
        assert answer.status == 201, answer.body
    body = {"source": node.url, "mode": "walk"}
    assert "this node itself" in (await node.send("POST", "/replication/links", body)).json["title"]


async def test_a_running_link_follows_a_server_and_passes_its_entities_on(
    postgres_url: str, template: str
) -> None:
    async with (
        databases(postgres_url, template, 2) as (one, two),
        start_member(one) as node,
        start_member(two, pull_interval_seconds=0.1) as edge,
        foreign_server(has_tags=True) as foreign,
    ):
        fill(foreign)
        async with walking(node, foreign):
            body = {"source": node.url, "mode": "pull", "authorities": ["*"]}
            assert (await edge.send("POST", "/replication/links", body)).status == 201
            async with running(node, edge):

                async def is_passed_on() -> bool:
                    here, there = await digest_rows(node), await digest_rows(edge)
                    walked = {o: row for o, row in here.items() if o[0] == foreign.url}
                    return bool(walked) and walked.items() <= there.items()

                async def is_there(path: str, status: int = 200) -> bool:
                    return (await edge.send("GET", path)).status == status

                async def walk_now() -> None:
                    answer = await node.send("POST", f"/replication/links/{LINK}/run")
                    assert answer.status == 200

                await link_is(node, LINK, "current")
                await eventually(is_passed_on)
                backup = foreign.backup()
                foreign.put_group("schemagroups", "new")
                await walk_now()
                await eventually(lambda: is_there("/schemagroups/new"))
                foreign.restore(backup)
                await walk_now()
                await eventually(lambda: is_there("/schemagroups/new", 404))
                await eventually(is_passed_on)
            link = await node.get(f"/replication/links/{LINK}")
            lost, found, copied = link["history"]
            events = lost["event"], found["event"], copied["event"]
            assert events == ("walked", "walked", "copied")
            assert lost["detail"].endswith(", 1 deleted")
        await assert_equal(node, foreign)
        await assert_equal(edge, foreign)


async def test_a_dry_run_of_a_walk_tells_what_it_would_do_and_writes_nothing(node: Node) -> None:
    async def tried(path: str, body: Any) -> dict[str, int]:
        before = await digest_rows(node), await node.logged()
        answer = await node.send("POST", f"{path}?dryrun", body)
        assert answer.status == 200, answer.body
        assert before == (await digest_rows(node), await node.logged())
        return {name: each["number"] for name, each in answer.json["outcomes"].items()}

    async with foreign_server() as foreign:
        fill(foreign)
        body = {"id": LINK, "source": foreign.url, "mode": "walk"}
        assert await tried("/replication/links", body) == {"created": 36}
        async with walking(node, foreign) as walker:
            await walker.walk()
            assert await tried(f"/replication/links/{LINK}/run", {}) == {}
            foreign.put_group("messagegroups", "m0", description="another")
            foreign.delete("/messagegroups/m1/messages/y0")
            assert await tried(f"/replication/links/{LINK}/run", {}) == {"changed": 2, "deleted": 2}
