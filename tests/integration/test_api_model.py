"""Clients change the model, and every entity complies with the one in force."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from catalog.node.noderuntime import follow_configuration
from catalog.store.databasewatch import Watch
from tests.integration.conftest import Node, assert_problem, fresh_node, start_node

FILES: dict[str, Any] = {"singular": "file", "hasdocument": False}


def source(*, group: Any = None, **files: Any) -> dict[str, Any]:
    """A model of files in directories; `files` are aspects of the type of files."""
    dirs = {"singular": "dir", "resources": {"files": {**FILES, **files}}, **(group or {})}
    return {"groups": {"dirs": dirs}}


node = fresh_node(modelsource=source())


async def change(node: Node, model: Any) -> None:
    answer = await node.send("PUT", "/modelsource", model)
    assert answer.status == 200, answer.body


async def refused(node: Node, model: Any) -> dict[str, list[str]]:
    """The violations of a change that does nothing: names of errors by what they are about.

    Some have errors of their own, which are the answer then.
    """
    before = await node.state()
    answer = await node.send("PUT", "/modelsource", model)
    problem = assert_problem(answer)
    if answer.error not in ("hasdocument_violation", "setdefaultversionsticky_false"):
        assert (answer.error, problem["subject"]) == ("model_compliance_error", "/model")
    assert await node.state() == before
    found: dict[str, list[str]] = {}
    for violation in problem.get("violations", [problem]):
        found.setdefault(violation["subject"], []).append(violation["type"].rpartition("#")[2])
    return found


async def test_the_source_is_shown_as_given_and_the_model_in_full(node: Node) -> None:
    """core/http.md, "PUT /modelsource"."""
    given = {"description": "Mine", "groups": {"zoos": {"singular": "zoo"}}}
    answer = await node.send("PUT", "/modelsource", given)
    assert (answer.status, answer.json) == (200, given)
    assert await node.get("/modelsource") == given
    assert (await node.get("/"))["zooscount"] == 0
    model = await node.get("/model")
    assert {"zooid", "epoch", "labels"} <= {*model["groups"]["zoos"]["attributes"]}
    assert (await node.get("/?inline=model,modelsource"))["modelsource"] == given


async def test_a_node_goes_on_with_its_model_when_it_starts_again(database_url: str) -> None:
    given = {"groups": {"zoos": {"singular": "zoo"}, "arks": {"singular": "ark"}}}
    async with start_node(database_url, modelsource=source()) as node:
        await change(node, given)
    async with start_node(database_url, modelsource=source()) as node:
        assert await node.get("/modelsource") == given
        assert [*(await node.get("/modelsource"))["groups"]] == ["zoos", "arks"]
        await node.put("/zoos/z")


async def test_an_empty_object_is_an_empty_model(node: Node) -> None:
    await change(node, {})
    assert await node.get("/modelsource") == {}
    assert (await node.send("GET", "/dirs")).error == "unknown_group_type"


@pytest.mark.parametrize(
    ("body", "error"),
    [(b"", "missing_body"), (b"null", "parsing_data"), (b"[]", "parsing_data")],
)
async def test_a_body_that_is_no_object_is_refused(node: Node, body: bytes, error: str) -> None:
    before = await node.state()
    headers = {"Content-Type": "application/json"}
    answer = await node.request("PUT", "/modelsource", body=body, headers=headers)
    assert_problem(answer)
    assert answer.error == error
    assert await node.state() == before


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize("reset", [None, {}])
async def test_null_or_nothing_in_the_registry_resets_the_model(
    node: Node, method: str, reset: Any
) -> None:
    """core/spec.md, "modelsource Attribute"."""
    answer = await node.request(
        method,
        "/",
        body=b'{"modelsource": null}' if reset is None else b'{"modelsource": {}}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 200, answer.body
    assert await node.get("/modelsource") == {}
    assert "dirscount" not in await node.get("/")


async def test_the_answer_to_a_new_model_can_inline_what_it_defines(node: Node) -> None:
    body = {"modelsource": {"groups": {"dirs": {"singular": "dir"}}}, "dirs": {"d": {}}}
    shown = await node.put("/?inline=dirs", body)
    assert [*shown["dirs"]] == ["d"]
    answer = await node.send("PUT", "/?inline=messagegroups", body)
    assert answer.error == "bad_inline"


async def test_entities_of_a_new_type_come_with_the_model_that_defines_it(node: Node) -> None:
    """core/spec.md, "modelsource Attribute": the model is updated before any entity."""
    body = {
        "name": "Mine",
        "modelsource": {"groups": {"zoos": {"singular": "zoo"}}},
        "zoos": {"berlin": {"name": "Zoo"}},
    }
    shown = await node.put("/?inline=modelsource", body)
    assert (shown["modelsource"], shown["name"]) == (body["modelsource"], "Mine")
    assert (await node.get("/zoos/berlin"))["name"] == "Zoo"


async def test_a_request_may_bring_entities_into_line_with_its_own_model(node: Node) -> None:
    await node.put("/dirs/d", {"labels": {"a": "b"}})
    wanted = source(group={"attributes": {"owner": {"type": "string", "required": True}}})
    assert await refused(node, wanted) == {"/dirs/d": ["required_attribute_missing"]}
    body = {"modelsource": wanted, "dirs": {"d": {"owner": "me"}}}
    assert (await node.send("PATCH", "/", body)).status == 200
    assert (await node.get("/dirs/d"))["owner"] == "me"


async def test_an_update_without_a_source_leaves_the_model_alone(node: Node) -> None:
    await node.put("/", {"name": "Mine"})
    assert await node.get("/modelsource") == source()


async def test_an_invalid_model_changes_nothing(node: Node) -> None:
    before = await node.state()
    for model in ({"groups": {"dirs": {}}}, {"nonsense": 1}):
        answer = await node.send("PUT", "/modelsource", model)
        assert (answer.status, answer.error) == (400, "model_error")
    assert await node.state() == before


async def test_the_name_of_a_type_is_immutable(node: Node) -> None:
    """core/model.md, "groups.<STRING>.singular"."""
    answer = await node.send("PUT", "/modelsource", {"groups": {"dirs": {"singular": "folder"}}})
    assert answer.error == "model_error"


async def test_types_cannot_go_while_they_have_entities(node: Node) -> None:
    await node.put("/dirs/d/files/f")
    await node.put("/dirs/e")
    assert await refused(node, {}) == {
        "/dirs/d": ["unknown_group_type"],
        "/dirs/e": ["unknown_group_type"],
    }
    without_files = {"groups": {"dirs": {"singular": "dir"}}}
    assert await refused(node, without_files) == {"/dirs/d/files/f": ["unknown_resource_type"]}
    assert (await node.send("DELETE", "/dirs/d")).status == 204
    await change(node, without_files)


OWNER = {"owner": {"type": "string"}}


@pytest.mark.parametrize(
    ("level", "path", "subject"),
    [
        ("attributes", "/dirs/d/files/f", "/dirs/d/files/f/versions/1"),
        ("metaattributes", "/dirs/d/files/f/meta", "/dirs/d/files/f"),
        ("group", "/dirs/d", "/dirs/d"),
        ("registry", "/", "/"),
    ],
)
async def test_attributes_must_fit_on_every_level(
    node: Node, level: str, path: str, subject: str
) -> None:
    def model(owner: dict[str, Any]) -> dict[str, Any]:
        if level == "registry":
            return {**source(), "attributes": owner}
        if level == "group":
            return source(group={"attributes": owner})
        return source(**{level: owner})

    await change(node, model(OWNER))
    await node.put("/dirs/d/files/f")
    await node.send("PATCH", path, {"owner": "me"})
    for owner, error in (
        ({}, "unknown_attribute"),
        ({"owner": {"type": "integer"}}, "invalid_attribute"),
        ({"owner": {"type": "string", "enum": ["you"]}}, "invalid_attribute"),
        ({**OWNER, "why": {"type": "string", "required": True}}, "required_attribute_missing"),
    ):
        assert (await refused(node, model(owner)))[subject] == [error]
    await change(node, model({"owner": {"type": "string", "enum": ["me", "you"]}}))


async def test_new_defaults_are_given_to_what_is_there(node: Node) -> None:
    """As an update: epochs rise, and the change log tells."""
    await node.put("/dirs/d/files/f", {"name": "n"})
    before = await node.get("/dirs/d/files/f")
    owner = {"owner": {"type": "string", "required": True, "default": "us"}}
    await change(node, source(attributes=owner))
    after = await node.get("/dirs/d/files/f")
    assert (after["owner"], after["epoch"]) == ("us", before["epoch"] + 1)
    *_, last = await node.changes()
    of_request = [c for c in await node.changes() if c.interaction == last.interaction]
    told = {entry.change.xid: entry.change.changed for entry in of_request}
    assert told["/dirs/d/files/f/versions/1"] == ("epoch", "modifiedat", "owner")
    assert "owner" in told["/dirs/d/files/f"]
    assert {"model", "modelsource", "epoch", "modifiedat"} <= {*told["/"]}


async def test_only_the_types_that_differ_are_looked_at(node: Node) -> None:
    """What does not comply already must not stand in the way of other changes."""
    await node.put("/dirs/d/files/f")
    async with node.database.acquire() as connection:
        await connection.execute(
            """UPDATE entities SET attributes = '{"odd": 1}' WHERE xid = '/dirs/d'"""
        )
    await change(node, source(maxversions=7))
    wider = source(group={"attributes": OWNER})
    assert await refused(node, wider) == {"/dirs/d": ["unknown_attribute"]}


VERSIONS = "/dirs/d/files/f/versions"


async def test_versions_must_fit_the_rules_of_their_type(node: Node) -> None:
    resource = VERSIONS.removesuffix("/versions")
    await node.put(f"{VERSIONS}/1", {"name": "a", "ancestorid": "1"})
    await node.put(f"{VERSIONS}/2", {"name": "b", "ancestorid": "2"})
    assert await refused(node, source(singleversionroot=True)) == {resource: ["multiple_roots"]}
    assert await refused(node, source(maxversions=1)) == {resource: ["model_compliance_error"]}
    same_name = {"name": {"type": "string", "matchversions": True}}
    assert await refused(node, source(attributes=same_name)) == {
        resource: ["mismatched_version_attribute"]
    }
    await change(node, source(maxversions=2))


async def test_a_single_version_cannot_be_sticky(node: Node) -> None:
    """core/model.md, "maxversions"."""
    await node.put(f"{VERSIONS}/1")
    await node.send("PATCH", "/dirs/d/files/f/meta", {"defaultversionsticky": True})
    assert await refused(node, source(maxversions=1)) == {
        "/dirs/d/files/f": ["setdefaultversionsticky_false"]
    }


@pytest.mark.parametrize("kept", [b"content", "https://elsewhere.example/f"])
async def test_documents_keep_their_type_from_losing_them(node: Node, kept: bytes | str) -> None:
    """core/model.md, "hasdocument"."""
    await change(node, source(hasdocument=True))
    if isinstance(kept, bytes):
        await node.request("PUT", "/dirs/d/files/f", body=kept)
    else:
        await node.put("/dirs/d/files/f$details", {"fileurl": kept})
    assert await refused(node, source(hasdocument=False)) == {
        f"{VERSIONS}/1": ["hasdocument_violation"]
    }


async def test_a_resource_without_document_may_become_metadata_only(node: Node) -> None:
    await change(node, source(hasdocument=True))
    await node.put("/dirs/d/files/f$details", {"name": "n"})
    await change(node, source(hasdocument=False))
    assert (await node.get("/dirs/d/files/f"))["name"] == "n"


async def test_so_many_violations_are_listed_and_no_more(node: Node) -> None:
    await node.send("POST", "/dirs", {f"d{number}": {} for number in range(1100)})
    answer = await node.send("PUT", "/modelsource", {})
    assert len(answer.json["violations"]) == 1000


async def test_a_change_of_the_model_is_told_as_one_of_the_registry(node: Node) -> None:
    epoch = (await node.get("/"))["epoch"]
    answer = await node.send("PUT", "/modelsource", source(maxversions=3))
    assert answer.headers["xRegistry-xregcorrelationid"]
    assert answer.headers["Concord-Position"]
    [entry] = await node.changes()
    assert (entry.change.xid, entry.change.action) == ("/", "updated")
    assert entry.change.changed == ("epoch", "model", "modelsource", "modifiedat")
    assert (await node.get("/"))["epoch"] == epoch + 1


async def test_the_same_model_in_other_words_is_the_same_model(node: Node) -> None:
    """core/model.md: how a model is defined makes no difference to its entities."""
    await node.put("/dirs/d")
    await change(node, {**source(), "groups": {"dirs": {**source()["groups"]["dirs"]}}})
    await change(node, {"description": "The same", **source()})
    await change(node, await node.get("/model"))
    changed = [e.change.changed for e in await node.changes() if e.change.xid == "/"]
    assert "model" not in changed[-1]
    assert "modelsource" in changed[-1]


@contextlib.asynccontextmanager
async def second_process(dsn: str) -> AsyncIterator[Node]:
    """Another process of the same node, as far as its database can tell."""
    async with start_node(dsn) as other:
        yield other


async def test_a_writer_with_an_old_model_never_writes_under_it(
    database_url: str, node: Node
) -> None:
    """It is read again with the new one, and refused if that has no such attribute."""
    async with second_process(database_url) as other:
        await other.put("/dirs/d", {"name": "n"})
        await change(node, source(group={"attributes": OWNER}))
        assert (await other.put("/dirs/d", {"owner": "me"}))["owner"] == "me"
        await node.put("/dirs/d", {"name": "n"})
        await change(node, source())
        answer = await other.send("PUT", "/dirs/d", {"owner": "me"})
        assert answer.error == "unknown_attribute"
        await node.send("DELETE", "/dirs/d")
        await change(node, {})
        assert (await other.send("PUT", "/dirs/d", {})).error == "unknown_group_type"
        assert (await other.send("DELETE", "/dirs/d")).error == "unknown_group_type"


async def test_two_processes_change_the_model_one_after_the_other(
    database_url: str, node: Node
) -> None:
    async with second_process(database_url) as other:
        answers = await asyncio.gather(
            *(
                each.send("PATCH", "/", {"modelsource": {"groups": {f"g{n}s": {"singular": "g"}}}})
                for n, each in enumerate((node, other) * 3)
            )
        )
        assert {answer.status for answer in answers} <= {200, 503}
        async with asyncio.timeout(10):
            await asyncio.gather(node.context.shared.reload(), other.context.shared.reload())
        assert await node.get("/modelsource") == await other.get("/modelsource")
        assert node.context.configuration.revision == sum(a.status == 200 for a in answers)


async def test_other_processes_hear_of_a_new_model(database_url: str, node: Node) -> None:
    async with second_process(database_url) as other, asyncio.timeout(20):
        loops = [
            asyncio.create_task(Watch(other.database.shared).run()),
            asyncio.create_task(follow_configuration(other.context)),
        ]
        try:
            assert "zooscount" not in await other.get("/")
            await change(node, {"groups": {"zoos": {"singular": "zoo"}}})
            while "zooscount" not in await other.get("/"):
                await asyncio.sleep(0.01)  # between two looks
        finally:
            for loop in loops:
                loop.cancel()
            await asyncio.wait(loops)


async def test_an_interaction_and_a_change_of_the_model_wait_for_each_other(node: Node) -> None:
    """Whatever the order, nothing is left that the model in force does not define."""
    await change(node, source(group={"attributes": OWNER}))
    writers = [node.send("PUT", f"/dirs/d{n}", {"owner": "me"}) for n in range(20)]
    changes = [node.send("PUT", "/modelsource", source())]
    answers = await asyncio.gather(*writers[:10], *changes, *writers[10:])
    outcome = answers[10]
    written = [answer for answer in answers if answer.status == 201]
    if outcome.status == 200:
        assert not written
    else:
        assert outcome.error == "model_compliance_error"
        assert written


async def test_a_client_that_states_every_name_can_add_types_to_what_it_read(
    other_database_url: str,
) -> None:
    """A client may hold a model in structures of its own, whose names are empty, not absent."""
    async with start_node(other_database_url) as node:
        model = await node.get("/modelsource")
        for group in model["groups"].values():
            group["plural"] = ""
            for kind in group.get("resources", {}).values():
                kind |= {"plural": "", "maxversions": kind.get("maxversions", 0)}
        model["groups"]["dirs"] = {"plural": "dirs", "singular": "dir"}
        await change(node, model)
        model = await node.get("/modelsource")
        model["groups"]["dirs"]["resources"] = {"files": {"plural": "", "singular": "file"}}
        await change(node, model)
        await node.put("/dirs/d/files/f$details", {"file": "text"})
        named = {
            plural: group["plural"]
            for plural, group in (await node.get("/model"))["groups"].items()
        }
    assert named == {
        plural: plural for plural in ("endpoints", "messagegroups", "schemagroups", "dirs")
    }


@pytest.mark.parametrize("plural", ["other", 0, False, []])
async def test_a_plural_that_differs_from_its_key_is_refused(node: Node, plural: Any) -> None:
    answer = await node.send("PUT", "/modelsource", source(group={"plural": plural}))
    assert (answer.status, answer.error) == (400, "model_error")
