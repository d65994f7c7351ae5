"""What a modelsource becomes once its includes are resolved, and which ones are refused."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from catalog.model.configuration import model_of
from catalog.model.errors import ModelError
from catalog.model.includes import MAX_DOCUMENTS, resolve_includes
from catalog.model.modelsource import load_model

TEXT = {"type": "string"}
BASE = "https://example.com/models/main.json"


class Web:
    """Documents by their addresses, and the addresses that were asked for."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self.documents = documents
        self.asked: list[str] = []

    async def fetch(self, address: str) -> Any:
        self.asked.append(address)
        if address not in self.documents:
            raise ModelError("/model", error_detail=f"{address} is not there")
        return self.documents[address]


async def resolved(source: Any, **documents: Any) -> dict[str, Any]:
    """`source` with documents beside it, called by their names."""
    web = Web({f"https://example.com/models/{name}": one for name, one in documents.items()})
    return await resolve_includes(source, web.fetch, base=BASE)


async def refusal(source: Any, **documents: Any) -> str:
    with pytest.raises(ModelError) as refused:
        await resolved(source, **documents)
    assert refused.value.subject == "/model"
    return refused.value.arguments["error_detail"]


async def test_a_source_without_includes_stays_as_it_is() -> None:
    source = {"groups": {"shelves": {"singular": "shelf", "labels": {"a": "b"}}}, "enum": [{}, 1]}
    assert await resolve_includes(source) == source


async def test_an_include_of_the_same_document_needs_no_fetching() -> None:
    source: dict[str, Any] = {
        "attributes": {"a": TEXT},
        "groups": {"shelves": {"singular": "shelf", "attributes": {"$include": "#/attributes"}}},
    }
    found = await resolve_includes(source)
    assert found["groups"]["shelves"]["attributes"] == {"a": TEXT}
    assert "$include" in source["groups"]["shelves"]["attributes"]


async def test_what_is_there_wins_over_what_is_included() -> None:
    source = {"$include": "a", "x": {"type": "integer"}, "z": TEXT}
    found = await resolved(source, a={"x": {"type": "string", "strict": False}, "y": TEXT})
    assert found == {"x": {"type": "integer"}, "y": TEXT, "z": TEXT}


async def test_what_is_there_wins_also_where_it_comes_first() -> None:
    assert await resolved({"x": 1, "$include": "a"}, a={"x": 2, "y": 2}) == {"x": 1, "y": 2}


async def test_what_is_included_first_wins() -> None:
    source = {"$includes": ["a", "b", "c#/inner"]}
    found = await resolved(source, a={"x": 1}, b={"x": 2, "y": 2}, c={"inner": {"y": 3, "z": 3}})
    assert found == {"x": 1, "y": 2, "z": 3}


async def test_includes_take_the_place_of_their_directive() -> None:
    source = {"first": 1, "$include": "a", "last": 2}
    assert list(await resolved(source, a={"x": 1, "y": 1})) == ["first", "x", "y", "last"]


async def test_includes_of_a_document_are_relative_to_it() -> None:
    web = Web(
        {
            "https://example.com/one/a.json": {"x": {"$include": "../two/b.json#/y"}},
            "https://example.com/two/b.json": {"y": {"$include": "#/z"}, "z": {"found": 1}},
        }
    )
    source = {"$include": "../one/a.json"}
    assert await resolve_includes(source, web.fetch, base=BASE) == {"x": {"found": 1}}


async def test_a_document_is_fetched_once() -> None:
    web = Web({"https://example.com/models/a": {"x": {"y": 1}, "z": {"y": 2}}})
    source = {"p": {"$include": "a#/x"}, "q": {"$include": "a#/z"}, "r": {"$include": "a"}}
    found = await resolve_includes(source, web.fetch, base=BASE)
    assert (found["p"], found["q"]) == ({"y": 1}, {"y": 2})
    assert web.asked == ["https://example.com/models/a"]


@pytest.mark.parametrize(
    "pointer",
    ["#/a~1b/c~0d/%65%66", "#/list/1", "#list/1"],
)
async def test_a_fragment_is_a_json_pointer(pointer: str) -> None:
    document = {"a/b": {"c~d": {"ef": {"found": 1}}}, "list": [{}, {"found": 1}]}
    assert await resolved({"$include": f"a{pointer}"}, a=document) == {"found": 1}


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"$include": "#"}, id="all of it"),
        pytest.param({"a": {"b": {"$include": "#/a"}}}, id="what it is in"),
        pytest.param({"$include": "x"}, id="by another document"),
        pytest.param({"a": {"$include": "#/b"}, "b": {"$include": "#/a"}}, id="each other"),
    ],
)
async def test_a_circle_of_includes_is_refused(source: Any) -> None:
    detail = await refusal(source, x={"y": {"$include": "main.json"}})
    assert "includes itself" in detail


