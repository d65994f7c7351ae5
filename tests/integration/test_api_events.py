"""The events of each kind of write: the samples of core/events.md, and what they leave open."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.subscriptions.delivery.eventdialects import events_of
from tests.integration.conftest import Node, fresh_node

FILES: dict[str, Any] = {
    "files": {
        "singular": "file",
        "hasdocument": False,
        "metaattributes": {"compatibilityauthority": {"type": "string"}},
    },
    "papers": {"singular": "paper"},
}
SOURCE = {"groups": {"dirs": {"singular": "dir", "resources": FILES}}}
DIR = "/dirs/d1"
FILE = f"{DIR}/files/f1"
V1, V2 = f"{FILE}/versions/v1", f"{FILE}/versions/v2"

UPDATED = {"epoch", "modifiedat"}
META = {"meta.epoch", "meta.modifiedat"}
CHILD = {*META, "versions", "versionscount"}
MOVED = {
    "meta.defaultversionid",
    "versionid",
    "epoch",
    "isdefault",
    "createdat",
    "modifiedat",
    "ancestorid",
}

Seen = dict[tuple[str, str], set[str] | None]

node = fresh_node(modelsource=SOURCE)


async def events(node: Node, method: str, path: str, body: Any = None) -> Seen:
    """The events of one request: what happened to what, and what changed there."""
    known = await node.logged()
    answer = await node.send(method, path, body)
    assert answer.status in (200, 201, 204), answer.body
    seen: Seen = {}
    for logged in (await node.changes())[known:]:
        assert logged.interaction == answer.headers["xRegistry-xregcorrelationid"]
        for event in events_of(logged, source=node.url):
            data = event.get_data()
            assert isinstance(data, dict)
            what = str(event.get_type()).removeprefix("io.xregistry.")
            key = (what, str(event.get_subject()))
            assert key not in seen, "one event for each type and subject"
            seen[key] = {*data["changed"]} if "changed" in data else None
    return seen


async def begin(node: Node, *versions: str, sticky: bool = False) -> None:
    await node.send("POST", f"{FILE}/versions", {vid: {} for vid in versions or ("v1",)})
    if sticky:
        await node.send("PATCH", f"{FILE}/meta", {"defaultversionid": "v1"})


async def test_update_a_registry_attribute(node: Node) -> None:
    """core/events.md, "Update a Registry attribute"."""
    assert await events(node, "PATCH", "/", {"name": "foo"}) == {
        ("registry.updated", "/"): {*UPDATED, "name"}
    }


async def test_create_a_tree_of_entities(node: Node) -> None:
    """core/events.md, "Create a tree of entities"."""
    assert await events(node, "PUT", V1, {}) == {
        ("registry.updated", "/"): {*UPDATED, "dirs", "dirscount"},
        ("group.created", DIR): None,
        ("resource.created", FILE): None,
        ("version.created", V1): None,
    }


@pytest.mark.parametrize("path", [FILE, V1])
async def test_update_an_attribute_of_the_default_version(node: Node, path: str) -> None:
    """core/events.md, "Update a Resource attribute" and "Update a Version attribute"."""
    await begin(node)
    changed = {*UPDATED, "name"}
    assert await events(node, "PATCH", path, {"name": "foo"}) == {
        ("resource.updated", FILE): changed,
        ("version.updated", V1): changed,
    }


async def test_update_an_attribute_of_another_version(node: Node) -> None:
    """core/events.md, "Update a Version attribute (not the default Version)"."""
    await begin(node, "v1", "v2", sticky=True)
    assert await events(node, "PATCH", V2, {"name": "foo"}) == {
        ("version.updated", V2): {*UPDATED, "name"}
    }


async def test_update_the_meta_of_a_resource(node: Node) -> None:
    """core/events.md, "Update a Resource's meta sub-object"."""
    await begin(node)
    body = {"compatibilityauthority": "server"}
    assert await events(node, "PATCH", f"{FILE}/meta", body) == {
        ("resource.updated", FILE): {*META, "meta.compatibilityauthority"}
    }


async def test_deprecate_a_resource(node: Node) -> None:
    """core/events.md, "Update a Resource's meta sub-object and deprecate the Resource"."""
    await begin(node)
    deprecated = {"removal": "2031-01-01T00:00:00Z"}
    body = {"compatibilityauthority": "server", "deprecated": deprecated}
    assert await events(node, "PATCH", f"{FILE}/meta", body) == {
        ("resource.updated", FILE): {*META, "meta.compatibilityauthority", "meta.deprecated"},
        ("resource.deprecation", FILE): {"removal"},
    }
    updated = ("resource.updated", FILE)
    assert await events(node, "PATCH", f"{FILE}/meta", {"deprecated": {}}) == {
        updated: {*META, "meta.deprecated"},
        ("resource.deprecation", FILE): {"removal"},
    }
    assert await events(node, "PATCH", f"{FILE}/meta", {"deprecated": None}) == {
        updated: {*META, "meta.deprecated"},
        ("resource.deprecation", FILE): set(),
    }
    assert await events(node, "PATCH", f"{FILE}/meta", {}) == {updated: META}


async def test_deprecate_a_group(node: Node) -> None:
    """core/events.md, "group Events", also as it is created."""
    deprecated = {"effective": "2031-01-01T00:00:00Z"}
    assert await events(node, "PUT", DIR, {"deprecated": deprecated}) == {
        ("registry.updated", "/"): {*UPDATED, "dirs", "dirscount"},
        ("group.created", DIR): None,
        ("group.deprecation", DIR): {"effective"},
    }
    assert await events(node, "PUT", DIR, {}) == {
        ("group.updated", DIR): {*UPDATED, "deprecated"},
        ("group.deprecation", DIR): {"effective"},
    }


async def test_import_an_entire_registry(node: Node) -> None:
    """core/events.md, "Import an entire Registry"."""
    groups = {**SOURCE["groups"], "shelves": {"singular": "shelf"}}
    body = {
        "name": "all",
        "modelsource": {"groups": groups},
        "capabilities": {"flags": ["inline"]},
        "dirs": {"d1": {"files": {"f1": {"versions": {"v1": {}, "v2": {}}}}}},
        "shelves": {"s1": {}},
    }
    seen = await events(node, "PUT", "/", body)
    registry = seen.pop(("registry.updated", "/"))
    assert registry is not None
    collections = {"dirs", "dirscount", "shelves", "shelvescount"}
    configured = {"model", "modelsource", "capabilities"}
    assert registry == {*UPDATED, "name", *collections, *configured}
    assert {*seen} == {
        ("model.updated", "/model"),
        ("modelsource.updated", "/modelsource"),
        ("capabilities.updated", "/capabilities"),
        ("group.created", DIR),
        ("group.created", "/shelves/s1"),
        ("resource.created", FILE),
        ("version.created", V1),
        ("version.created", V2),
    }
    assert seen["model.updated", "/model"] is None
    assert seen["modelsource.updated", "/modelsource"] is None
    assert "flags" in (seen["capabilities.updated", "/capabilities"] or ())


@pytest.mark.parametrize(("method", "path"), [("PUT", V2), ("POST", FILE)])
async def test_create_a_version_that_becomes_default(node: Node, method: str, path: str) -> None:
    """core/events.md, "Create a new Version - non-sticky"."""
    await begin(node)
    body = {} if method == "PUT" else {"versionid": "v2"}
    assert await events(node, method, path, body) == {
        ("resource.updated", FILE): CHILD | MOVED,
        ("version.created", V2): None,
    }


@pytest.mark.parametrize(("method", "path"), [("PUT", V2), ("POST", FILE)])
async def test_create_a_version_that_does_not(node: Node, method: str, path: str) -> None:
    """core/events.md, "Create a new Version - sticky"."""
    await begin(node, sticky=True)
    body = {} if method == "PUT" else {"versionid": "v2"}
    assert await events(node, method, path, body) == {
        ("resource.updated", FILE): CHILD,
        ("version.created", V2): None,
    }


async def test_change_which_version_is_default(node: Node) -> None:
    """core/events.md, "Change defaultversionid pointer": both versions' attributes."""
    body = {"v1": {"name": "one"}, "v2": {"description": "two"}}
    await node.send("POST", f"{FILE}/versions", body)
    changed = {*META, *MOVED, "meta.defaultversionsticky", "name", "description"}
    assert await events(node, "PATCH", f"{FILE}/meta", {"defaultversionid": "v1"}) == {
        ("resource.updated", FILE): changed
    }
    changed.remove("meta.defaultversionsticky")
    assert await events(node, "PATCH", f"{FILE}/meta", {"defaultversionid": "v2"}) == {
        ("resource.updated", FILE): changed
    }


