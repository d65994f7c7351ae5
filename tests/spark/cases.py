"""Cases for the rule: the copies at three catalogs, and the expected findings."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from replication.reconcile.findings import FindingName
from replication.reconcile.signatures import DAMAGED, UNSIGNED, VERIFIED
from replication.reconcile.topology import WHOLE_CATALOG, Coverage, Topology
from tests.spark.oracle import Copy

A, B, C = 0, 1, 2
FORGED = UNSIGNED + 1
OWNER_A, OWNER_B, ABSENT = "https://a", "https://b", "https://absent"

# b relays a to c; c follows b only below /groups/wide; both carry an authority that is absent.
TOPOLOGY = Topology(
    names=("a", "b", "c"),
    authorities=(OWNER_A, OWNER_B, "https://c"),
    coverage=(
        {OWNER_A: Coverage(WHOLE_CATALOG, 0)},
        {
            OWNER_B: Coverage(WHOLE_CATALOG, 0),
            OWNER_A: Coverage(WHOLE_CATALOG, 1),
            ABSENT: Coverage(WHOLE_CATALOG, 2),
        },
        {
            "https://c": Coverage(WHOLE_CATALOG, 0),
            OWNER_A: Coverage(WHOLE_CATALOG, 2),
            OWNER_B: Coverage(frozenset({"/groups/wide"}), 1),
            ABSENT: Coverage(WHOLE_CATALOG, 2),
        },
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """The copies, and the findings as (authority, origin, catalog, finding).

    Origins are below `/groups/<name of the case>`, so that cases do not meet.
    """

    copies: tuple[Copy, ...]
    found: frozenset[tuple[str, str, str, FindingName]] = frozenset()


def copy(
    catalog: int,
    origin: str,
    epoch: int = 2,
    *,
    authority: str = OWNER_A,
    deleted: bool = False,
    content: str = "same",
    xid: str | None = None,
    signature: int = VERIFIED,
) -> Copy:
    text = f"{authority} {origin} {epoch} {deleted} {'' if deleted else content}"
    return Copy(
        catalog=catalog,
        authority=authority,
        origin=origin,
        xid=xid or origin,
        epoch=epoch,
        deleted=deleted,
        digest=hashlib.sha256(text.encode()).hexdigest(),
        changedat=1000 * epoch + catalog,
        signature=signature,
    )


def _case(*copies: Copy, **found: FindingName) -> Case:
    first = copies[0]
    return Case(
        copies=copies,
        found=frozenset((first.authority, first.origin, at, f) for at, f in found.items()),
    )


def _everywhere(origin: str, **more: object) -> tuple[Copy, Copy, Copy]:
    return tuple(copy(at, origin, **more) for at in (A, B, C))  # type: ignore[return-value, arg-type]  # three copies


def _g(name: str) -> str:
    return f"/groups/{name}"


CASES: dict[str, Case] = {
    "equal copies": _case(*_everywhere(_g("equal"))),
    "a copy that one catalog lacks is missing": _case(
        copy(A, _g("lost")), copy(B, _g("lost")), c="missing"
    ),
    "an entity that no link carries is not missing": _case(
        copy(B, _g("narrow"), authority=OWNER_B)
    ),
    "an entity in the scope of a link is missing": _case(
        copy(B, "/groups/wide/x/1", authority=OWNER_B), c="missing"
    ),
    "an older epoch is stale": _case(
        copy(A, _g("old")), copy(B, _g("old")), copy(C, _g("old"), 1), c="stale"
    ),
    "a deletion that did not arrive is stale": _case(
        copy(A, _g("undead"), 3, deleted=True), copy(B, _g("undead")), b="stale"
    ),
    "a tombstone and nothing are equal": _case(
        copy(A, _g("dead"), 3, deleted=True), copy(B, _g("dead"), 2, deleted=True)
    ),
    "a tombstone of an entity that was created again is stale": _case(
        copy(A, _g("reborn"), 4),
        copy(B, _g("reborn"), 3, deleted=True),
        copy(C, _g("reborn"), 4),
        b="stale",
    ),
    "a newer epoch is ahead": _case(
        copy(A, _g("back"), 2), copy(B, _g("back"), 5), copy(C, _g("back"), 2), b="ahead"
    ),
    "a replica of an entity that its authority lacks is orphaned": _case(
        copy(B, _g("orphan")), copy(C, _g("orphan"), 3, deleted=True), b="orphaned"
    ),
    "another content at the same epoch is diverged": _case(
        copy(A, _g("forged")),
        copy(B, _g("forged"), content="other"),
        copy(C, _g("forged")),
        b="diverged",
    ),
    "an entity and a tombstone at the same epoch are diverged": _case(
        copy(A, _g("both"), 3, deleted=True), copy(C, _g("both"), 3), c="diverged"
    ),
    "an xid that another authority holds is collided": Case(
        copies=(
            copy(A, _g("taken")),
            copy(B, _g("taken"), authority=OWNER_B),
            copy(C, _g("taken")),
        ),
        found=frozenset({(OWNER_A, _g("taken"), "b", "collided")}),
    ),
    "a replica under another xid is compared by its origin": _case(
        copy(A, _g("mapped")), copy(B, _g("mapped"), xid="/groups/a-mapped"), copy(C, _g("mapped"))
    ),
    "replicas of an authority that was not given agree": _case(
        copy(B, _g("far"), authority=ABSENT), copy(C, _g("far"), authority=ABSENT)
    ),
    "replicas of an authority that was not given disagree": _case(
        copy(B, _g("torn"), 3, authority=ABSENT),
        copy(C, _g("torn"), 2, authority=ABSENT),
        c="stale",
    ),
    "a copy without a signature is unsigned": _case(
        copy(A, _g("bare")),
        copy(B, _g("bare"), signature=UNSIGNED),
        copy(C, _g("bare")),
        b="unsigned",
    ),
    "an authority's own copy may be forged": _case(
        copy(A, _g("spoilt"), signature=FORGED),
        copy(B, _g("spoilt")),
        copy(C, _g("spoilt")),
        a="forged",
    ),
    "another content than that of the stored digest is damaged": _case(
        copy(A, _g("bitten")),
        copy(B, _g("bitten"), content="other", signature=DAMAGED),
        copy(C, _g("bitten")),
        b="damaged",
    ),
    "an authority's own copy may be damaged": _case(
        copy(A, _g("rotten"), content="other", signature=DAMAGED),
        copy(B, _g("rotten")),
        copy(C, _g("rotten")),
        a="damaged",
    ),
    "a forged copy of an authority that was not given is no reference": Case(
        copies=(
            copy(B, _g("lie"), 9, authority=ABSENT, signature=FORGED),
            copy(C, _g("lie"), authority=ABSENT),
        ),
        found=frozenset({(ABSENT, _g("lie"), "b", "ahead"), (ABSENT, _g("lie"), "b", "forged")}),
    ),
    "an entity of an authority that was not given is missing if another replica has it": _case(
        copy(C, _g("gap"), authority=ABSENT), b="missing"
    ),
}