@pytest.mark.parametrize(
    "source",
    [
        pytest.param({"$include": "a", "$includes": ["b"]}, id="both forms"),
        pytest.param({"$include": ["a"]}, id="an array in the first form"),
        pytest.param({"$includes": "a"}, id="a text in the second form"),
        pytest.param({"$includes": [1]}, id="no reference"),
        pytest.param({"$include": None}, id="null"),
        pytest.param({"$include": "a#/nothing"}, id="nothing there"),
        pytest.param({"$include": "a#/list/7"}, id="beyond an array"),
        pytest.param({"$include": "a#/text"}, id="no object"),
        pytest.param({"$include": "a#/list"}, id="an array"),
        pytest.param({"$include": "missing"}, id="no document"),
    ],
)
async def test_includes_against_the_rules_are_refused(source: Any) -> None:
    await refusal({"groups": source}, a={"text": "x", "list": [1]}, b={})


async def test_without_a_way_to_fetch_other_documents_are_refused() -> None:
    for reference in ("https://example.com/a", "a.json"):
        with pytest.raises(ModelError):
            await resolve_includes({"$include": reference})


async def test_a_relative_reference_needs_a_document_to_start_from() -> None:
    web = Web({"a.json": {}})
    with pytest.raises(ModelError):
        await resolve_includes({"$include": "a.json"}, web.fetch)
    assert web.asked == []


async def test_a_chain_of_includes_is_bounded() -> None:
    def chain(length: int) -> dict[str, Any]:
        links = {f"d{n}": {"$include": f"d{n + 1}"} for n in range(1, length)}
        return {**links, f"d{length}": {"found": 1}}

    assert await resolved({"$include": "d1"}, **chain(MAX_DOCUMENTS)) == {"found": 1}
    await refusal({"$include": "d1"}, **chain(MAX_DOCUMENTS + 1))
    local = {f"d{n}": {"$include": f"#/d{n + 1}"} for n in range(200)}
    assert "nested" in await refusal({**local, "d200": {}, "$include": "#/d0"})


async def test_the_number_of_documents_is_bounded() -> None:
    documents = {f"d{n}": {f"k{n}": n} for n in range(MAX_DOCUMENTS + 1)}
    names = list(documents)
    assert len(await resolved({"$includes": names[:-1]}, **documents)) == MAX_DOCUMENTS
    await refusal({"$includes": names}, **documents)


async def test_includes_that_multiply_are_refused_before_they_fill_the_memory() -> None:
    bomb: dict[str, Any] = {
        f"d{n}": {f"k{one}": {"$include": f"d{n + 1}"} for one in range(10)} for n in range(10)
    }
    assert "members" in await refusal({"$include": "d0"}, **bomb, d10={"x": 1})
    empty = {f"e{n}": {"$includes": [f"e{n + 1}"] * 10} for n in range(10)}
    assert "members" in await refusal({"$include": "e0"}, **empty, e10={})


async def test_nesting_is_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(200):
        deep = {"a": deep}
    await refusal(deep)
    deep = {"l": [deep]}
    await refusal(deep)


async def test_a_model_keeps_its_source_and_is_built_from_what_is_resolved() -> None:
    source = {"attributes": {"$include": "a", "mine": {"type": "integer"}}}
    model = model_of(source, await resolved(source, a={"theirs": TEXT, "mine": TEXT}))
    assert model.source == source
    assert (model.attributes["theirs"].type, model.attributes["mine"].type) == ("string", "integer")
    assert "$include" not in model.expanded()["attributes"]


@pytest.mark.parametrize(
    "source",
    [
        {"$include": "#/x"},
        {"attributes": {"$include": "#/x"}},
        {"attributes": {"a": {"type": "string", "$includes": []}}},
        {"groups": {"$include": "#/x"}},
    ],
    ids=str,
)
def test_a_model_with_unresolved_includes_is_refused(source: dict[str, Any]) -> None:
    with pytest.raises(ModelError):
        load_model(source)


@pytest.mark.parametrize("reference", ["http://[x]/", "http://[x]/#/a", "//[::1"])
async def test_a_reference_that_is_no_url_is_refused(reference: str) -> None:
    assert "it is no URL" in await refusal({"groups": {"$include": reference}})


async def test_a_reference_is_bounded() -> None:
    assert "characters" in await refusal({"groups": {"$include": "#/" + "a" * 2047}})


async def test_its_caller_chooses_where_includes_are_resolved() -> None:
    """Once for the source, and once more for the documents that each step of a chain needs."""
    runs = 0

    async def run(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        nonlocal runs
        runs += 1
        return await asyncio.to_thread(work)

    web = Web({"a:1": {"$include": "a:2"}, "a:2": {"x": 1}, "a:3": {"y": 2}})
    source = {"$includes": ["a:1", "a:3"]}
    assert await resolve_includes(source, web.fetch, run=run) == {"x": 1, "y": 2}
    assert (runs, web.asked) == (3, ["a:1", "a:3", "a:2"])