async def test_documents_are_named_as_their_attribute_is(node: Node) -> None:
    """core/events.md, "data": a document is an attribute of its version."""
    paper = f"{DIR}/papers/p"
    await node.request("PUT", f"{paper}/versions/1", body=b"1")
    seen = await events(node, "PATCH", f"{paper}$details", {"paperbase64": "Mg=="})
    changed = {*UPDATED, "paper", "contenttype"}
    assert seen == {
        ("resource.updated", paper): changed,
        ("version.updated", f"{paper}/versions/1"): changed,
    }
    seen = await events(node, "POST", f"{paper}$details", {})
    assert "paper" in (seen["resource.updated", paper] or ())


async def test_delete_a_group(node: Node) -> None:
    """core/events.md, "Delete a Group"."""
    await begin(node, "v1", "v2")
    assert await events(node, "DELETE", DIR) == {
        ("registry.updated", "/"): {*UPDATED, "dirs", "dirscount"},
        ("group.deleted", DIR): None,
        ("resource.deleted", FILE): None,
        ("version.deleted", V1): None,
        ("version.deleted", V2): None,
    }


async def test_delete_a_resource(node: Node) -> None:
    """core/events.md, "resource Events"."""
    await begin(node)
    assert await events(node, "DELETE", FILE) == {
        ("group.updated", DIR): {*UPDATED, "files", "filescount"},
        ("resource.deleted", FILE): None,
        ("version.deleted", V1): None,
    }


