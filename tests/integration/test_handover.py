"""A group is handed over to another authority, by consent of both."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from catalog.model.change import UNTOLD
from catalog.model.modelsource import default_model
from catalog.operations.feed import Verdict
from replication.applying.apply import Batch, apply_batch
from replication.deciding.provenance import Policy
from replication.feed.feedlines import read_line
from tests.integration.commandline import concord
from tests.integration.conftest import Answer, Node
from tests.integration.federation import (
    Rows,
    carries,
    databases,
    digest_rows,
    drop_log,
    eventually,
    link,
    link_history_is,
    link_is,
    running,
    start_member,
)

GROUP = "/messagegroups/g"
SCHEMAS = "/schemagroups/g"
SCHEMA = f"{SCHEMAS}/schemas/s"
HANDOVERS = "/replication/handovers"
FORMAT = {"format": "JsonSchema/draft-07", "schemabase64": "e30="}


@pytest.fixture
async def urls(postgres_url: str, template: str) -> AsyncIterator[list[str]]:
    """Three databases."""
    async with databases(postgres_url, template, 3) as made:
        yield made


@dataclass(frozen=True, slots=True)
class Pair:
    """The two sides of a handover, with the ids that it has there."""

    giver: Node
    taker: Node

    @property
    def both(self) -> tuple[Node, Node]:
        return self.giver, self.taker

    async def consent(self, group: str = GROUP) -> str:
        return await begin(self.taker, group=group, **{"from": self.giver.url})

    async def offer(self, group: str = GROUP) -> str:
        return await begin(self.giver, group=group, to=self.taker.url)

    async def are(self, giver: str, taker: str) -> None:
        """Wait until the last handover is in these states at both sides."""

        async def is_so() -> bool:
            return [await state_of(self.giver), await state_of(self.taker)] == [giver, taker]

        await eventually(is_so, 60)

    async def promised(self) -> tuple[str, str]:
        """Begin a handover up to the promise, which nobody has told the giver; return its ids."""
        ids = await self.consent(), await self.offer()
        async with running(self.giver):
            await self.are("offered", "asked")
        async with running(self.taker):
            await self.are("offered", "promised")
        return ids[1], ids[0]

    async def given(self) -> tuple[str, str]:
        """The same up to the commit of the giver, of which the taker knows nothing."""
        ids = await self.promised()
        async with running(self.giver):
            await self.are("given", "promised")
        return ids


def start(dsn: str) -> contextlib.AbstractAsyncContextManager[Node]:
    """A node whose links soon try again what was in conflict."""
    return start_member(dsn, pull_interval_seconds=0.3)


@contextlib.asynccontextmanager
async def pair_at(urls: list[str]) -> AsyncIterator[Pair]:
    async with start(urls[0]) as giver, start(urls[1]) as taker:
        yield Pair(giver, taker)


async def begin(node: Node, **body: str) -> str:
    answer = await node.send("POST", HANDOVERS, body)
    assert answer.status == 201, answer.body
    return str(answer.json["id"])


async def last_of(node: Node) -> dict[str, Any]:
    found = (await node.get(HANDOVERS))["handovers"]
    assert found
    last: dict[str, Any] = max(found, key=lambda each: str(each["startedat"]))
    return last


async def state_of(node: Node) -> str:
    return str((await last_of(node))["state"])


async def abort(node: Node, id: str, flags: str = "") -> Answer:
    return await node.send("DELETE", f"{HANDOVERS}/{id}{flags}")


async def write_message(node: Node, name: str = "m", **attributes: Any) -> Answer:
    return await node.send("PUT", f"{GROUP}/messages/{name}", attributes)


async def write_schemas(node: Node) -> None:
    """A group with all that an entity may have."""
    await node.put(SCHEMAS, {"name": "All", "labels": {"a": "b"}, "deprecated": {}})
    for vid, text in (("1", b"{}"), ("2", b'{"type": "object"}'), ("3", b'{"type": "array"}')):
        body = {**FORMAT, "schemabase64": base64.b64encode(text).decode()}
        await node.put(f"{SCHEMA}/versions/{vid}$details", {**body, "labels": {"v": vid}})
    default = {"defaultversionid": "2", "defaultversionsticky": True}
    await node.put(f"{SCHEMA}/meta", {**default, "deprecated": {"alternative": "http://x"}})
    assert (await node.send("DELETE", f"{SCHEMA}/versions/1")).status == 204
    await node.put(f"{SCHEMAS}/schemas/same/meta", {"xref": SCHEMA})
    await node.put(f"{SCHEMAS}/schemas/gone$details", FORMAT)
    assert (await node.send("DELETE", f"{SCHEMAS}/schemas/gone")).status == 204


async def content_of(node: Node) -> dict[str, Any]:
    """A group as its owner exports it, without what depends on who that is."""
    found = await node.get(f"{SCHEMAS}?inline=*")
    shown: dict[str, Any] = _without(found, node.url)
    return shown


def _without(value: Any, url: str) -> Any:
    if isinstance(value, dict):
        return {k: _without(v, url) for k, v in value.items() if k not in ("epoch", "self")}
    return value.removeprefix(url) if isinstance(value, str) else value


async def all_equal(*nodes: Node) -> bool:
    """Whether these nodes hold the same of all authorities."""
    rows = [await digest_rows(node) for node in nodes]
    held = [{o: row for o, row in each.items() if o[1] != "/"} for each in rows]
    return all(each == held[0] for each in held)


async def owners(node: Node, group: str = GROUP) -> set[str]:
    """The authorities of what is alive in a group at a node."""
    rows: Rows = await digest_rows(node)
    below = (group, f"{group}/")
    return {
        authority
        for (authority, origin), (_, deleted, _) in rows.items()
        if deleted == "false" and (origin == group or origin.startswith(below[1]))
    }


async def assert_epochs_ascend(node: Node) -> None:
    """Subscribers see each version with ever higher epochs."""
    epochs = defaultdict(list)
    for logged in await node.changes():
        if logged.change.kind == "version" and logged.change.action not in UNTOLD:
            epochs[logged.change.xid].append(logged.change.epoch)
    for xid, seen in epochs.items():
        assert all(a < b for a, b in itertools.pairwise(seen)), (xid, seen)


async def test_a_group_is_handed_over_whole_and_those_who_follow_both_sides_end_equal(
    urls: list[str],
) -> None:
    """Both sides follow each other, and a third catalog follows both."""
    async with pair_at(urls) as pair, start(urls[2]) as follower:
        giver, taker = pair.giver, pair.taker
        await write_schemas(giver)
        before = await content_of(giver)
        for target, source in ((taker, giver), (giver, taker), (follower, giver)):
            await link(target, source, id="first")
        await link(follower, taker, id="second")
        async with running(giver, taker, follower):
            await eventually(lambda: all_equal(giver, taker, follower), 60)
            accepted = await concord(
                taker, "handover", "accept", SCHEMAS, "--from", giver.url, "--url", taker.url
            )
            assert accepted.exit_code == 0, accepted.output
            offered = await concord(giver, "handover", "offer", SCHEMAS, "--to", taker.url)
            assert (offered.exit_code, "does not follow" in offered.output) == (0, False)
            assert f"is owned by {taker.database.node.authority} now" in offered.output
            assert await content_of(taker) == before
            document = await taker.send("GET", SCHEMA)
            assert document.body == b'{"type": "object"}'
            refused = await giver.send("PUT", f"{SCHEMAS}/schemas/new$details", FORMAT)
            assert (refused.error, refused.json["args"]["url"]) == (
                "readonly",
                f"{taker.url}{SCHEMAS}",
            )
            await taker.put(f"{SCHEMAS}/schemas/new$details", FORMAT)
            await eventually(lambda: all_equal(giver, taker, follower), 60)
            for link_id in ("first", "second"):
                await link_is(follower, link_id, "current")
                assert (await follower.get(f"/replication/links/{link_id}"))["conflicts"] == 0
        for node in (giver, taker, follower):
            assert await owners(node, SCHEMAS) == {taker.database.node.authority}
            await assert_epochs_ascend(node)
        told = [each.change for each in await giver.changes() if each.change.xid == SCHEMA]
        [handed] = [each for each in told if "meta.readonly" in each.changed]
        assert handed.authority == taker.database.node.authority
        assert {"meta.authority", "meta.origin", "epoch"} <= {*handed.changed}
        listed = await concord(taker, "handover", "list")
        assert ("take" in listed.output, "done" in listed.output) == (True, True)


async def test_a_group_may_go_back_and_its_epochs_go_on(urls: list[str]) -> None:
    async with pair_at(urls) as pair:
        back = Pair(pair.taker, pair.giver)
        assert (await write_message(pair.giver)).status == 201
        for each in (pair, back, pair):
            epoch = (await each.giver.get(f"{GROUP}/messages/m"))["epoch"]
            await each.consent()
            await each.offer()
            async with running(pair.giver, pair.taker):
                await each.are("done", "done")
            answer = await write_message(each.taker, description="its new owner's")
            assert answer.status == 200, answer.body
            assert answer.json["epoch"] > epoch
            assert (await write_message(each.giver)).error == "readonly"


async def test_a_handover_goes_on_after_a_crash_at_each_step_and_never_has_two_owners(
    urls: list[str],
) -> None:
    """At each step, both sides lose their processes; only what is written stays."""
    async with pair_at(urls) as pair:
        giver, taker = pair.giver, pair.taker
        own = {giver.database.node.authority}
        await write_message(giver)
        given, taken = await pair.consent(), await pair.offer()
        assert (await write_message(giver)).status == 200
        assert (await write_message(taker)).error == "handover_under_way"
        async with running(giver):
            await pair.are("offered", "asked")
        async with running(taker):
            await pair.are("offered", "promised")
        assert (await write_message(giver)).status == 200
        refused = await write_message(taker)
        assert (refused.status, refused.error) == (503, "handover_under_way")
        assert await owners(giver) == own
        async with running(giver):
            await pair.are("given", "promised")
        assert await owners(giver) == {taker.database.node.authority}
        assert (await write_message(giver)).error == "readonly"
        assert (await write_message(taker)).error == "handover_under_way"
        async with running(taker):
            await pair.are("given", "done")
        assert (await write_message(taker)).status == 200
        async with running(giver):
            await pair.are("done", "done")
        assert given != taken
        assert (await giver.send("GET", f"{HANDOVERS}/{taken}/copies")).status == 404


@pytest.mark.parametrize("messages", [1, 60])
@pytest.mark.parametrize("mode", ["pull", "walk"])
async def test_a_link_does_not_miss_at_the_taker_what_the_taker_has_not_taken_yet(
    urls: list[str], mode: str, messages: int
) -> None:
    """A giver that copies from the taker meanwhile drops nothing of the group, and asks nothing."""
    async with pair_at(urls) as pair:
        for number in range(messages):
            await write_message(pair.giver, f"m{number}")
        await pair.given()
        held = await digest_rows(pair.giver)
        authority = pair.taker.database.node.authority
        await link(pair.giver, pair.taker, id="back", mode=mode, authority=authority)
        async with running(pair.giver):
            await link_is(pair.giver, "back", "current")
        assert _of(pair.taker, await digest_rows(pair.giver)) == _of(pair.taker, held)
        async with running(*pair.both):
            await pair.are("done", "done")
            await write_message(pair.taker, "m0", description="the taker's")
            await eventually(lambda: all_equal(pair.giver, pair.taker))


async def test_a_link_that_compares_does_not_miss_what_the_taker_has_not_taken_yet(
    urls: list[str],
) -> None:
    async with pair_at(urls) as pair:
        for number in range(60):
            await write_message(pair.giver, f"m{number}")
        for name in ("one", "two", "three"):
            await pair.taker.put(f"/messagegroups/{name}")
        await link(pair.giver, pair.taker, id="back")
        async with running(pair.giver):
            await link_is(pair.giver, "back", "current")
        await pair.given()
        held = await digest_rows(pair.giver)
        await pair.taker.put("/messagegroups/other")
        await drop_log(pair.taker)
        async with running(pair.giver):
            await link_history_is(pair.giver, "back", "compared", "resynchronise")
            await link_is(pair.giver, "back", "current")
        assert _of(pair.taker, held).items() <= (await digest_rows(pair.giver)).items()
        async with running(*pair.both):
            await pair.are("done", "done")
            await write_message(pair.taker, "m0", description="the taker's")
            await eventually(lambda: all_equal(pair.giver, pair.taker))


def _of(authority: Node, rows: Rows) -> Rows:
    own = authority.database.node.authority
    return {origin: row for origin, row in rows.items() if origin[0] == own}


async def test_each_side_can_abort_until_the_group_is_given(urls: list[str]) -> None:
    async with pair_at(urls) as pair:
        giver, taker = pair.giver, pair.taker
        await write_message(giver)
        # By the taker, before anything is offered.
        assert (await abort(taker, await pair.consent())).status == 200
        assert (await taker.send("PUT", GROUP, {})).status == 201
        assert (await taker.send("DELETE", GROUP)).status == 204
        # By the giver, before the taker knows of the offer, and after it has promised.
        consent, offer = await pair.consent(), await pair.offer()
        aborted = await abort(giver, offer)
        assert (aborted.status, aborted.json["state"]) == (200, "aborted")
        await pair.offer()
        async with running(giver):
            await pair.are("offered", "asked")
        async with running(taker):
            await pair.are("offered", "promised")
        assert (await abort(giver, (await last_of(giver))["id"])).status == 200
        async with running(taker):
            await pair.are("aborted", "consented")
        assert (await write_message(giver)).status == 200
        # By the taker that has promised: it has the giver end it, too.
        assert (await abort(taker, consent)).status == 200
        _, promised = await pair.promised()
        command = await concord(taker, "handover", "abort", promised)
        assert command.exit_code == 0, command.output
        assert [await state_of(giver), await state_of(taker)] == ["aborted", "aborted"]
        # By neither once it is given.
        given, promised = await pair.given()
        for node, id in ((giver, given), (taker, promised)):
            refused = await abort(node, id)
            assert (refused.status, refused.error) == (409, "handover_refused")
        async with running(giver, taker):
            await pair.are("done", "done")
        for node, id in ((giver, given), (taker, promised)):
            assert (await abort(node, id)).error == "handover_refused"
        assert (await write_message(taker)).status == 200


async def test_a_taker_whose_giver_is_away_keeps_its_promise_unless_it_is_forced(
    urls: list[str],
) -> None:
    """What was given all the same goes on when the group is accepted again."""
    async with pair_at(urls) as pair:
        await write_message(pair.giver)
        _, promised = await pair.given()
        async with pair.taker.database.acquire() as connection:
            statement = "UPDATE handovers SET peer = $1"
            await connection.execute(statement, "http://127.0.0.1:9")
        refused = await abort(pair.taker, promised)
        assert (refused.status, "--force" in refused.json["detail"]) == (409, True)
        assert (await abort(pair.taker, promised, "?force")).status == 200
        await pair.consent()
        async with running(pair.giver, pair.taker):
            await pair.are("done", "done")
        assert (await write_message(pair.taker)).status == 200


async def test_another_offer_has_the_taker_ask_again_for_the_offer_that_it_knows(
    urls: list[str],
) -> None:
    async with pair_at(urls) as pair:
        await write_message(pair.giver)
        await pair.promised()
        async with pair.taker.database.acquire() as connection:
            statement = "UPDATE handovers SET error = 'away', nextattemptat = now() + interval '1h'"
            await connection.execute(statement)
        assert (await last_of(pair.taker))["error"] == "away"
        offer = {"id": "another", "group": GROUP, "authority": pair.giver.database.node.authority}
        assert (await pair.taker.send("POST", f"{HANDOVERS}/offers", offer)).status == 409
        assert "error" not in await last_of(pair.taker)


async def test_what_cannot_be_handed_over_is_refused_with_its_reason(urls: list[str]) -> None:
    async with pair_at(urls) as pair, start(urls[2]) as third:
        giver, taker = pair.giver, pair.taker
        await write_message(giver)
        await taker.put("/messagegroups/taken")
        await third.put(GROUP)
        offer, accept = {"group": GROUP, "to": taker.url}, {"group": GROUP, "from": giver.url}
        missing = {"group": "/messagegroups/none"}
        for node, body, status, told in (
            (giver, offer, 409, "has not consented"),
            (giver, offer | {"to": giver.url}, 409, "it is this node itself"),
            (giver, offer | {"to": "http://127.0.0.1:9"}, 409, "http://127.0.0.1:9 "),
            (giver, offer | {"group": f"{GROUP}/messages/m"}, 400, "the path of a group"),
            (giver, offer | {"from": taker.url}, 400, "either"),
            (giver, {"group": GROUP}, 400, "either"),
            (taker, accept | {"group": "/messagegroups/taken"}, 409, "is at its path here"),
            (taker, accept | {"from": "ftp://x"}, 400, "http or https"),
        ):
            refused = await node.send("POST", HANDOVERS, body)
            assert (refused.status, told in refused.json["title"]) == (status, True), refused.body
        await pair.consent()
        again = await taker.send("POST", HANDOVERS, accept)
        assert "under way already" in again.json["title"]
        await pair.consent("/messagegroups/none")
        refused = await giver.send("POST", HANDOVERS, missing | {"to": taker.url})
        assert "it is not here" in refused.json["title"]
        stranger = {"id": "x", "group": GROUP, "authority": third.database.node.authority}
        assert (await taker.send("POST", f"{HANDOVERS}/offers", stranger)).status == 409
        # What another catalog has at that path does not come in between.
        await link(taker, third, id="third")
        async with running(taker):
            await link_is(taker, "third", "current")
            conflicts = (await taker.get("/replication/links/third/conflicts"))["conflicts"]
        assert [each["verdict"] for each in conflicts] == ["collided"]
        assert "hands over to this catalog" in conflicts[0]["detail"]
        # Only the owner gives.
        await link(third, giver, id="giver", prefix="g-")
        copy = {"group": "/messagegroups/g-g"}
        async with running(third):
            await link_is(third, "giver", "current")
        await begin(taker, **copy, **{"from": third.url})
        refused = await third.send("POST", HANDOVERS, copy | {"to": taker.url})
        assert "or not all of it is" in refused.json["title"]


async def test_a_group_that_the_taker_has_no_types_for_stays_until_it_has(
    urls: list[str],
) -> None:
    async with pair_at(urls) as pair:
        await write_schemas(pair.giver)
        groups = default_model().source["groups"]
        messages = {"groups": {"messagegroups": groups["messagegroups"]}}
        await pair.taker.put("/modelsource", messages)
        await pair.consent(SCHEMAS)
        await pair.offer(SCHEMAS)

        async def is_told() -> bool:
            return "no type for schemagroups" in str((await last_of(pair.giver)).get("error"))

        async with running(pair.giver, pair.taker):
            await eventually(is_told, 60)
            assert await owners(pair.giver, SCHEMAS) == {pair.giver.database.node.authority}
            await pair.taker.put("/modelsource", default_model().source)
            await pair.taker.context.shared.reload()
            await pair.are("done", "done")
        assert await owners(pair.taker, SCHEMAS) == {pair.taker.database.node.authority}


async def test_both_authorities_sign_and_whoever_trusts_them_takes_all(urls: list[str]) -> None:
    """The taker holds the giver to its keys, and the follower both."""
    async with pair_at(urls) as pair, start(urls[2]) as follower:
        giver, taker = pair.giver, pair.taker
        for node in (giver, taker):
            answer = await node.send("PUT", "/replication/signing", {"on": True})
            assert answer.status == 200
        await write_schemas(giver)
        await link(taker, giver, id="giver", trust=["first"])
        await link(giver, taker, id="taker", trust=["first"])
        for number, node in enumerate((giver, taker)):
            await link(follower, node, id=f"l{number}", trust=["first"])
        async with running(giver, taker, follower):
            await eventually(lambda: all_equal(giver, taker, follower), 60)
            await pair.consent(SCHEMAS)
            await pair.offer(SCHEMAS)
            await pair.are("done", "done")
            await eventually(lambda: all_equal(giver, taker, follower), 60)
            for node in (giver, taker, follower):
                await eventually(lambda node=node: _is_signed(node, taker), 60)


async def _is_signed(node: Node, authority: Node) -> bool:
    """Whether all that is alive at a node of an authority is rightly signed."""
    counts = (await node.get("/replication/signatures"))["counts"]
    counted = counts[authority.database.node.authority]
    return {name for name, number in counted.items() if number} == {"verified"}


async def test_a_group_whose_giver_does_not_sign_as_the_taker_trusts_stays(
    urls: list[str],
) -> None:
    async with pair_at(urls) as pair:
        await write_message(pair.giver)
        key = f"ed25519:1:{base64.urlsafe_b64encode(b'k' * 32).decode().rstrip('=')}"
        body = {"authority": pair.giver.database.node.authority, "key": key}
        trusted = await pair.taker.send("POST", "/replication/trust", body)
        assert trusted.status in (200, 201), trusted.body
        await pair.consent()
        await pair.offer()

        async def is_told() -> bool:
            return "it has no signature" in str((await last_of(pair.giver)).get("error"))

        async with running(pair.giver, pair.taker):
            await eventually(is_told, 60)
        assert await owners(pair.giver) == {pair.giver.database.node.authority}
        assert (await write_message(pair.giver)).status == 200


async def test_a_relay_passes_a_handover_on_in_place_and_a_taker_that_follows_awaits_it(
    urls: list[str], other_database_url: str
) -> None:
    """More goes than a link deletes without asking."""
    async with (
        pair_at(urls) as pair,
        start(urls[2]) as relay,
        start(other_database_url) as follower,
    ):
        messages = {f"m{number}": {} for number in range(15)}
        answer = await pair.giver.send("POST", f"{GROUP}/messages", messages)
        assert answer.status == 200, answer.body
        await link(relay, pair.giver, id="all", authorities=["*"])
        await link(follower, relay, id="all", authorities=["*"])
        async with running(relay, follower):
            await eventually(lambda: all_equal(pair.giver, relay, follower), 60)
        await link(pair.taker, pair.giver, id="giver")
        async with running(pair.taker):
            await eventually(lambda: all_equal(pair.giver, pair.taker), 60)
        await pair.given()
        async with running(relay, follower):
            await eventually(lambda: all_equal(pair.giver, relay, follower), 60)
            await link_is(follower, "all", "current")
        await assert_epochs_ascend(follower)
        # The end of what is promised waits for the handover, so the taker's link need not ask.
        answer = await pair.giver.send("GET", "/replication/snapshot")
        read = [read_line(line) for line in answer.body.splitlines()]
        ends = [copy for copy in read if getattr(copy, "deletedat", None)]
        own, sender = (node.database.node.authority for node in (pair.taker, pair.giver))
        policy = Policy(own=own, sender=sender)
        applied = await apply_batch(pair.taker.context, Batch(copies=ends, policy=policy))
        assert applied.count(Verdict.AWAITED) == len(ends) == 31
        async with running(pair.giver, pair.taker):
            await pair.are("done", "done")
        assert await all_equal(pair.giver, pair.taker)


async def test_a_follower_of_both_sides_by_two_links_follows_a_large_handover_by_itself(
    urls: list[str],
) -> None:
    """The taker has the group under another name before."""
    async with pair_at(urls) as pair, start(urls[2]) as follower:
        messages = {f"m{number}": {} for number in range(15)}
        answer = await pair.giver.send("POST", f"{GROUP}/messages", messages)
        assert answer.status == 200, answer.body
        await link(pair.taker, pair.giver, id="giver", prefix="its-")
        await link(follower, pair.giver, id="giver")
        await link(follower, pair.taker, id="taker")
        async with running(pair.taker, follower):
            await eventually(lambda: all_equal(pair.giver, pair.taker, follower), 60)
        assert (await pair.taker.send("GET", "/messagegroups/its-g")).status == 200
        await pair.given()
        # The taker's link is to find what is here already.
        async with running(pair.giver, pair.taker):
            await pair.are("done", "done")
        assert (await pair.taker.send("GET", "/messagegroups/its-g")).status == 404
        assert (await pair.taker.send("GET", f"{GROUP}/messages/m14")).status == 200

        async with running(follower):
            await eventually(lambda: all_equal(pair.giver, pair.taker, follower), 60)
            await link_is(follower, "taker", "current")
            await link_is(follower, "giver", "current")


async def test_what_was_deleted_before_goes_on_above_its_epochs_at_the_taker(
    urls: list[str],
) -> None:
    async with pair_at(urls) as pair:
        await link(pair.giver, pair.taker, id="taker")
        for _ in range(3):
            await write_message(pair.giver, "gone", description="x")
        assert (await pair.giver.send("DELETE", f"{GROUP}/messages/gone")).status == 204
        await pair.consent()
        await pair.offer()
        async with running(pair.giver, pair.taker):
            await pair.are("done", "done")
            answer = await write_message(pair.taker, "gone")
            assert (answer.status, answer.json["epoch"]) == (201, 6)
            await eventually(lambda: carries(pair.giver, pair.taker), 60)
        for node in (pair.giver, pair.taker):
            await assert_epochs_ascend(node)
        told = [each.change for each in await pair.taker.changes()]
        assert "deleted" not in {each.action for each in told}


async def test_every_acknowledged_write_survives_and_no_path_is_writable_at_both(
    urls: list[str],
) -> None:
    """Clients write all the time, at the owner as far as they know."""
    async with pair_at(urls) as pair:
        await link(pair.giver, pair.taker, id="taker")
        await write_message(pair.giver, "common")
        writers = [Writer(pair, number) for number in range(4)]
        async with running(pair.giver, pair.taker):
            # Before the consent, a writer could make a group of the taker's own there.
            await pair.consent()
            tasks = [asyncio.create_task(writer.run()) for writer in writers]
            await pair.offer()
            await asyncio.wait_for(asyncio.gather(*tasks), 60)
            await pair.are("done", "done")
            await eventually(lambda: all_equal(pair.giver, pair.taker), 60)
        written = [each for writer in writers for each in writer.written]
        at_giver = [each for each in written if each.node is pair.giver]
        at_taker = [each for each in written if each.node is pair.taker]
        assert at_giver
        assert at_taker
        # Who was acknowledged by the taker came after all whom the giver acknowledged.
        first = min(each.ended for each in at_taker)
        assert all(each.began < first for each in at_giver)
        for name in {each.name for each in written}:
            accepted = sorted((e for e in written if e.name == name), key=lambda each: each.epoch)
            assert len({each.epoch for each in accepted}) == len(accepted)
            sides = [each.node is pair.taker for each in accepted]
            assert sides == sorted(sides)
            for node in (pair.giver, pair.taker):
                shown = await node.get(f"{GROUP}/messages/{name}")
                # The end of the giver's, and the beginning of the taker's.
                handed = 0 if accepted[-1].node is pair.taker else 2
                assert shown["epoch"] == accepted[-1].epoch + handed
                assert shown["description"] == accepted[-1].token


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A write that was acknowledged."""

    node: Node
    name: str
    token: str
    epoch: int
    began: float
    ended: float


class Writer:
    """A client that writes a message of its own, then the common one, again and again.

    It tries both sides in turn, and ends some writes after the taker has acknowledged the first.
    """

    def __init__(self, pair: Pair, number: int) -> None:
        self.written: list[Written] = []
        self._pair = pair
        self._number = number

    async def run(self) -> None:
        count, left = 0, 6
        while left:
            for node in (self._pair.giver, self._pair.taker):
                for name in (f"w{self._number}-{count % 5}", "common"):
                    left -= await self._write(node, name) and node is self._pair.taker
            count += 1
            left = max(left, 0)

    async def _write(self, node: Node, name: str) -> bool:
        loop = asyncio.get_running_loop()
        token = f"{self._number} at {loop.time()} of {name}"
        began = loop.time()
        answer = await write_message(node, name, description=token)
        if answer.status not in (200, 201):
            assert answer.error in ("readonly", "handover_under_way"), answer.body
            return False
        epoch, ended = int(answer.json["epoch"]), loop.time()
        self.written.append(
            Written(node=node, name=name, token=token, epoch=epoch, began=began, ended=ended)
        )
        return True
