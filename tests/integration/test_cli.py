"""The `concord` command, run against a small server that answers as a node would."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import web
from typer.main import get_command
from typer.testing import CliRunner, Result

from catalog.cli import app
from catalog.commands import console
from tests.integration.federation import LINK

MODEL = {"groups": {"messagegroups": {"resources": {"messages": {}}}}}


STATUS = {
    "state": "active",
    "createdat": "2026-01-01T00:00:00Z",
    **dict.fromkeys(("failures", "delivered", "failed", "failedattempts", "lag", "lagseconds"), 0),
    "deadletters": {},
}


@dataclass
class FakeNode:
    """A node that refuses what is called `bad`, breaks off at what is called `lost`, and
    remembers what it was sent.
    """

    url: str = ""
    imported: list[dict[str, Any]] = field(default_factory=list)
    links: list[dict[str, Any]] = field(default_factory=list)
    changed_links: list[tuple[str, Any]] = field(default_factory=list)
    subscriptions: list[dict[str, Any]] = field(default_factory=list)
    models: list[Any] = field(default_factory=list)
    replicas: dict[str, str] = field(default_factory=dict)
    capabilities: dict[str, Any] = field(default_factory=lambda: {"pagination": True})

    async def put_model(self, request: web.Request) -> web.Response:
        source = await request.json()
        if "bad" in source.get("groups", {}):
            found = [_violation("/bads/b")]
            problem = {"type": "m", "title": "Some do not comply.", "violations": found}
            return web.json_response(problem, status=400)
        self.models.append(source)
        return web.json_response(source)

    async def set_capabilities(self, request: web.Request) -> web.Response:
        self.capabilities |= await request.json()
        return web.json_response(self.capabilities)

    async def get_capabilities(self, _: web.Request) -> web.Response:
        return web.json_response(self.capabilities)

    async def import_(self, request: web.Request) -> web.Response:
        groups = await request.json()
        if [*groups] != ["messagegroups"]:
            return web.json_response(_violation("/"), status=400)
        if b'"lost' in await request.read():
            assert request.transport is not None
            request.transport.abort()
        if b'"huge' in await request.read():
            return web.json_response({"title": "It is too large."}, status=413)
        violations = [
            _violation(f"/messagegroups/{gid}/messages/{mid}/versions/1")
            for gid, group in groups["messagegroups"].items()
            for mid in group["messages"]
            if mid.startswith("bad")
        ]
        violations += [
            _violation(f"/messagegroups/{gid}/messages/{mid}")
            | {"args": {"authority": self.replicas[mid]}, "detail": "?ignore=readonly"}
            for gid, group in groups["messagegroups"].items()
            for mid in group["messages"]
            if mid in self.replicas
        ]
        if violations:
            problem = {**violations[0], "violations": violations}
            return web.json_response(problem, status=400)
        if "dryrun" not in request.query:
            self.imported.append(groups)
        return web.json_response({"created": 1, "updated": 0, "changes": []})

    async def list_links(self, _: web.Request) -> web.Response:
        return web.json_response({"links": [LINK | link for link in self.links]})

    async def add_link(self, request: web.Request) -> web.Response:
        self.links.append({"id": "generated", **await request.json()})
        found = {} if "force" in request.query else {"found": FOUND}
        return web.json_response({**LINK, **self.links[-1], **found}, status=201)

    async def show_link(self, _: web.Request) -> web.Response:
        return web.json_response(LINK | self.links[-1])

    async def change_link(self, request: web.Request) -> web.Response:
        body = await request.json() if request.can_read_body else None
        self.changed_links.append((f"{request.method} {request.path_qs}", body))
        authority = (body or {}).get("authority")
        return web.json_response(LINK | {"authority": authority, "allowed": 1045})

    async def add_subscription(self, request: web.Request) -> web.Response:
        self.subscriptions.append({**await request.json(), "id": "s1"})
        return web.json_response({**self.subscriptions[-1], "status": STATUS}, status=201)


def _violation(subject: str) -> dict[str, Any]:
    return {"type": "t", "title": "An unknown attribute (x).", "subject": subject, "detail": ""}


@pytest.fixture
def node() -> Iterator[FakeNode]:
    """The fake node, served from a thread of its own since the commands own their loop."""
    fake = FakeNode()
    loop = asyncio.new_event_loop()
    started, stopped = threading.Event(), asyncio.Event()

    async def serve() -> None:
        server = web.Application()
        server.add_routes(
            [
                web.post("/apply", fake.import_),
                web.get("/apply", _always({"maxbodybytes": 10**7, "maxbodyvalues": 10**6})),
                web.get("/model", _always(MODEL)),
                web.get("/modelsource", _always({"groups": {}})),
                web.put("/modelsource", fake.put_model),
                web.get("/capabilities", fake.get_capabilities),
                web.patch("/capabilities", fake.set_capabilities),
                web.get("/capabilitiesoffered", _always({"flags": {"type": "array"}})),
                web.get("/export", _always(EXPORT)),
                web.get("/replication/links", fake.list_links),
                web.get("/-/authorities", _always({"authorities": []})),
                web.post("/replication/links", fake.add_link),
                web.post("/replication/links/eu/{action}", fake.change_link),
                web.get("/replication/links/eu", fake.show_link),
                web.patch("/replication/links/eu", fake.change_link),
                web.delete("/replication/links/eu", fake.change_link),
                web.post("/subscriptions", fake.add_subscription),
            ]
        )
        runner = web.AppRunner(server)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        started.set()
        await stopped.wait()
        await runner.cleanup()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    assert started.wait(10)
    yield fake
    loop.call_soon_threadsafe(stopped.set)
    thread.join(10)
    loop.close()


FOUND = {
    "authority": "urn:hub",
    "software": "concord/1",
    "digestversion": 1,
    "entities": 7,
    "followedby": ["east"],
}
EXPORT = {
    "registryid": "r",
    "messagegroups": {"g": {"name": "G", "messages": {"a": {"name": "A"}, "b": {}}}, "h": {}},
}


def _always(value: Any) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def answer(_: web.Request) -> web.Response:
        return web.json_response(value)

    return answer


@pytest.fixture
def concord(node: FakeNode) -> Callable[..., Result]:
    """Run a command against the fake node."""
    return lambda *arguments: CliRunner().invoke(app, arguments, env={"CONCORD_URL": node.url})


@pytest.fixture
def document(tmp_path: Path) -> Callable[..., str]:
    """Write a document with one group of these messages."""

    def write(*messages: str, name: str = "d.json", **more: Any) -> str:
        groups = {"g": {"messages": {message: {} for message in messages}}}
        path = tmp_path / name
        path.write_bytes(orjson.dumps({"messagegroups": groups, **more}))
        return str(path)

    return write


def test_only_the_groups_of_a_document_are_imported(concord, node, document) -> None:
    result = concord("import", document("good", description="Mine", documentation={"a": "b"}))
    assert result.exit_code == 0
    assert node.imported == [{"messagegroups": {"g": {"messages": {"good": {}}}}}]
    assert "messagegroups 1, messages 1" in result.stdout
    assert "description, documentation" in result.stderr


def test_an_import_reports_every_violation_and_writes_nothing(concord, node, document) -> None:
    result = concord("import", document("good", "bad1", "bad2"))
    assert result.exit_code == 1
    assert node.imported == []
    for message in ("bad1", "bad2"):
        assert f"/messagegroups/g/messages/{message}/versions/1" in result.stdout
    assert "An unknown attribute (x)." in result.stdout


def test_keep_going_imports_what_obeys_and_lists_what_was_left_out(concord, node, document) -> None:
    result = concord("import", "--keep-going", "--json", document("good", "bad1", "bad2"))
    assert result.exit_code == 1
    assert node.imported == [{"messagegroups": {"g": {"messages": {"good": {}}}}}]
    [told] = orjson.loads(result.stdout)
    assert told["imported"] is True
    assert told["leftout"] == [f"/messagegroups/g/messages/{name}" for name in ("bad1", "bad2")]
    assert len(told["violations"]) == 2


def test_yaml_is_imported_and_what_looks_like_a_time_stays_text(concord, node, tmp_path) -> None:
    path = tmp_path / "d.yaml"
    path.write_text("messagegroups: {g: {createdat: 2024-01-01T00:00:00Z, messages: {a: {}}}}")
    assert concord("import", str(path)).exit_code == 0
    [sent] = node.imported
    assert sent["messagegroups"]["g"]["createdat"] == "2024-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "not valid JSON"), ("[]", "not an xRegistry document"), ("{}", "holds no groups")],
)
def test_a_file_that_is_no_document_is_refused_before_anything_is_sent(
    concord, node, document, tmp_path, text: str, reason: str
) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text(text)
    result = concord("import", document("good"), str(wrong))
    assert result.exit_code == 2
    assert reason in result.stderr
    assert node.imported == []


def test_a_missing_file_is_said_in_one_sentence(concord) -> None:
    result = concord("import", "/nowhere.json")
    assert result.exit_code == 2
    assert result.stderr == "Error: /nowhere.json cannot be read: No such file or directory.\n"


OLDER = {
    "definitionGroups": {"g": {"createdBy": "J", "definitions": {"good": {"schemaurl": "/s"}}}},
}


def test_older_names_that_the_node_keeps_are_told_and_no_more(concord, node, tmp_path) -> None:
    path = tmp_path / "older.xreg.json"
    groups = {"messagegroups": {"g": {"messages": {"good": {"schemaurl": "/s"}}}}}
    path.write_bytes(orjson.dumps({"specversion": "0.5-wip", **groups}))
    result = concord("import", str(path))
    assert result.exit_code == 0
    assert node.imported == [groups]
    told = "Of edition 0.5, with older names (1): the schema of a message is its dataschema (1)."
    assert told in result.stdout
    listed = concord("import", "--verbose", str(path)).stdout
    assert "/messagegroups/g/messages/good/schemaurl: schemaurl → dataschemauri" in listed
    [json] = orjson.loads(concord("import", "--json", str(path)).stdout)
    assert [each["pointer"] for each in json["older"]] == [
        "/messagegroups/g/messages/good/schemaurl"
    ]


def test_what_would_be_lost_is_refused_and_listed(concord, node, tmp_path) -> None:
    path = tmp_path / "losing.xreg.json"
    message = {"name": "N", "versions": {"1": {}}}
    path.write_bytes(orjson.dumps({"messagegroups": {"g": {"messages": {"good": message}}}}))
    result = concord("import", str(path))
    assert result.exit_code == 1
    assert node.imported == []
    assert "lose or misread (1)" in result.stdout
    assert "/messagegroups/g/messages/good/name\n" in result.stdout
    assert "--migrate" in result.stderr
    assert "--keep-going" not in result.stderr
    [told] = orjson.loads(concord("import", "--json", str(path)).stdout)
    assert (told["state"], told["losses"][0]["value"]) == ("refused", "N")
    assert concord("import", "--migrate", str(path)).exit_code == 0
    assert node.imported[0]["messagegroups"]["g"]["messages"]["good"]["versions"] == {
        "1": {"name": "N"}
    }


def test_an_older_edition_that_the_node_refuses_can_be_migrated(concord, node, tmp_path) -> None:
    path = tmp_path / "older.cereg"
    path.write_bytes(orjson.dumps({"specversion": "0.4-wip", **OLDER}))
    result = concord("import", str(path))
    assert result.exit_code == 1
    assert node.imported == []
    assert "edition 0.4" in result.stdout
    assert "--migrate" in result.stderr


@pytest.mark.parametrize(("option", "kept"), [("--migrate", False), ("--keep-unknown", True)])
def test_an_older_edition_is_migrated_and_each_rewrite_is_told(
    concord, node, tmp_path, option: str, kept: bool
) -> None:
    path = tmp_path / "older.cereg.yaml"
    path.write_text("definitionGroups: {g: {createdBy: J, definitions: {good: {schemaurl: /s}}}}\n")
    result = concord("import", option, "--json", str(path))
    assert result.exit_code == 0
    own = {"older": {"createdBy": "J"}} if kept else {}
    assert node.imported == [
        {"messagegroups": {"g": {**own, "messages": {"good": {"dataschemauri": "/s"}}}}}
    ]
    [told] = orjson.loads(result.stdout)
    assert (told["edition"], told["older"]) == ("0.5", [])
    assert {
        "pointer": "/definitionGroups/g/definitions/good/schemaurl",
        "old": "schemaurl",
        "new": "dataschemauri",
        "rule": "the schema of a message is its dataschema",
    } in told["rewrites"]
    [left] = told["notrewritten"]
    assert (left["pointer"], left["kept"]) == ("/definitionGroups/g/createdBy", kept)
    shown = concord("import", option, "--verbose", str(path)).stdout
    assert "/definitionGroups/g/createdBy: the standard no longer tells" in shown
    assert "definitionGroups → messagegroups" in shown
    summary = concord("import", option, str(path)).stdout
    assert "Rewritten from edition 0.5 (3): collections have other names now (2); " in summary
    assert len(summary.splitlines()) == 3


def test_documents_are_told_as_they_are_done_and_then_all_together(
    concord, node, document, tmp_path
) -> None:
    document("good", name="a.xreg.json")
    document("bad", name="b.xreg.json")
    document("good", "more", name="c.xreg.json")
    result = concord("import", str(tmp_path))
    assert result.exit_code == 1
    assert [line.partition(" /")[0] for line in result.stdout.splitlines() if line[0] != " "] == [
        "Imported",
        "Not imported",
        "Imported",
        "Imported 2 of 3 documents: messagegroups 2, messages 3.",
    ]
    quiet = concord("import", "--quiet", str(tmp_path / "*.json")).stdout
    assert [line for line in quiet.splitlines() if line[0] != " "] == [
        f"Not imported {tmp_path}/b.xreg.json: nothing of it was written."
    ]
    assert concord("import", "--quiet", str(tmp_path / "a.xreg.json")).output == ""


def test_the_owner_of_replicas_is_named_once_by_the_link_that_they_come_from(
    concord, node, document
) -> None:
    node.links = [{"id": "eu", "source": "https://eu.example", "authority": "urn:uuid:1"}]
    node.replicas = {"a": "urn:uuid:1", "b": "urn:uuid:1", "c": "https://us.example"}
    result = concord("import", document("a", "b", "c"))
    assert result.exit_code == 1
    place = "    /messagegroups/g/messages/"
    told = (
        "  Replicas, which only https://eu.example (link eu) may change (2):\n"
        f"{place}a\n{place}b\n"
        "  Replicas, which only https://us.example may change (1):\n"
        f"{place}c\n"
    )
    assert told in result.stdout
    assert "ignore=" not in result.output


def test_a_lost_connection_ends_with_what_was_done_what_is_in_doubt_and_what_was_not_sent(
    concord, node, document
) -> None:
    names = [document(message, name=f"{message}.json") for message in ("a", "lost", "b", "c")]
    result = concord("import", *names)
    assert result.exit_code == 2
    assert f"Imported {names[0]}: messagegroups 1, messages 1." in result.stdout
    assert f"In doubt: {names[1]} " in result.stderr
    assert f"Not sent: {names[2]} and the 1 after it." in result.stderr
    told = concord("import", "--json", *names)
    assert told.exit_code == 2
    states = [each["state"] for each in orjson.loads(told.stdout)]
    assert states == ["imported", "in doubt", "not sent", "not sent"]


def test_what_a_node_refuses_for_a_reason_of_its_own_is_not_in_doubt(
    concord, node, document
) -> None:
    result = concord("import", document("huge", name="h.json"), document("a", name="a.json"))
    assert result.exit_code == 2
    assert "It is too large." in result.stderr
    assert "Not imported: " in result.stderr
    assert "Not sent: " in result.stderr


# Each line has ten of those of the line before.
LAUGHS = "a: &a0 [x]\n" + "".join(
    f"b{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("deep.json", "[" * 100, "deeper than 64"),
        ("deep.yaml", "[" * 100, "deeper than 64"),
        ("laughs.yaml", LAUGHS, "aliases stand for more than"),
        ("twice.yaml", "a: 1\nb: {c: 1, c: 2}", "the key 'c' is there twice"),
        ("twice.json", '{"a": 1, "b": {"c": 1, "c": 2}}', "the key 'c' is there twice"),
        ("code.yaml", "a: !!python/name:os.system", "not valid YAML"),
    ],
)
def test_a_hostile_file_is_refused(concord, node, tmp_path, name, text, reason) -> None:
    text += "]" * text.count("[") if name.startswith("deep") else ""
    (tmp_path / name).write_text(text)
    result = concord("import", str(tmp_path / name))
    assert result.exit_code == 2
    assert reason in result.stderr
    assert node.imported == []


def test_a_file_that_is_too_large_is_not_even_read(concord, node, tmp_path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        file.truncate(64 * 1024 * 1024 + 1)
    result = concord("import", str(path))
    assert result.exit_code == 2
    assert "larger than 64 MiB" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "name", "begins"),
    [
        ((), "a.json", '{\n  "registryid"'),
        ((), "a.xreg.yaml", "registryid: r\n"),
        ((), "a.cereg", '{\n  "$schema": "https://cloudevents.io/schemas/registry",\n'),
        ((), "a.cereg.yml", "$schema: https://cloudevents.io/schemas/registry\n"),
        (("--edition", "0.5"), "a.yaml", "specversion: 0.5-wip\n"),
        (("--format", "xreg.yaml", "--edition", "rc1"), "a.json", "specversion: 1.0-rc1\n"),
    ],
)
def test_an_export_is_of_the_format_and_edition_that_are_asked_for(
    concord, tmp_path, arguments: tuple[str, ...], name: str, begins: str
) -> None:
    path = tmp_path / name
    assert concord("export", *arguments, "-o", str(path)).exit_code == 0
    assert path.read_text().startswith(begins)


@pytest.mark.parametrize("arguments", [("--format", "xml"), ("--edition", "0.3")])
def test_there_are_no_other_formats_and_editions(concord, arguments: tuple[str, ...]) -> None:
    result = concord("export", *arguments)
    assert result.exit_code == 2
    assert "Name one of" in result.stderr


def test_the_whole_catalog_is_exported_into_a_file(concord, tmp_path) -> None:
    path = tmp_path / "all.json"
    assert concord("export", "-o", str(path)).exit_code == 0
    assert orjson.loads(path.read_bytes()) == EXPORT


def test_a_link_is_added_with_what_its_source_turned_out_to_be(concord, node) -> None:
    said = concord("link", "add", "http://hub").stdout
    assert "It is the authority urn:hub (concord/1, digests of version 1, 7 entities)." in said
    assert "Note: link east follows this authority already." in said
    said = concord("link", "add", "http://hub", "--force").stdout
    assert "follow http://hub, which was not asked who it is" in said
    assert "urn:hub" not in said


def test_a_link_is_what_a_file_says_but_for_other_options(concord, node, tmp_path) -> None:
    file = tmp_path / "eu.yaml"
    file.write_text(
        "source: http://hub\nscope: [/messagegroups/eu]\nmap: {messagegroups/a: messagegroups/b}\n"
    )
    assert concord("link", "add", "-f", str(file), "--id", "eu").exit_code == 0
    assert concord("link", "add", "-f", str(file), "--scope", "/endpoints/e").exit_code == 0
    [first, second] = node.links
    assert (first["id"], first["source"]) == ("eu", "http://hub")
    assert first["scope"] == ["/messagegroups/eu"]
    assert first["map"] == {"messagegroups/a": "messagegroups/b"}
    assert second["scope"] == ["/endpoints/e"]
    for text, said in (
        ("[]", "no object"),
        ("sauce: http://hub\n", "sauce"),
        ("mode: [", "not valid"),
    ):
        file.write_text(text)
        result = concord("link", "add", "-f", str(file))
        assert result.exit_code == 2
        assert said in result.stderr
    assert len(node.links) == 2


def test_a_link_relays_for_all_authorities_if_asked(concord, node) -> None:
    assert concord("link", "add", "http://hub", "--relay", "--id", "hub").exit_code == 0
    [link] = node.links
    assert link["authorities"] == ["*"]
    assert (link["id"], link["source"]) == ("hub", "http://hub")
    assert "mode" not in link, "the node chooses"


def test_a_link_is_pinned_to_the_authority_that_is_named(concord, node) -> None:
    assert concord("link", "add", "http://hub", "--pin", "urn:hub").exit_code == 0
    assert node.links[0]["authority"] == "urn:hub"
    assert "authorities" not in node.links[0]
    assert "pinned to urn:other" in concord("link", "set", "eu", "--pin", "urn:other").stdout
    assert node.changed_links == [("PATCH /replication/links/eu", {"authority": "urn:other"})]


def test_a_link_is_paused_resumed_and_run(concord, node) -> None:
    assert "eu is paused" in concord("link", "pause", "eu", "--reason", "at night").stdout
    for command, said in (("pause", "is paused"), ("resume", "runs"), ("run", "reads its source")):
        assert f"Link eu {said}" in concord("link", command, "eu").stdout
    eu = "PATCH /replication/links/eu"
    assert node.changed_links == [
        (eu, {"paused": True, "reason": "at night"}),
        (eu, {"paused": True, "reason": None}),
        (eu, {"paused": False}),
        ("POST /replication/links/eu/run", None),
    ]


def test_a_link_is_reset_and_removed_with_its_replicas_or_without(concord, node) -> None:
    for options in ((), ("--drop",), ("--drop", "--authority", "urn:a"), ("--full",)):
        assert concord("link", "reset", "eu", *options).exit_code == 0
    for options in ((), ("--drop",)):
        assert concord("link", "remove", "eu", *options).exit_code == 0
    reset, removed = "POST /replication/links/eu/reset", "DELETE /replication/links/eu"
    assert node.changed_links == [
        (reset, {"drop": False, "authorities": [], "full": False}),
        (reset, {"drop": True, "authorities": [], "full": False}),
        (reset, {"drop": True, "authorities": ["urn:a"], "full": False}),
        (reset, {"drop": False, "authorities": [], "full": True}),
        (removed, None),
        (f"{removed}?drop=", None),
    ]


def test_a_link_is_allowed_what_it_stopped_for(concord, node) -> None:
    assert "may delete 1,045 entities" in concord("link", "allow", "eu", "3f2a").stdout
    assert node.changed_links == [("PATCH /replication/links/eu", {"allow": "3f2a"})]


def test_a_link_pushes_to_the_catalog_that_is_named(concord, node) -> None:
    said = concord("link", "add", "--push", "http://hub", "--scope", "/messagegroups/g").stdout
    assert "pushes to http://hub." in said
    assert "follows this authority" not in said
    [link] = node.links
    assert (link["target"], link["mode"], link["scope"]) == (
        *("http://hub", "push"),
        ["/messagegroups/g"],
    )
    assert "source" not in link
    said = concord("link", "add", "--push", "http://hub", "--force").stdout
    assert "is added to push to http://hub, which was not asked who it is." in said


def test_a_link_writes_to_the_server_that_is_named(concord, node) -> None:
    named = ("--write", "http://any", "--dialect", "discovery", "--id", "out")
    assert "Link out writes to " in concord("link", "add", *named).stdout
    [link] = node.links
    assert (link["target"], link["mode"], link["dialect"]) == ("http://any", "write", "discovery")
    assert "source" not in link


@pytest.mark.parametrize(
    "urls",
    [(), ("http://a", "--push", "http://b"), ("--write", "http://a", "--push", "http://b")],
)
def test_a_link_either_follows_or_pushes(concord, node, urls: tuple[str, ...]) -> None:
    result = concord("link", "add", *urls)
    assert result.exit_code == 2
    assert "Name the catalog to follow, the one to push to, the server" in result.stderr
    assert node.links == []


def test_a_link_leads_to_or_from_a_topic(concord, node) -> None:
    options = ("--kafka", "kafka://b:9092,c:9092/copies")
    said = concord("link", "add", *options, "--publish", "--force").stdout
    assert "is added to publish to kafka://b:9092,c:9092/copies, which was not asked" in said
    concord("link", "add", "--kafka", "kafkas://b:9093/copies", "--pin", "urn:eu")
    concord("link", "add", "--kafka", "kafka://b:9092/whole")
    concord("link", "add", "--kafka", "copies")
    ends = [(each.get("source"), each.get("target"), each["mode"]) for each in node.links]
    assert ends == [
        (None, "kafka://b:9092,c:9092/copies", "publish"),
        ("kafkas://b:9093/copies", None, "kafka"),
        ("kafka://b:9092/whole", None, "kafka"),
        ("kafka:///copies", None, "kafka"),
    ]


def test_a_link_is_woken_by_a_topic_of_events(concord, node) -> None:
    concord("link", "add", "http://a", "--event-topic", "kafkas://b:9093/events")
    [link] = node.links
    assert (link["source"], link["eventtopic"]) == ("http://a", "kafkas://b:9093/events")


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("--publish",), "The topic is missing."),
        (("http://a", "--kafka", "c", "--event-topic", "e"), "A link leads to one topic."),
        (("http://a", "--kafka", "kafka://b/t"), "or a topic."),
    ],
)
def test_a_topic_is_named_once(concord, node, options, reason) -> None:
    result = concord("link", "add", *options)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert node.links == []


def test_links_are_listed_with_their_directions(concord, node, monkeypatch) -> None:
    monkeypatch.setattr(console.out, "width", 200)
    node.links += [
        {"id": "a", "source": "http://in", "mode": "pull", "direction": "in"},
        {"id": "b", "target": "http://out", "mode": "push", "direction": "out"},
        {"id": "c", "authority": "urn:eu", "mode": "accept", "direction": "in"},
    ]
    rows = [line.split()[:4] for line in concord("link", "list").stdout.splitlines()[1:]]
    assert rows == [
        ["a", "http://in", "in,", "pull"],
        ["b", "http://out", "out,", "push"],
        ["c", "urn:eu", "in,", "accept"],
    ]


def test_pushes_are_accepted(concord, node) -> None:
    said = concord("link", "accept", "urn:eu", "--scope", "/messagegroups/g", "--relay", "urn:x")
    assert "Pushes of urn:eu are accepted, as generated." in said.stdout
    assert f"concord link add --push {node.url}" in said.stdout
    [accepted] = node.links
    assert accepted == {
        "id": "generated",
        "mode": "accept",
        "authority": "urn:eu",
        "scope": ["/messagegroups/g"],
        "authorities": ["urn:eu", "urn:x"],
    }
    assert "urn:eu" in concord("link", "list").stdout


def test_links_are_listed_as_json_for_scripts(concord, node) -> None:
    node.links.append(LINK)
    assert orjson.loads(concord("link", "list", "--json").stdout) == node.links


def test_a_subscription_carries_types_filters_content_mode_and_interval(concord, node) -> None:
    result = concord(
        *("subscription", "add", "--sink", "http://s", "--type", "a", "--type", "b"),
        *("--filter", '{"prefix": {"subject": "/endpoints/"}}', "--structured"),
        *("--interval", "2.5"),
    )
    assert result.exit_code == 0
    [subscription] = node.subscriptions
    assert subscription["config"] == {"interval": 2.5}
    assert subscription["types"] == ["a", "b"]
    assert subscription["filters"] == [{"prefix": {"subject": "/endpoints/"}}]
    assert subscription["protocolsettings"] == {"contentmode": "structured"}


ADD_KAFKA = ("subscription", "add", "--protocol", "KAFKA", "--sink", "kafka://k:9092")


def test_a_subscription_carries_the_settings_of_its_protocol(concord, node) -> None:
    settings = ("topicname=events", "acks=1", 'clientid="7"', "cacertificate=a=b")
    result = concord(*ADD_KAFKA, *(part for each in settings for part in ("--setting", each)))
    assert result.exit_code == 0
    [subscription] = node.subscriptions
    assert subscription["protocol"] == "KAFKA"
    assert subscription["protocolsettings"] == {
        "topicname": "events",
        "acks": 1,
        "clientid": "7",
        "cacertificate": "a=b",
    }
    assert "sinkcredential" not in subscription


@pytest.mark.parametrize("setting", ["topicname", "=events", ""])
def test_a_setting_without_a_name_or_value_is_refused_here(concord, node, setting: str) -> None:
    result = concord(*ADD_KAFKA, "--setting", setting)
    assert result.exit_code == 2
    assert "--setting topicname=events" in result.stderr
    assert node.subscriptions == []


def test_a_password_comes_from_the_environment(concord, node, monkeypatch) -> None:
    monkeypatch.setenv("CONCORD_SINK_SECRET", "s3cret")
    result = concord(*ADD_KAFKA, "--user", "bob")
    assert result.exit_code == 0
    [subscription] = node.subscriptions
    credential = {"credentialtype": "PLAIN", "identifier": "bob", "secret": "s3cret"}
    assert subscription["sinkcredential"] == credential
    assert "s3cret" not in result.output


def test_a_user_without_a_password_is_told_how_to_give_one(concord, node) -> None:
    result = concord(*ADD_KAFKA, "--user", "bob")
    assert result.exit_code == 2
    assert "CONCORD_SINK_SECRET" in result.stderr
    assert node.subscriptions == []


def test_a_credential_comes_from_a_file(concord, node, tmp_path) -> None:
    credential = {
        "credentialtype": "ACCESSTOKEN",
        "accesstoken": "t0ken",
        "accesstokenexpiresutc": "2999-01-01T00:00:00Z",
        "accesstokentype": "Bearer",
    }
    file = tmp_path / "credential.json"
    file.write_bytes(orjson.dumps(credential))
    assert concord(*ADD_KAFKA, "--credential", str(file)).exit_code == 0
    assert node.subscriptions[0]["sinkcredential"] == credential


@pytest.mark.parametrize("content", ["s3cret", '"s3cret"', "[]", ""])
def test_a_file_that_has_no_credential_is_refused_without_its_content(
    concord, node, tmp_path, content: str
) -> None:
    file = tmp_path / "credential.json"
    file.write_text(content)
    result = concord(*ADD_KAFKA, "--credential", str(file))
    assert result.exit_code == 2
    assert "is not a credential" in result.stderr
    assert "s3cret" not in result.output
    assert node.subscriptions == []


def test_a_credential_file_that_is_missing_or_one_too_many_is_told(concord, node) -> None:
    assert "cannot be read" in concord(*ADD_KAFKA, "--credential", "/nowhere").stderr
    both = concord(*ADD_KAFKA, "--credential", "/nowhere", "--user", "bob")
    assert "exclude each other" in both.stderr
    assert node.subscriptions == []


def test_a_filter_that_is_not_json_is_refused_here(concord, node) -> None:
    result = concord("subscription", "add", "--sink", "http://s", "--filter", "prefix")
    assert result.exit_code == 2
    assert "not JSON" in result.stderr
    assert node.subscriptions == []


def test_a_node_that_is_not_there_is_said_with_what_to_do() -> None:
    result = CliRunner().invoke(app, ["get"], env={"CONCORD_URL": "http://127.0.0.1:1"})
    assert result.exit_code == 2
    assert "http://127.0.0.1:1 cannot be reached: connection refused." in result.stderr
    assert "concord serve" in result.stderr
    assert "Traceback" not in result.stderr


def test_what_a_node_does_not_have_is_answered_with_no(concord) -> None:
    assert concord("get", "/messagegroups/nope").exit_code == 1


def test_settings_show_no_secret() -> None:
    secret = {"CONCORD_DATABASE_URL": "postgresql://u:hidden@h/d"}
    result = CliRunner().invoke(app, ["settings", "--json"], env=secret)
    assert "hidden" not in result.stdout
    assert orjson.loads(result.stdout)["port"] == 8080


def test_a_wrong_setting_is_named_by_its_variable() -> None:
    result = CliRunner().invoke(app, ["settings"], env={"CONCORD_PORT": "many"})
    assert result.exit_code == 2
    assert "CONCORD_PORT" in result.stderr


def test_a_misspelt_setting_is_named_with_the_one_that_is_meant() -> None:
    named = {"CONCORD_PULIC_URL": "https://c", "CONCORD_SINK_SECRET": "s", "CONCORD_TOKENS": "t"}
    result = CliRunner().invoke(app, ["settings", "--json"], env=named)
    assert orjson.loads(result.stdout)["public_url"] is None
    assert "no CONCORD_PULIC_URL; is it CONCORD_PUBLIC_URL?" in result.stderr
    assert "CONCORD_SINK_SECRET" not in result.stderr, "the name of a credential is the user's own"


@pytest.mark.parametrize("command", [["link", "add"], ["get"], []])
def test_the_help_of_each_command_has_one_paragraph_about_exit_codes(command: list[str]) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert result.stdout.count("Exit codes: 0 ") == 1
    assert "<bool>" not in result.stdout
    assert "--token" in result.stdout


def test_every_command_stands_in_a_panel_of_the_help() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout
    assert "─ Commands ─" not in shown
    for command in get_command(app).commands:  # type: ignore[attr-defined]
        assert re.search(rf"^│ {command} ", shown, re.MULTILINE), command


def test_every_option_has_its_name_in_small_letters() -> None:
    """Some editions of the parser name an option without a name as its metavar."""

    def options_of(command: Any) -> Iterator[str]:
        for parameter in command.params:
            if parameter.param_type_name == "option":
                yield from parameter.opts
        for each in getattr(command, "commands", {}).values():
            yield from options_of(each)

    options = [each for each in options_of(get_command(app)) if each.startswith("--")]
    assert len(options) > 400
    assert [option for option in options if option != option.lower()] == []


@pytest.mark.parametrize("word", ["a", "--"])
def test_a_shell_completes_commands_and_options(word: str) -> None:
    asked = {"_CONCORD_COMPLETE": "complete_bash", "COMP_CWORD": "2"}
    result = CliRunner().invoke(
        app, prog_name="concord", env={**asked, "COMP_WORDS": f"concord link {word}"}
    )
    assert {"a": "add", "--": "--help"}[word] in result.stdout.split()


def test_reconcile_refuses_what_names_no_catalog() -> None:
    result = CliRunner().invoke(app, ["reconcile", "--catalog", "eu"])
    assert result.exit_code == 3
    assert "NAME=ADDRESS" in result.stderr


def test_the_model_is_printed_in_full_or_as_it_was_given(concord) -> None:
    assert orjson.loads(concord("get", "/model").stdout) == MODEL
    assert orjson.loads(concord("get", "/modelsource").stdout) == {"groups": {}}


@pytest.mark.parametrize(
    ("name", "text"), [("m.json", '{"groups": {"dirs": {}}}'), ("m.yaml", "groups: {dirs: {}}")]
)
def test_a_model_is_put_from_a_file(concord, node, tmp_path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    result = concord("model", "set", str(path))
    assert result.exit_code == 0
    assert node.models == [{"groups": {"dirs": {}}}]
    assert "dirs" in result.stdout


def test_what_does_not_comply_with_a_model_is_listed(concord, node, tmp_path) -> None:
    path = tmp_path / "m.json"
    path.write_text('{"groups": {"bad": {}}}')
    result = concord("model", "set", str(path))
    assert result.exit_code == 1
    assert "Some do not comply." in result.stderr
    assert "An unknown attribute (x)." in result.stderr
    assert node.models == []


def test_a_model_that_cannot_be_read_is_not_sent(concord, node, tmp_path) -> None:
    result = concord("model", "set", str(tmp_path / "nope.json"))
    assert result.exit_code == 2
    assert "cannot be read" in result.stderr


def test_capabilities_are_shown_and_changed(concord, node, tmp_path) -> None:
    path = tmp_path / "c.json"
    path.write_text('{"flags": ["inline"]}')
    assert concord("capabilities", "set", str(path)).exit_code == 0
    assert node.capabilities == {"pagination": True, "flags": ["inline"]}
    shown = concord("get", "/capabilities")
    assert orjson.loads(shown.stdout) == node.capabilities
    assert orjson.loads(concord("get", "/capabilitiesoffered").stdout)["flags"]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot be read"),
        ("{", "not valid JSON"),
        ('{"groups": {"dirs": {}}}', "dirs"),
    ],
)
def test_a_node_does_not_start_with_a_wrong_model(
    tmp_path: Path, text: str | None, reason: str
) -> None:
    path = tmp_path / "model.json"
    if text is not None:
        path.write_text(text)
    variables = {"CONCORD_INITIAL_MODEL": str(path), "CONCORD_DATA_DIR": str(tmp_path / "data")}
    result = CliRunner().invoke(app, ["serve"], env=variables)
    assert result.exit_code == 2
    assert reason in result.stderr
    assert "CONCORD_INITIAL_MODEL" in result.stderr
    assert not (tmp_path / "data").exists()
