"""What a filter finds in any catalog is what its rules, spelled out naively, say."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from catalog.model.attributereference import EntityKind
from catalog.model.caller import node_caller
from catalog.model.entity import Entity
from catalog.model.errors import BadFilter, BadSort
from catalog.model.filter import parse_filters, parse_sort
from catalog.model.xid import Xid
from catalog.reading.find import find_page, find_visible
from catalog.reconfiguration.initialmodel import ensure_registry
from catalog.store.database import Connection, Database
from tests.integration.searching import (
    ELSEWHERE,
    MODEL,
    Tree,
    clear,
    entity,
    meets,
    plant_by,
    resource,
    values_at,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
QUIET = settings(
    max_examples=40,
    phases=[Phase.explicit, Phase.generate],  # To shrink an example takes minutes.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)

WORDS = ["abc", "ABD", "a*c", "ab.c", "", "ünï", "ÜN", "5", "true", "a,b", 'q"\\d']
TIMES = [
    "2024-01-01T00:00:00Z",
    "2024-01-01T00:00:00.25Z",
    "2024-01-01T00:00:00.5Z",
    "2024-02-01T00:00:00Z",
]
NUMBERS = [0, 1, 5, -2, 10]
# Paths that every entity may have, with the type that they are compared by, and values.
PATHS: list[tuple[tuple[str | int, ...], str, list[Any]]] = [
    (("name",), "string", WORDS),
    (("description",), "string", WORDS),
    (("size",), "number", NUMBERS),
    (("ratio",), "number", [0.5, 1, 2.25]),
    (("flag",), "boolean", ["true", "false"]),
    (("when",), "timestamp", TIMES),
    (("labels", "env"), "string", WORDS),
    (("labels", ".*"), "string", WORDS),
    (("tags", 0), "string", WORDS),
    (("tags", "[*]"), "string", WORDS),
    (("info", "places", ".*", "state"), "string", WORDS),
    (("info", "owner"), "string", WORDS),
    (("ext",), "any", [*WORDS, *NUMBERS, "false"]),
    (("ext", "deep", 1), "any", [*WORDS, *NUMBERS]),
    (("nothing",), "any", WORDS),
    (("epoch",), "number", [1, 2, 3]),
    (("createdat",), "timestamp", TIMES),
    (("modifiedat",), "timestamp", TIMES),
    (("authority",), "string", [ELSEWHERE, "https*"]),
]
OF_RESOURCES: list[tuple[tuple[str | int, ...], str, list[Any]]] = [
    (("fileid",), "string", ["f1", "F*", "f2"]),
    (("versionid",), "string", ["1", "2", "*"]),
    (("isdefault",), "boolean", ["true", "false"]),
    (("xid",), "string", ["/dirs/*", "/dirs/a/files/f1", "*/versions/1"]),
]
OF_META: list[tuple[tuple[str | int, ...], str, list[Any]]] = [
    (("meta", "readonly"), "boolean", ["true", "false"]),
    (("meta", "epoch"), "number", [1, 2]),
    (("meta", "defaultversionid"), "string", ["1", "2"]),
    (("meta", "labels", "env"), "string", WORDS),
    (("meta", "xid"), "string", ["*/meta"]),
]
OF_GROUPS: list[tuple[tuple[str | int, ...], str, list[Any]]] = [
    (("dirid",), "string", ["a", "B", "A", "*"])
]

RESOURCES = ["files/f1", "files/f2", "notes/n"]

attributes = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(WORDS),
        "description": st.sampled_from(WORDS),
        "size": st.sampled_from(NUMBERS),
        "ratio": st.sampled_from([0.5, 1.0, 2.25]),
        "flag": st.booleans(),
        "when": st.sampled_from(TIMES),
        "labels": st.dictionaries(st.sampled_from(["env", "x.y"]), st.sampled_from(WORDS)),
        "tags": st.lists(st.sampled_from(WORDS), max_size=2),
        "info": st.fixed_dictionaries(
            {},
            optional={
                "owner": st.sampled_from(WORDS),
                "places": st.dictionaries(
                    st.sampled_from(["home", "work"]),
                    st.fixed_dictionaries({}, optional={"state": st.sampled_from(WORDS)}),
                    max_size=2,
                ),
            },
        ),
        "ext": st.one_of(
            st.sampled_from(WORDS),
            st.sampled_from(NUMBERS),
            st.booleans(),
            st.none(),
            st.lists(st.sampled_from(WORDS), max_size=2),
            st.fixed_dictionaries({"deep": st.lists(st.sampled_from(NUMBERS), max_size=3)}),
        ),
    },
)


@st.composite
def entities(draw: st.DrawFn) -> list[Entity]:
    """Everything below a registry: a few groups, resources and versions."""
    found: list[Entity] = []
    for group in draw(st.lists(st.sampled_from(["dirs/a", "dirs/b", "boxs/a"]), unique=True)):
        authority = draw(st.sampled_from(["", ELSEWHERE]))
        made: dict[str, Any] = {"epoch": draw(st.integers(1, 3)), "authority": authority}
        found.append(entity(f"/{group}", draw(attributes), **made))
        for name in draw(
            st.lists(st.sampled_from(["files/f1", "files/f2", "notes/n"]), unique=True)
        ):
            xid = f"/{group}/{name}"
            vids = draw(st.lists(st.sampled_from(["1", "2", "v"]), min_size=1, unique=True))
            labels = (
                {"labels": {"env": draw(st.sampled_from(WORDS))}} if draw(st.booleans()) else {}
            )
            owner = resource(xid, draw(st.sampled_from(vids)), **labels)
            found.append(
                entity(xid, owner.attributes, epoch=draw(st.integers(1, 2)), authority=authority)
            )
            for vid in vids:
                made["epoch"] = draw(st.integers(1, 3))
                day = draw(st.sampled_from([0, 31]))
                found.append(entity(f"{xid}/versions/{vid}", draw(attributes), day=day, **made))
    return found


@dataclass(frozen=True)
class Wanted:
    """An expression in parts, for the naive reading."""

    chain: tuple[str, ...]
    steps: tuple[str | int, ...]
    operator: str
    value: str
    type: str

    def text(self, depth: int) -> str:
        value = self.value.replace("\\", "\\\\").replace(",", "\\,")
        return "".join(map(_written, (*self.chain[depth:], *self.steps))).removeprefix(".") + (
            self.operator + value
        )


def _written(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    if step in (".*", "[*]"):
        return step
    return f"['{step}']" if "." in step else f".{step}"


@st.composite
def expressions(draw: st.DrawFn, chain: tuple[str, ...]) -> Wanted:
    choices = [*PATHS]
    if len(chain) == 1:
        choices += OF_GROUPS
    if len(chain) >= 2:
        choices += OF_RESOURCES * 2
    if len(chain) == 2:
        choices += OF_META
    steps, type, values = draw(st.sampled_from(choices))
    operator = draw(st.sampled_from(["", "=", "=", "=", "!=", "<>", "<", "<=", ">", ">="]))
    if not operator:
        return Wanted(chain, steps, "", "", type)
    value = str(draw(st.sampled_from(values)))
    if operator[0] in "=!" or operator == "<>":
        value = draw(st.sampled_from([value, value, value, "null", "*", _cut(value)]))
    elif "*" in value:
        value = value.replace("*", "x")
    if type in ("boolean", "number", "timestamp") and "*" not in value and value == "":
        value = "*"
    return Wanted(chain, steps, operator, value, type)


def _cut(value: str) -> str:
    return f"*{value[1:2]}*"


IDS = ["", "dir", "file", "version"]
CHAINS = [(), ("dirs",), ("dirs", "files"), ("dirs", "files", "versions")]


@st.composite
def clauses(draw: st.DrawFn, depth: int) -> list[Wanted]:
    """Expressions on one chain, at a depth or below; now and then one that is on none."""
    length = draw(st.integers(depth, 3))
    found = [
        draw(expressions(CHAINS[draw(st.integers(depth, length))]))
        for _ in range(draw(st.integers(1, 3)))
    ]
    if depth == 0 and draw(st.integers(0, 9)) == 0:
        found.append(draw(expressions(("boxs",))))
    return found


def shown_by(tree: Tree, place: str, depth: int, filters: list[list[Wanted]]) -> set[str]:
    """Every match's leaves: intersected within a clause, united among clauses; then all of
    the way up to the place."""
    leaves: set[str] = set()
    for clause in filters:
        found = [_leaves(tree, place, depth, wanted) for wanted in clause]
        leaves |= reduce(set.__and__, found)
    return {
        xid
        for xid in tree.views
        if any(leaf == xid or leaf.startswith(f"{xid.rstrip('/')}/") for leaf in leaves)
    }


def _leaves(tree: Tree, place: str, depth: int, wanted: Wanted) -> set[str]:
    matches = [
        xid
        for xid in tree.at(place, wanted.chain[depth:])
        if meets(tree.views[xid], wanted.steps, wanted.operator, wanted.value, wanted.type)
    ]
    return {leaf for xid in matches for leaf in tree.leaves(xid)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def database(shared_database_url: str) -> AsyncIterator[Database]:
    async with Database.open(
        shared_database_url, node_caller(), modelsource=MODEL.source
    ) as opened:
        await ensure_registry(opened, "test")
        yield opened


@QUIET
@given(
    rows=entities(),
    asked=st.lists(st.lists(clauses(0), min_size=1, max_size=3), min_size=3, max_size=8),
)
async def test_a_registry_shows_the_leaves_of_what_matches_and_all_above_them(
    database: Database, rows: list[Entity], asked: list[list[list[Wanted]]]
) -> None:
    await clear(database)
    async with database.transaction() as connection:
        registry = entity("/", {"registryid": "test"})
        await plant_by(connection, database, [registry, *rows])
        tree = Tree.of([registry, *rows])
        for wanted in asked:
            texts = [",".join(w.text(0) for w in clause) for clause in wanted]
            filters = parse_filters(texts, EntityKind(model=MODEL))
            visible = await find_visible(connection, Xid(), filters)
            expected = shown_by(tree, "/", 0, wanted) - {"/"}
            assert {xid for xid in tree.views if visible.shows(xid)} - {"/"} == expected, texts
            is_met = any(
                all(_leaves(tree, "/", 0, w) for w in clause if not w.chain) for clause in wanted
            )
            assert visible.is_empty == (not is_met), texts


SORTS = [
    *("", "id=desc", "name", "name=desc", "size", "ratio=desc", "flag", "ext=desc", "when"),
    *("createdat", "modifiedat=desc", "epoch", "labels.nosuch", "labels.nosuch=desc"),
]


@QUIET
@given(
    rows=entities(),
    asked=st.lists(
        st.integers(1, 3).flatmap(
            lambda depth: st.tuples(
                st.just(depth), st.lists(clauses(depth), min_size=1, max_size=2)
            )
        ),
        min_size=3,
        max_size=8,
    ),
    sort=st.sampled_from(SORTS),
    limit=st.sampled_from([1, 2, 50]),
)
async def test_the_pages_of_a_collection_have_what_a_filter_shows_of_it_in_order(
    database: Database,
    rows: list[Entity],
    asked: list[tuple[int, list[list[Wanted]]]],
    sort: str,
    limit: int,
) -> None:
    await clear(database)
    tree = Tree.of([entity("/"), *rows])
    async with database.transaction() as connection:
        await plant_by(connection, database, rows)
        for depth, wanted in asked:
            await _check_pages(connection, tree, depth, wanted, sort, limit)


async def _check_pages(
    connection: Connection,
    tree: Tree,
    depth: int,
    wanted: list[list[Wanted]],
    sort: str,
    limit: int,
) -> None:
    chain = CHAINS[depth]
    aim: dict[str, Any] = dict(zip(("groups", "resources", "versions"), chain, strict=False))
    texts = [",".join(w.text(depth) for w in clause) for clause in wanted]
    filters = parse_filters(texts, EntityKind(model=MODEL, **aim))
    by = sort.replace("id", f"{IDS[depth]}id") or f"{IDS[depth]}id"
    order = parse_sort(by, EntityKind(model=MODEL, **aim)) if sort else None
    for owner in map(Xid.parse, tree.at("/", chain[:-1])):
        listing = f"{str(owner).rstrip('/')}/{chain[-1]}"
        expected = {
            xid
            for xid in tree.views
            if xid.rpartition("/")[0] == listing and xid in shown_by(tree, xid, depth, wanted)
        }
        found: list[str] = []
        after = ""
        while True:
            page = await find_page(
                connection,
                owner,
                chain[-1],
                filters=filters,
                sort=order,
                after=after,
                limit=limit,
            )
            assert page.total == len(expected), (texts, sort)
            found += page.xids
            after = page.following
            if not after:
                break
        assert found == sorted_naively(tree, expected, by), (texts, listing, sort)
        visible = await find_visible(connection, owner, filters, chain[-1])
        shown = {xid for xid in tree.views if xid.rpartition("/")[0] == listing}
        assert {xid for xid in shown if visible.shows(xid)} == expected, texts


TIMED = ("when", "createdat", "modifiedat")


def sorted_naively(tree: Tree, xids: set[str], sort: str) -> list[str]:
    name, _, direction = sort.partition("=")

    def key(xid: str) -> Any:
        value = (values_at(tree.views[xid], [name]) or [None])[0]
        id = xid.rpartition("/")[2].lower()
        if isinstance(value, bool):
            return 2, 0, str(value).lower(), id
        if isinstance(value, int | float):
            return 1, value, "", id
        if isinstance(value, str) and value:
            text = value.lower()
            return (
                2,
                0,
                text.removesuffix("z") if name in ("when", "createdat", "modifiedat") else text,
                id,
            )
        return 0, 0, "", id

    return sorted(xids, key=key, reverse=direction == "desc")


FRAGMENTS = st.sampled_from(
    [
        *("name", "size", "when", "ext", "meta", "versions", "labels", "tags", "authority"),
        *(".", "[", "]", "'", '"', "*", ",", "\\", "=", "!=", "<", ">=", "null", "$", "@", "("),
        *("-1", "1e99", "0.5", "2024-01-01T00:00:00.123456789Z", "true", "ü", "\n", "^", "|"),
    ]
)
TEXTS = st.one_of(
    st.lists(FRAGMENTS, max_size=8).map("".join),
    st.tuples(
        st.sampled_from(["name", "size", "when", "ext.a[1]", "ext.*.b", "meta.readonly", "fileid"]),
        st.sampled_from(["=", "!=", "<>", "<", "<=", ">", ">="]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    ).map("".join),
)


@settings(QUIET, max_examples=300)
@given(texts=st.lists(TEXTS, min_size=1, max_size=3), sort=TEXTS)
async def test_what_is_not_refused_is_understood_by_the_database(
    database: Database, texts: list[str], sort: str
) -> None:
    """No value becomes more than a value, whatever characters it has."""
    aim: dict[str, Any] = {"groups": "dirs", "resources": "files"}
    filters = order = None
    with contextlib.suppress(BadFilter):
        filters = parse_filters(texts, EntityKind(model=MODEL, **aim))
    with contextlib.suppress(BadSort):
        order = parse_sort(sort, EntityKind(model=MODEL, **aim))
    owner = Xid.parse("/dirs/a")
    seen = {"name": "a", "size": 1, "when": "2024-01-01T00:00:00Z", "ext": {"a": [1, "x"]}}
    async with database.transaction() as connection:
        await connection.execute("DELETE FROM entities WHERE kind <> 'registry'")
        rows = [entity("/dirs/a"), resource("/dirs/a/files/f")]
        await plant_by(connection, database, [*rows, entity("/dirs/a/files/f/versions/1", seen)])
        await find_page(connection, owner, "files", filters=filters, sort=order, limit=5)
        if filters is not None:
            await find_visible(connection, owner, filters, "files")
