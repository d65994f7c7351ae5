"""Flags of writes that say what of the written is shown, and how."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.integration.conftest import Node, start_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODEL = {
    "groups": {
        "bays": {
            "singular": "bay",
            "attributes": {"age": {"type": "integer"}},
            "resources": {
                "tags": {"singular": "tag", "hasdocument": False},
                "crates": {"singular": "crate"},
            },
        }
    }
}
SEED: dict[str, Any] = {
    "name": "Harbour",
    "bays": {
        "b1": {
            "age": 9,
            "tags": {
                "t1": {"versions": {"v1": {"name": "old"}, "v2": {"name": "red"}}},
                "t2": {"versionid": "v1", "name": "blue"},
                "x": {"meta": {"xref": "/bays/b1/tags/t1"}},
            },
            "crates": {"c1": {"versionid": "v1", "crate": {"a": 1}}},
        },
        "B2": {"age": 10, "name": "second", "tags": {"t1": {"versionid": "v1", "name": "red"}}},
        "b3": {},
    },
}
NOTHING: dict[str, Any] = {}
BAYS = {"b1": NOTHING, "B2": NOTHING, "b3": NOTHING}


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def node(shared_database_url: str) -> AsyncIterator[Node]:
    async with start_node(shared_database_url, modelsource=MODEL) as running:
        answer = await running.send("PATCH", "/", SEED)
        assert answer.status == 200, answer.body
        yield running


@pytest.mark.parametrize(
    ("path", "written"),
    [
        ("/bays?filter=age>9", BAYS),
        ("/bays?filter=age<>9&sort=age", BAYS),
        ("/bays?filter=age=9&filter=name=second&sort=bayid=desc", BAYS),
        ("/bays?filter=tags.name=red", BAYS),
        ("/bays?filter=tags.name=red&inline=*&doc", BAYS),
        ("/bays?filter=tags.versions.name=old&inline=tags.versions", BAYS),
        ("/bays?filter=excludeall", BAYS),
        ("/bays?sort=age=desc", BAYS),
        ("/bays?sort=name&inline", BAYS),
        ("/bays/b1/tags?filter=versions.name=old", {"t1": NOTHING, "t2": NOTHING}),
        ("/bays/b1/tags?filter=name<>x&sort=name", {"t1": NOTHING, "t2": NOTHING}),
        ("/bays/b1/tags/t1/versions?filter=name=old", {"v1": NOTHING, "v2": NOTHING}),
        ("/bays/b1/tags/t1/versions?sort=name=desc", {"v1": NOTHING, "v2": NOTHING}),
        ("/?filter=bays.tags.name=red", NOTHING),
        ("/?filter=bays.tags.name=red,name=harbour&inline=bays.tags", NOTHING),
        ("/?filter=bays.age>8&inline=bays&doc", NOTHING),
        ("/bays/b1?filter=tags.versions.versionid=v2", NOTHING),
        ("/bays/b1?filter=crates.crateid=c1&inline=*", NOTHING),
        ("/bays/b1?filter=crates.crateid=none&collections", NOTHING),
        ("/bays/b1/tags/t1?filter=versions.name=old&inline=versions", NOTHING),
        ("/bays/b1/crates/c1$details?filter=crateid=c1&inline=crate", NOTHING),
        ("/bays/b1/tags/t1/versions/v1?filter=name=old", NOTHING),
        ("/bays/b1/tags/t1/meta?filter=epoch>0", NOTHING),
    ],
)
async def test_a_write_of_all_that_is_there_is_answered_as_a_read_of_it(
    node: Node, path: str, written: dict[str, Any]
) -> None:
    """core/http.md, "Creating or Updating Entities"."""
    answer = await node.send("PATCH", path, written)
    assert answer.status == 200, answer.body
    read = await node.get(path)
    read.pop("x", None)
    assert answer.json == read
    assert [*answer.json] == [*read]


async def test_an_entity_that_was_written_is_shown_though_the_filter_does_not_match_it(
    node: Node,
) -> None:
    for query in ("filter=age=77", "filter=age=77&inline=tags"):
        answer = await node.send("PUT", f"/bays/new?{query}", {"age": 6, "tags": {"t": {}}})
        assert answer.status == 201
        assert (answer.json["bayid"], answer.json["age"], answer.json["tagscount"]) == ("new", 6, 0)
        assert (await node.get("/bays/new"))["tagscount"] == 1
        assert (await node.send("DELETE", "/bays/new")).status == 204


async def test_a_post_to_a_registry_that_does_not_match_shows_nothing_of_what_it_wrote(
    node: Node,
) -> None:
    body = {"bays": {"b1": {"age": 9}}}
    answer = await node.send("POST", "/?filter=name=other", body)
    assert (answer.status, answer.json) == (200, {"bays": {}})


async def test_the_answer_to_a_write_has_urls_that_show_the_same(node: Node) -> None:
    answer = await node.send("PATCH", "/bays/b1?filter=tags.name=blue", {})
    assert answer.json["tagscount"] == 1
    assert [*await node.get(answer.json["tagsurl"].removeprefix(node.url))] == ["t2"]
