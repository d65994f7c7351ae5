"""Surveying catalogs and reading their rows, with repetitions and refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest
from aiohttp import web

from catalog.client import Backoff, Retry
from replication.reconcile.bucketplan import ALL_BUCKETS, BucketRange, plan_of
from replication.reconcile.catalogs import survey
from replication.reconcile.errors import ReconcileError
from replication.reconcile.inputs.input import parse_inputs
from replication.reconcile.inputs.nodeinput import NodeInput
from tests.spark.federation import CHANGED_AT, HEADER, Federation, Node, three_catalogs

pytestmark = pytest.mark.slow


@pytest.fixture
def node(federation: Federation) -> Node:
    eu = federation.add("eu")
    for number in range(300):
        eu.own(f"/messagegroups/g{number}", epoch=number + 1, deleted=number % 7 == 0)
    eu.own("/")
    return eu


def remote(node: Node, slept: list[float] | None = None) -> NodeInput:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    backoff = Backoff(initial=1, factor=2, cap=60, jitter=0)
    return replace(node.given, retry=Retry(attempts=3, backoff=backoff, sleep=sleep))


def rows_of(node: Node, *ranges: BucketRange, **more: object) -> list[dict[str, object]]:
    client = remote(node)
    return [
        row
        for part in ranges or (ALL_BUCKETS,)
        for batch in client.read(part, verify=True, is_signed=False)
        for row in batch.to_pylist()
    ]


def test_all_rows_arrive_as_they_are_save_the_root(node: Node) -> None:
    rows = {row["origin"]: row for row in rows_of(node)}

    assert rows.keys() == {origin for _, origin in node.rows} - {"/"}
    held = node.rows[node.authority, "/messagegroups/g8"]
    assert rows["/messagegroups/g8"] == {
        "authority": node.authority,
        "origin": held.origin,
        "xid": held.xid,
        "epoch": 9,
        "deleted": False,
        "digest": held.computed.hex(),
        "bucket": held.bucket,
        "changedat": CHANGED_AT,
        "intact": True,
    }
    assert rows["/messagegroups/g7"]["deleted"] is True


def test_parts_together_are_the_whole(node: Node) -> None:
    whole = rows_of(node)
    parts = rows_of(
        node, BucketRange(0, 1000), BucketRange(1000, 40_000), BucketRange(40_000, 65_536)
    )

    assert sorted(map(str, parts)) == sorted(map(str, whole))


def test_a_broken_answer_is_read_again_and_leaves_nothing_behind(node: Node) -> None:
    whole = rows_of(node)
    node.faults = ["cut", "cut"]

    assert rows_of(node) == whole


def test_a_busy_catalog_is_given_the_time_that_it_asks_for(node: Node) -> None:
    node.faults = [
        web.Response(status=429, headers={"Retry-After": "7"}),
        web.Response(status=503),
    ]
    slept: list[float] = []

    remote(node, slept).read(ALL_BUCKETS, verify=True, is_signed=False)

    assert slept == [7.0, 2.0]


def test_three_failures_are_the_end(node: Node) -> None:
    node.faults = [web.Response(status=503) for _ in range(3)]

    with pytest.raises(ReconcileError, match=r"eu could not be read .* 503"):
        rows_of(node)

    assert len(node.requests) == 3


def test_a_refusal_is_not_repeated_and_has_a_hint(node: Node) -> None:
    node.token = "secret"

    stranger = replace(remote(node), token=None)
    with pytest.raises(ReconcileError, match="answered 401") as caught:
        stranger.read(ALL_BUCKETS, verify=True, is_signed=False)

    assert "token" in caught.value.hint
    assert len(node.requests) == 1


def test_a_catalog_that_is_not_there_is_named(federation: Federation) -> None:
    nowhere = replace(remote(federation.add("us")), url="http://127.0.0.1:1")

    with pytest.raises(ReconcileError, match="Catalog us could not be read"):
        nowhere.call(lambda client: client.handshake())


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("https://eu,/g,/g,many,false,{digest},1,0,true", "int64"),
        ("https://eu,/g,/g,,false,{digest},1,0,true", "missing"),
        ("https://eu,/g,/g,1,perhaps,{digest},1,0,true", "bool"),
        ("https://eu,/g,/g,1,false,abc,1,0,true", "64 characters"),
        ("https://eu,/g,/g,1,false,{nodigest},1,0,true", "hexadecimal"),
        ("https://eu,/g,/g,1,false,{digest},70000,0,true", "not asked for"),
        ("https://eu,/g", "column"),
    ],
)
def test_malformed_rows_are_refused(node: Node, line: str, complaint: str) -> None:
    node.extra = [line.format(digest="ab" * 32, nodigest="zz" * 32) + "\n"]

    with pytest.raises(ReconcileError, match=f"eu sent malformed rows.*{complaint}"):
        rows_of(node)


def test_another_header_is_refused(node: Node) -> None:
    node.faults = [web.Response(text="authority,origin\n")]

    with pytest.raises(ReconcileError, match="the header is authority,origin"):
        rows_of(node)


def test_an_answer_without_rows_is_accepted(node: Node) -> None:
    node.faults = [web.Response(text=",".join(HEADER) + "\n")]

    assert rows_of(node) == []


def test_digests_of_another_version_are_not_compared(federation: Federation) -> None:
    three_catalogs(federation)
    federation.nodes["us"].digestversion = 2

    with pytest.raises(ReconcileError, match="us computes digests of version 2"):
        survey(federation.inputs())


def test_one_catalog_given_twice_is_refused(federation: Federation) -> None:
    node = federation.add("eu")
    again = NodeInput(name="again", url=node.url)

    with pytest.raises(ReconcileError, match="eu and again are both"):
        survey([node.given, again])


def test_one_catalog_alone_is_refused(federation: Federation) -> None:
    with pytest.raises(ReconcileError, match="1 catalogs were given"):
        survey([federation.add("eu").given])


@pytest.mark.parametrize("text", ["eu", "=http://eu", "eu=ftp://eu", "eu="])
def test_a_catalog_is_named_with_an_address_of_a_known_kind(text: str) -> None:
    with pytest.raises(ReconcileError, match="does not name a catalog"):
        parse_inputs([text], {})


def test_fast_reads_the_same_differing_buckets_of_all_catalogs(federation: Federation) -> None:
    _, us, _ = three_catalogs(federation)
    changed = us.own("/messagegroups/us1", epoch=9)

    plan = plan_of(survey(federation.inputs()), verify=False)

    assert any(part.start <= changed.bucket < part.stop for part in plan.ranges)
    assert plan.buckets < 10
    assert sorted(plan.requests) == [(c, part) for c in range(3) for part in plan.ranges]
    assert plan_of(survey(federation.inputs()), verify=True).ranges == [ALL_BUCKETS]


def test_fast_reads_nothing_where_all_buckets_agree(federation: Federation) -> None:
    three_catalogs(federation)

    assert plan_of(survey(federation.inputs()), verify=False).ranges == []
