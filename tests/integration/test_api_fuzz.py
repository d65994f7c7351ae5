"""Laws that hold for any request, and a model of epochs and counts that any sequence obeys."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.integration.conftest import Node, assert_problem, shared_node

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUIET = settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow], deadline=None)

node = shared_node(max_body_bytes=100_000)


IDS = st.sampled_from(["a", "A", "b", "1", "2", "request", "null", "a~b:c@d", ""])
JUNK = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
GROUPS = st.sampled_from(["messagegroups", "schemagroups", "endpoints", "nowhere"])
RESOURCES = st.sampled_from(["messages", "schemas", "meta", "nowhere"])
SEGMENTS = st.one_of(IDS, JUNK)


@st.composite
def paths(draw: st.DrawFn) -> str:
    """Paths of the model with junk in them, now and then."""
    steps = [
        GROUPS,
        SEGMENTS,
        RESOURCES,
        SEGMENTS,
        st.sampled_from(["versions", "meta", "nowhere"]),
        SEGMENTS,
        JUNK,
    ]
    chosen = [draw(step) for step in steps[: draw(st.integers(0, 7))]]
    path = "/" + "/".join(quote(segment, safe="") for segment in chosen)
    path += draw(st.sampled_from(["", "", "", "$details", "/"]))
    flag = draw(
        st.one_of(
            st.just(""),
            st.builds("inline={}".format, st.sampled_from(["*", "versions", "messages.meta", ""])),
            st.builds("epoch={}".format, st.integers(-1, 3)),
            st.builds("limit={}".format, st.integers(-1, 3)),
            st.builds(lambda a, b: f"{quote(a)}={quote(b)}", JUNK, JUNK),
        )
    )
    return f"{path}?{flag}" if flag else path


NAMES = st.sampled_from(
    [
        "name",
        "labels",
        "epoch",
        "createdat",
        "modifiedat",
        "versionid",
        "ancestorid",
        "messageid",
        "messagegroupid",
        "meta",
        "versions",
        "messages",
        "schemas",
        "schema",
        "schemabase64",
        "schemaurl",
        "format",
        "contenttype",
        "deprecated",
        "usage",
        "dataschemaxid",
        "defaultversionid",
        "defaultversionsticky",
        "messagegroups",
        "schemagroups",
        "xref",
        "xid",
        "self",
    ]
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(0, 3),
    st.floats(allow_nan=False, allow_infinity=False),
    JUNK,
    IDS,
    st.sampled_from(["2020-01-01T00:00:00Z", "/messagegroups/a", "http://example.com", "AAEC"]),
)
BODIES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.dictionaries(st.one_of(NAMES, IDS), inner, max_size=4), st.lists(inner, max_size=3)
    ),
    max_leaves=12,
)
LIKELY = st.fixed_dictionaries(
    {},
    optional={
        "name": JUNK,
        "labels": st.dictionaries(st.sampled_from(["a", "b"]), JUNK, max_size=2),
        "epoch": st.integers(0, 3),
        "format": st.just("f"),
        "schema": BODIES,
        "ancestorid": IDS,
        "messages": st.dictionaries(IDS, st.dictionaries(NAMES, SCALARS, max_size=1), max_size=2),
        "versions": st.dictionaries(IDS, st.dictionaries(NAMES, SCALARS, max_size=1), max_size=2),
        "meta": st.dictionaries(NAMES, SCALARS, max_size=2),
    },
)
HEADERS = st.dictionaries(
    st.sampled_from(
        [
            "xRegistry-name",
            "xRegistry-labels.a",
            "xRegistry-epoch",
            "xRegistry-format",
            "xRegistry-schemaurl",
            "xRegistry-versionid",
            "xRegistry-ancestorid",
            "Content-Type",
        ]
    ),
    st.one_of(st.sampled_from(["f", "null", "1", "%FF", '"', "text/plain"]), JUNK.map(quote)),
    max_size=3,
)
METHODS = st.sampled_from(["GET", "HEAD", "PUT", "PATCH", "POST", "DELETE", "OPTIONS"])


@QUIET
@given(
    method=METHODS,
    path=paths(),
    headers=HEADERS,
    body=st.one_of(LIKELY, BODIES, st.binary(max_size=20), st.none()),
)
async def test_any_request_is_answered_and_a_refused_one_changes_nothing(
    node: Node, method: str, path: str, headers: dict[str, str], body: Any
) -> None:
    """core/spec.md, "Error Processing": an error undoes the entire request."""
    before = await node.state()
    content = body if isinstance(body, bytes | None) else orjson.dumps(body)
    answer = await node.request(method, path, body=content, headers=headers)
    assert answer.status < 500, (method, path, body, answer.body)
    if answer.status < 400:
        await node.get("/?inline=*")
        return
    if method != "HEAD":
        assert_problem(answer)
    assert await node.state() == before, (method, path, body)


@dataclass
class Expected:
    """The epochs of what lives, and the last epochs of what is dead, by path."""

    live: dict[str, int] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)

    def touch(self, path: str) -> None:
        self.live[path] += 1

    def put(self, path: str, owner: str) -> None:
        """Update what is there; else create it, above its earlier life, and touch its owner."""
        if path in self.live:
            self.touch(path)
        else:
            self.live[path] = self.dead.pop(path) + 2 if path in self.dead else 1
            self.live[owner] += 1

    def ensure(self, path: str, owner: str) -> bool:
        """Whether it had to be created."""
        if path in self.live:
            return False
        self.put(path, owner)
        return True

    def delete(self, path: str, owner: str) -> None:
        for xid in [xid for xid in self.live if xid == path or xid.startswith(f"{path}/")]:
            self.dead[xid] = self.live.pop(xid)
        self.live[owner] += 1

    def children(self, path: str) -> int:
        depth = path.count("/") + 2
        return sum(xid.startswith(f"{path}/") and xid.count("/") == depth for xid in self.live)


OPERATIONS = st.tuples(
    st.sampled_from(["PUT", "PATCH", "DELETE"]),
    st.sampled_from(["g", "h"]),
    st.sampled_from(["", "m", "n"]),
    st.sampled_from(["", "v", "w", "x"]),
    st.sampled_from([None, None, 0, 1]),
)


@settings(QUIET, max_examples=40)
@given(operations=st.lists(OPERATIONS, min_size=5, max_size=15))
async def test_epochs_and_counts_follow_the_model_through_any_sequence(
    node: Node, operations: list[tuple[str, str, str, str, int | None]]
) -> None:
    """core/spec.md, "epoch Attribute": each entity's own, raised once by each request.

    The epoch that an operation may send is off by so many from the current one.
    """
    await node.send("DELETE", "/messagegroups")
    expected = Expected()
    await learn_the_dead(node, expected)
    for method, gid, rid, vid, off in operations:
        await step(node, expected, method, gid, rid, vid if rid else "", off)
        assert await epochs_of(node) == expected.live, (method, gid, rid, vid, off)
    shown = await node.get("/?inline=messagegroups.messages.versions")
    for gid, group in shown["messagegroups"].items():
        path = f"/messagegroups/{gid}"
        assert group["messagescount"] == len(group["messages"]) == expected.children(path)
        for rid, message in group["messages"].items():
            count = expected.children(f"{path}/messages/{rid}")
            assert message["versionscount"] == len(message["versions"]) == count


async def learn_the_dead(node: Node, expected: Expected) -> None:
    """What earlier examples have left: the registry's epoch, and the tombstones'."""
    expected.live = {"/": (await node.get("/"))["epoch"]}
    async with node.database.acquire() as connection:
        rows = await connection.fetch("SELECT xid, epoch FROM tombstones WHERE xid LIKE '/messag%'")
    expected.dead = {row["xid"]: row["epoch"] - 1 for row in rows}


async def epochs_of(node: Node) -> dict[str, int]:
    shown = await node.get("/?inline=messagegroups.messages.meta,messagegroups.messages.versions")
    epochs = {"/": shown["epoch"]}
    for group in shown["messagegroups"].values():
        epochs[group["xid"]] = group["epoch"]
        for message in group["messages"].values():
            epochs[message["xid"]] = message["meta"]["epoch"]
            epochs |= {v["xid"]: v["epoch"] for v in message["versions"].values()}
    return epochs


async def step(
    node: Node, expected: Expected, method: str, gid: str, rid: str, vid: str, off: int | None
) -> None:
    """One request, and what it makes of the expectations if it has to succeed."""
    group = f"/messagegroups/{gid}"
    resource = f"{group}/messages/{rid}"
    path = f"{resource}/versions/{vid}" if vid else resource if rid else group
    versions = {}
    if resource in expected.live and rid:
        versions = await node.get(f"{resource}/versions")
    checked = path
    default = next((id for id, version in versions.items() if version["isdefault"]), "first")
    if method != "DELETE" and rid and not vid:
        checked = f"{resource}/versions/{default}"
    current = expected.live.get(checked)
    epoch = None if off is None or current is None else current + off
    if method == "DELETE":
        flag = "" if epoch is None else f"?epoch={epoch}"
        answer = await node.send("DELETE", path + flag)
    else:
        body: dict[str, Any] = {} if epoch is None else {"epoch": epoch}
        if rid and not vid and not versions:
            body["versionid"] = default
        answer = await node.send(method, path, {"name": "n", **body})
    if off == 1 and current is not None:
        assert answer.error == "mismatched_epoch", answer.body
    elif method == "DELETE":
        assert answer.status == (204 if path in expected.live else 404), answer.body
        if path in expected.live:
            expect_delete(expected, path, group, resource, vid, versions)
    else:
        assert answer.status == (200 if path in expected.live else 201), answer.body
        expect_put(expected, group, resource if rid else "", checked)


def expect_put(expected: Expected, group: str, resource: str, path: str) -> None:
    if not resource:
        expected.put(path, "/")
        return
    had_group = not expected.ensure(group, "/")
    before = expected.live[group]
    had_resource = not expected.ensure(resource, group)
    if not had_group:
        expected.live[group] = before
    before = expected.live[resource]
    expected.put(path, resource)
    if not had_resource:
        expected.live[resource] = before


def expect_delete(
    expected: Expected,
    path: str,
    group: str,
    resource: str,
    vid: str,
    versions: dict[str, Any],
) -> None:
    owner = resource if vid else "/" if path == group else group
    if vid and len(versions) == 1:
        last = expected.live[resource]
        expected.delete(resource, group)
        assert expected.dead[resource] == last
        return
    expected.delete(path, owner)
    for id, version in versions.items():
        if vid and id != vid and version["ancestorid"] == vid:
            expected.touch(f"{resource}/versions/{id}")