async def test_delete_a_version(node: Node) -> None:
    """core/events.md, "version Events": the resource, and who descended from it, change."""
    await begin(node, "v1", "v2", sticky=True)
    seen = await events(node, "DELETE", V1)
    assert seen == {
        ("resource.updated", FILE): CHILD | MOVED | {"meta.defaultversionsticky"},
        ("version.deleted", V1): None,
        ("version.updated", V2): {*UPDATED, "ancestorid"},
    }


async def test_several_reasons_make_one_event(node: Node) -> None:
    """core/events.md, "data": all that changed in one interaction is merged."""
    await begin(node)
    body = {
        "name": "n",
        "meta": {"labels": {"a": "b"}},
        "versions": {"v2": {"name": "two"}},
    }
    seen = await events(node, "PATCH", FILE, body)
    assert seen == {
        ("resource.updated", FILE): CHILD | MOVED | {"name", "meta.labels"},
        ("version.updated", V1): {*UPDATED, "name"},
        ("version.created", V2): None,
    }


async def test_creating_a_group_tells_its_client_the_correlation_id(node: Node) -> None:
    """core/events.md, "Creating a Group with a complete client HTTP message exchange"."""
    answer = await node.send("PUT", DIR, {})
    assert answer.status == 201
    ids = {logged.interaction for logged in (await node.changes())[-2:]}
    assert ids == {answer.headers["xRegistry-xregcorrelationid"]}
    times = {logged.at for logged in (await node.changes())[-2:]}
    assert len(times) == 1
    (time,) = times
    assert answer.json["createdat"] == answer.json["modifiedat"]
    assert answer.json["createdat"].startswith(time.strftime("%Y-%m-%dT%H:%M:%S"))


async def test_becoming_a_cross_reference_and_an_ordinary_resource_again(node: Node) -> None:
    """core/spec.md, "Cross Referencing Resources": what a resource shows is another's."""
    target = f"{DIR}/files/target"
    await node.put(f"{target}/versions/t1", {"description": "d"})
    await begin(node)
    await node.send("PATCH", V1, {"name": "n"})
    seen = await events(node, "PATCH", f"{FILE}/meta", {"xref": target})
    assert seen == {
        ("resource.updated", FILE): CHILD
        | MOVED
        | {"meta.xref", "meta.defaultversionsticky", "name", "description"},
        ("version.deleted", V1): None,
    }
    seen = await events(node, "PATCH", f"{FILE}/meta", {"xref": None})
    created = f"{FILE}/versions/1"
    assert seen == {
        ("resource.updated", FILE): CHILD
        | MOVED
        | {"meta.xref", "meta.defaultversionsticky", "description"},
        ("version.created", created): None,
    }
