"""Filters, orders, pages and flags of reads, as clients see them."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import SPEC, Answer, Node, assert_problem, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

LINK = re.compile(r"<([^>]+)>;rel=(\w+);count=(\d+)")
R1 = "/mygroups/g1/myresources/r1"


def group(*resources: str, **attributes: Any) -> dict[str, Any]:
    return {"myresources": {id: {"versions": {"v1": {}}} for id in resources}, **attributes}


MODEL = {
    "groups": {
        plural: {
            "singular": plural[:-1],
            "resources": {
                "myresources": {"singular": "myresource", "hasdocument": False},
                "others": {"singular": "other", "hasdocument": False},
            },
        }
        for plural in ("mygroups", "emptygroups")
    }
}
SEED: dict[str, Any] = {
    "mygroups": {
        "g1": {
            "name": "One & only",
            "labels": {"stage": "dev"},
            "myresources": {
                "r1": {
                    "versions": {"v1": {"name": "first"}, "v2": {"name": "second"}},
                    "meta": {"labels": {"l": "x"}},
                },
                "r2": {"versions": {"v1": {"name": "first"}}},
                "x": {"meta": {"xref": R1}},
            },
            "others": {"o": {}},
        },
        "g2": {"name": "two", "myresources": {"r3": {"versions": {"v1": {"name": "third"}}}}},
        "g3": {"name": "Three"},
    }
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    """A node whose entities no test here changes."""
    async with start_node(shared_database_url, modelsource=MODEL) as running:
        answer = await running.send("POST", "/", SEED)
        assert answer.status == 200, answer.body
        yield running


def xids_in(shown: Any) -> set[str]:
    """Every entity in an answer, by the end of its xid."""
    found: set[str] = set()
    for name, value in shown.items():
        if name == "xid" and value != "/" and not value.endswith("/meta"):
            found.add(value.replace("/mygroups/", "").replace("myresources/", ""))
        elif isinstance(value, dict):
            found |= xids_in(value)
    return found


R1_WHOLE = {"g1", "g1/r1", "g1/r1/versions/v1", "g1/r1/versions/v2"}
X_WHOLE = {"g1/x", "g1/x/versions/v1", "g1/x/versions/v2"}
G1_WHOLE = {
    *R1_WHOLE,
    *X_WHOLE,
    "g1/r2",
    "g1/r2/versions/v1",
    "g1/others/o",
    "g1/others/o/versions/1",
}
G2_WHOLE = {"g2", "g2/r3", "g2/r3/versions/v1"}


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("filter=mygroups.myresources.myresourceid=r1", R1_WHOLE),
        (
            "filter=mygroups.mygroupid=g2&filter=mygroups.myresources.myresourceid=r1",
            R1_WHOLE | G2_WHOLE,
        ),
        (
            "filter=mygroups.mygroupid=g1&filter=mygroups.myresources.myresourceid=r1",
            G1_WHOLE,
        ),
        (
            "filter=mygroups.mygroupid=g1,mygroups.myresources.myresourceid=r1",
            R1_WHOLE,
        ),
        ("filter=mygroups.mygroupid=g2,mygroups.myresources.myresourceid=r1", set()),
        ("filter=mygroups.name=*ONLY", G1_WHOLE),
        (
            "filter=mygroups.myresources.versions.name=second",
            {"g1", "g1/r1", "g1/r1/versions/v2", "g1/x", "g1/x/versions/v2"},
        ),
        ("filter=mygroups.myresources.meta.labels.l=x", R1_WHOLE | X_WHOLE),
        ("filter=excludeall", None),
        ("filter=registryid=nope", None),
        ("filter=registryid=test,mygroups.mygroupid=g2", G2_WHOLE),
    ],
)
async def test_what_a_filter_matches_is_shown_with_what_is_below_and_above(
    node: Node, query: str, shown: set[str] | None
) -> None:
    """core/spec.md, "Filter Flag": its examples."""
    answer = await node.send("GET", f"/?inline=*&{query}")
    if shown is None:
        assert (answer.status, assert_problem(answer)["type"]) == (404, f"{SPEC}not_found")
        return
    assert xids_in(answer.json) == shown
    assert_counts(answer.json)
    flat = await node.get(f"/?{query}")
    assert flat["mygroupscount"] == answer.json["mygroupscount"]


def assert_counts(shown: Any) -> None:
    for name, value in shown.items():
        if isinstance(value, dict) and f"{name}count" in shown:
            assert shown[f"{name}count"] == len(value)
        if isinstance(value, dict):
            assert_counts(value)


@pytest.mark.parametrize(
    "query",
    [
        "filter=mygroups.myresources.versions.name=second",
        "filter=mygroups.name=*%26*",
        "filter=mygroups.myresources.name=first&filter=mygroups.mygroupid=g2",
        "filter=mygroups.labels.stage=dev,mygroups.myresources.myresourceid=r2",
        "filter=mygroups.myresources.meta.labels.l",
    ],
)
async def test_urls_of_filtered_collections_lead_to_what_was_filtered(
    node: Node, query: str
) -> None:
    """core/spec.md, "Filter Flag": following URLs shows what inlining would."""
    inlined = await node.get(f"/?inline=*&{query}")
    assert await walk(node, await node.get(f"/?{query}")) == xids_in(inlined)
    assert await walk(node, inlined) == xids_in(inlined)


async def walk(node: Node, shown: Any) -> set[str]:
    """What is found by following the URL of every collection."""
    found: set[str] = set()
    for name in shown:
        plural = name.removesuffix("count")
        if plural == name:
            continue
        url = shown[f"{plural}url"]
        entities = await node.get(url.removeprefix(node.url))
        assert len(entities) == shown[name]
        assert (shown[name] == 0) == url.endswith("?filter=excludeall")
        for entity in entities.values():
            found |= xids_in({"xid": entity["xid"]}) | await walk(node, entity)
    return found


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/mygroups?filter=excludeall", 200),
        ("/mygroups/g1/myresources?filter=excludeall&inline=*", 200),
        (f"{R1}/versions?filter=excludeall", 200),
        ("/mygroups/g1?filter=excludeall", 404),
        (f"{R1}?filter=excludeall", 404),
        (f"{R1}/versions/v1?filter=excludeall", 404),
        ("/mygroups?filter=excludeall&filter=name", 400),
        ("/mygroups/nope/myresources?filter=excludeall", 404),
    ],
)
async def test_everything_can_be_excluded(node: Node, path: str, status: int) -> None:
    """core/spec.md, "Filter Flag": `excludeall`."""
    answer = await node.send("GET", path)
    assert answer.status == status
    if status == 200:
        assert answer.json == {}
    else:
        assert answer.error == ("not_found" if status == 404 else "bad_filter")


@pytest.mark.parametrize(
    ("path", "matches"),
    [
        ("/mygroups/g1?filter=name=one*", True),
        ("/mygroups/g1?filter=name=two", False),
        ("/mygroups/g1?filter=myresources.name=none", True),
        (f"{R1}?filter=name=second", True),
        (f"{R1}?filter=name=first", False),
        (f"{R1}?filter=meta.labels.l=x", True),
        (f"{R1}/versions/v1?filter=name=first", True),
        (f"{R1}/versions/v1?filter=isdefault=true", False),
    ],
)
async def test_an_entity_that_a_filter_does_not_match_is_not_found(
    node: Node, path: str, matches: bool
) -> None:
    """core/spec.md, "Filter Flag"."""
    answer = await node.send("GET", path)
    assert answer.status == (200 if matches else 404)
    if not matches:
        assert assert_problem(answer)["subject"] == path.partition("?")[0]


async def test_versions_below_a_filtered_resource_are_filtered(node: Node) -> None:
    shown = await node.get(f"{R1}?inline=versions&filter=versions.name=first")
    assert ([*shown["versions"]], shown["versionscount"]) == (["v1"], 1)
    assert shown["versionsurl"] == f"{node.url}{R1}/versions?filter=name=first"


async def pages_of(node: Node, path: str) -> list[Answer]:
    pages = []
    following: str | None = path
    while following is not None:
        answer = await node.send("GET", following)
        assert answer.status == 200, answer.body
        pages.append(answer)
        links = {rel: (url, count) for url, rel, count in links_of(answer)}
        assert ("first" in links) == (len(pages) > 1)
        following = links["next"][0].removeprefix(node.url) if "next" in links else None
        assert len(pages) < 50
    return pages


def links_of(answer: Answer) -> list[tuple[str, str, str]]:
    found = [LINK.fullmatch(link) for link in answer.headers.getall("Link")]
    return [(link[1], link[2], link[3]) for link in found if link]


@pytest.mark.parametrize("inline", ["", "&inline=*", "&inline=myresources", "&doc"])
@pytest.mark.parametrize("limit", [1, 2, 10])
@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("sort=name", ["g1", "g3", "g2"]),
        ("sort=name=desc", ["g2", "g3", "g1"]),
        ("sort=mygroupid=desc", ["g3", "g2", "g1"]),
        ("sort=labels.stage", ["g2", "g3", "g1"]),
        ("filter=name=t*", ["g2", "g3"]),
        ("filter=name=t*&sort=name", ["g3", "g2"]),
        ("filter=myresources.name=first", ["g1"]),
    ],
)
async def test_pages_keep_their_filter_and_their_order(
    node: Node, query: str, ids: list[str], limit: int, inline: str
) -> None:
    """core/spec.md, "Sort Flag"; pagination/spec.md, "count"."""
    pages = await pages_of(node, f"/mygroups?limit={limit}&{query}{inline}")
    assert [id for page in pages for id in page.json] == ids
    assert all(len(page.json) == limit for page in pages[:-1])
    counts = {count for page in pages for _, _, count in links_of(page)}
    assert counts <= {str(len(ids))}
    whole = await node.get(f"/mygroups?{query}{inline}")
    shown = {id: entity for page in pages for id, entity in page.json.items()}
    assert [*whole.items()] == [*shown.items()]


async def test_versions_are_sorted_by_what_they_have(node: Node) -> None:
    for owner in (R1, "/mygroups/g1/myresources/x"):
        shown = await node.get(f"{owner}/versions?sort=name=desc")
        assert [*shown] == ["v2", "v1"]
        assert shown["v2"] == (await node.get(f"{owner}/versions"))["v2"]


@pytest.mark.parametrize("owner", [R1, "/mygroups/g1/myresources/x"])
async def test_pages_of_versions_follow_their_ids(node: Node, owner: str) -> None:
    """pagination/spec.md: also where a cross reference shows the versions of its target."""
    pages = await pages_of(node, f"{owner}/versions?limit=1")
    assert [[*page.json] for page in pages] == [["v1"], ["v2"]]
    assert {count for page in pages for _, _, count in links_of(page)} == {"2"}


async def test_the_first_page_is_found_again(node: Node) -> None:
    """pagination/spec.md, "rel"."""
    first, second, *_ = await pages_of(node, "/mygroups?limit=1&filter=name")
    urls = {rel: url for url, rel, _ in links_of(second)}
    again = await node.send("GET", urls["first"].removeprefix(node.url))
    assert again.json == first.json


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("/?sort=name", "sort_noncollection"),
        ("/mygroups/g1?sort=name", "sort_noncollection"),
        (f"{R1}/meta?sort=name", "sort_noncollection"),
        ("/export?sort=name", "sort_noncollection"),
        ("/mygroups?sort=name&sort=epoch", "bad_sort"),
        ("/mygroups?sort=", "bad_sort"),
        ("/mygroups?sort=name=up", "bad_sort"),
        ("/mygroups?sort=myresources.name", "bad_sort"),
        ("/mygroups?filter=name&filter==", "bad_filter"),
        ("/mygroups?filter=name%3Cnull", "bad_filter"),
        (f"{R1}/meta?filter=defaultversionurl", "bad_filter"),
        ("/mygroups?limit=1&limit=2", "bad_request"),
        ("/mygroups?sort=name&after=xx", "bad_request"),
        ("/mygroups?after=%00", "bad_request"),
        ("/mygroups?sort=name&after=%00", "bad_request"),
        ("/?doc=true", "bad_flag"),
        ("/?doc=false", "bad_flag"),
        ("/?collections=*", "bad_flag"),
        ("/mygroups?binary=1", "bad_flag"),
        ("/?inline=mygroups.name", "bad_inline"),
        ("/?inline=epoch", "inline_noninlineable"),
        ("/mygroups?inline=labels", "inline_noninlineable"),
        (f"{R1}?inline=versionid", "inline_noninlineable"),
        (f"{R1}/meta?inline=readonly", "inline_noninlineable"),
    ],
)
async def test_flags_that_mean_nothing_are_refused(node: Node, path: str, error: str) -> None:
    """core/spec.md, "Request Flags"; core/http.md, "Request Flags / Query Parameters"."""
    answer = await node.send("GET", path)
    assert (answer.status, assert_problem(answer)["type"]) == (400, SPEC + error)


async def test_flags_without_a_value_and_unknown_parameters_do_no_harm(node: Node) -> None:
    shown = await node.get("/?doc&inline")
    assert await node.get("/?doc=&doc&inline=*&unknown=1&unknown=2") == shown


@pytest.mark.parametrize(
    "flag", ["binary", "collections", "doc", "filter=name", "inline", "sort=?"]
)
async def test_a_flag_that_is_turned_off_is_ignored(other_database_url: str, flag: str) -> None:
    """core/spec.md, "flags Capability"; core/http.md, "Adherence to HTTP Standards"."""
    async with start_node(other_database_url, modelsource=MODEL) as node:
        await node.put("/mygroups/g1")
        answer = await node.send("PATCH", "/capabilities", {"flags": []})
        assert answer.status == 200, answer.body
        assert await node.get(f"/mygroups?{flag}") == await node.get("/mygroups")
        assert "mygroups" in await node.get("/export")


async def test_a_limit_is_refused_where_there_are_no_pages(other_database_url: str) -> None:
    """core/spec.md, "pagination Capability"."""
    async with start_node(other_database_url, modelsource=MODEL) as node:
        await node.send("PATCH", "/capabilities", {"pagination": False})
        problem = assert_problem(await node.send("GET", "/mygroups?limit=1"))
        assert (problem["type"], problem["args"]) == (f"{SPEC}bad_flag", {"flag": "limit"})


async def test_a_registry_without_pages_shows_collections_whole(other_database_url: str) -> None:
    """core/spec.md, "pagination Capability"."""
    async with start_node(other_database_url, modelsource=MODEL, page_size=2) as node:
        await node.send("POST", "/mygroups", {f"g{n}": group("r1", "r2", "r3") for n in range(5)})
        assert len(await node.get("/mygroups")) == 2
        answer = await node.send("PATCH", "/capabilities", {"pagination": False})
        assert answer.status == 200, answer.body
        for path in ("/mygroups", "/mygroups?inline=*", "/mygroups?filter=epoch>0&sort=epoch"):
            answer = await node.send("GET", path)
            assert [*answer.json] == [f"g{n}" for n in range(5)]
            assert not links_of(answer)
        assert len(await node.get("/mygroups/g1/myresources")) == 3
        assert (await node.send("GET", "/mygroups/nope/myresources")).status == 404
