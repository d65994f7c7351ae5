"""The rule that names differences, as SQL for both Spark and DuckDB.

The reference of an origin is the copy at its authority's own catalog or, if that catalog is not
compared, the copy with the greatest epoch. `_FINDING` compares the copies at the other catalogs
with the reference, and `described` explains missing copies whose xid belongs to another authority
at the catalog. A copy that is unsigned, forged or damaged is an additional finding, and is the
reference only if the origin has no sound copy.

One shuffle brings the copies of an origin together, as plain numbers: two 64-bit hashes stand for
the origin, one for the digest, and each column of each catalog has one flat aggregate. (An
aggregate of a struct or a string would make Spark sort instead of hash.) `described` adds the
readable strings for the few origins that differ.

The relation `{rows}` has the columns of `digestrows.ROWS`, two hashes of the origin, `h1` and `h2`,
and a hash of the digest, `fp`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields

from catalog.operations.reconciliations import FindingName
from replication.reconcile.engine import Statement
from replication.reconcile.findings import COPY_FINDINGS, FINDINGS, Difference
from replication.reconcile.signatures import DAMAGED, DETAILS, UNSIGNED
from replication.reconcile.topology import WHOLE_CATALOG, Topology

_CODES: dict[FindingName, int] = {name: code for code, name in enumerate(FINDINGS, 1)}
_NO_FINDING = 0
_NO_OWNER = -1
_NEVER = 2**63 - 1
_COMPARED = ("epoch", "deleted", "fp")
_SHOWN = ("authority", "origin", "xid", "epoch", "deleted", "digest", "changedat")
_BIT = "(CAST(1 AS BIGINT) << {})"

TOTALS: Mapping[str, str] = {
    "origins": "count(*)",
    "unverifiable": f"coalesce(count_if(owner = {_NO_OWNER}), 0)",
    "doubled": "coalesce(count_if(copies > bit_count(present)), 0)",
}
"""Aggregates over `{origins}`: the number of origins, of origins without a compared authority, and
of origins that a catalog lists twice."""

# The order matters: the first true condition decides. A correct copy gets `_NO_FINDING`.
_FINDING = f"""CASE
    WHEN owner = catalog THEN {_NO_FINDING}
    WHEN epoch IS NULL AND (reference_epoch IS NULL OR reference_deleted = 1
        OR (expected & {_BIT.format("catalog")}) = 0) THEN {_NO_FINDING}
    WHEN epoch IS NULL THEN {_CODES["missing"]}
    WHEN reference_epoch IS NULL AND deleted = 1 THEN {_NO_FINDING}
    WHEN reference_epoch IS NULL THEN {_CODES["orphaned"]}
    WHEN deleted = 1 AND reference_deleted = 1 THEN {_NO_FINDING}
    WHEN epoch < reference_epoch THEN {_CODES["stale"]}
    WHEN epoch > reference_epoch THEN {_CODES["ahead"]}
    WHEN (damaged & {_BIT.format("catalog")}) <> 0 THEN {_NO_FINDING}
    WHEN fp <> reference_fp OR deleted <> reference_deleted THEN {_CODES["diverged"]}
    ELSE {_NO_FINDING} END"""
# Unlike `_FINDING`, these findings also concern the copy at the authority's own catalog.
_COPY_FINDING = f"""CASE
    WHEN (damaged & {_BIT.format("catalog")}) <> 0 THEN {_CODES["damaged"]}
    WHEN (forged & {_BIT.format("catalog")}) <> 0 THEN {_CODES["forged"]}
    WHEN (unsigned & {_BIT.format("catalog")}) <> 0 THEN {_CODES["unsigned"]}
    ELSE {_NO_FINDING} END"""


def origins_of(topology: Topology) -> Statement:
    """A row for each origin of `{rows}`, with the columns of the copy at every catalog."""
    arguments: dict[str, str] = {}
    numbers = _numbers(topology)
    per_catalog = "".join(
        f",\n        max(CASE WHEN catalog = {catalog} THEN {name} END) AS {name}_{catalog}"
        for catalog in range(len(topology.names))
        for name in _COMPARED
    )
    # An origin has one authority, so what depends on the authority is decided once for an origin.
    # A catalog has one copy of an origin, so there is nothing to aggregate before the shuffle. The
    # hint, a comment for DuckDB, makes Spark send these rows, which are narrower than aggregates.
    text = f"""
WITH numbered AS (
    SELECT /*+ REPARTITION(h1, h2) */ catalog, h1, h2, epoch, fp, signature,
        CAST(deleted AS INT) AS deleted,
        {_BIT.format("catalog")} AS bit,
        {_number(numbers, arguments)} AS number,
        {_selected(topology, numbers, arguments)} AS selected
    FROM {{rows}} AS r
), held AS (
    SELECT h1, h2,
        max(number) AS number,
        max(selected) AS selected,
        count(*) AS copies,
        bit_or(bit) AS present,
        bit_or(CASE WHEN signature = {UNSIGNED} THEN bit ELSE 0 END) AS unsigned,
        bit_or(CASE WHEN signature > {UNSIGNED} AND signature < {DAMAGED} THEN bit ELSE 0 END)
            AS forged,
        bit_or(CASE WHEN signature = {DAMAGED} THEN bit ELSE 0 END) AS damaged,
        min(epoch) AS least_epoch, max(epoch) AS most_epoch,
        min(fp) AS least_fp, max(fp) AS most_fp{per_catalog}
    FROM numbered GROUP BY h1, h2
)
SELECT *,
    CASE WHEN number < {len(topology.names)} THEN number ELSE {_NO_OWNER} END AS owner,
    {_whole(topology, numbers)} | selected AS expected
FROM held"""
    return Statement(text, arguments)


def _numbers(topology: Topology) -> dict[str, int]:
    """A number for each authority that is compared or covered; an owner has its own position."""
    covered = (authority for each in topology.coverage for authority in each)
    named = dict.fromkeys((*topology.authorities, *sorted(covered)))
    return {authority: number for number, authority in enumerate(named)}


def _number(numbers: Mapping[str, int], arguments: dict[str, str]) -> str:
    """SQL for the number of a row's authority, or `_NO_OWNER`."""
    cases = ""
    for authority, number in numbers.items():
        arguments[f"authority{number}"] = authority
        cases += f" WHEN r.authority = :authority{number} THEN {number}"
    return f"CASE{cases} ELSE {_NO_OWNER} END"


def _whole(topology: Topology, numbers: Mapping[str, int]) -> str:
    """SQL for a mask of the catalogs that should carry everything of an origin's authority."""
    masks = dict.fromkeys(numbers.values(), 0)
    for position, by_authority in enumerate(topology.coverage):
        for authority, coverage in by_authority.items():
            if coverage.subtrees >= WHOLE_CATALOG:
                masks[numbers[authority]] |= 1 << position
    cases = " ".join(f"WHEN {number} THEN {mask}" for number, mask in masks.items())
    return f"CAST(CASE number {cases} ELSE 0 END AS BIGINT)"


def _selected(topology: Topology, numbers: Mapping[str, int], arguments: dict[str, str]) -> str:
    """SQL for a mask of the catalogs that should carry an origin by its path."""
    bits = ["CAST(0 AS BIGINT)"]
    for position, by_authority in enumerate(topology.coverage):
        conditions = [
            _covered(numbers[authority], path, arguments)
            for authority, coverage in by_authority.items()
            if not coverage.subtrees >= WHOLE_CATALOG
            for path in sorted(coverage.subtrees)
        ]
        if conditions:
            is_covered = " OR ".join(conditions)
            bits.append(f"CASE WHEN {is_covered} THEN CAST({1 << position} AS BIGINT) ELSE 0 END")
    return " | ".join(f"({bit})" for bit in bits)


def _covered(authority: int, path: str, arguments: dict[str, str]) -> str:
    number = len(arguments)
    arguments[f"path{number}"], arguments[f"below{number}"] = path, f"{path}/"
    # `left` instead of LIKE, since an id may contain the wildcard `_`.
    return (
        f"(r.authority = :authority{authority} AND (r.origin = :path{number}"
        f" OR left(r.origin, {len(path) + 1}) = :below{number}))"
    )


def differences_in(topology: Topology) -> Statement:
    """A row for each difference: an origin of `{origins}`, a catalog and a finding.

    The columns are the hashes `h1` and `h2` of the origin, the positions `catalog` and `reference`
    of catalogs, and the `code` of the finding.
    """
    catalogs = range(len(topology.names))
    spoilt = "(unsigned | forged | damaged)"
    sound = (
        f"CASE WHEN ({spoilt} & CAST({1 << n} AS BIGINT)) = 0 THEN epoch_{n} END AS sound_{n}"
        for n in catalogs
    )
    owner_bit = f"CASE WHEN owner = {_NO_OWNER} THEN 0 ELSE {_BIT.format('owner')} END"
    # From `copies` on, a row is about one catalog, so that the code that Spark generates for the
    # rule grows little with the number of catalogs. `k` doubles the rows, since a copy may differ
    # from the reference and have a fault of its own, too.
    text = f"""
WITH suspects AS (
    SELECT *, {owner_bit} AS owner_bit, {", ".join(sound)} FROM {{origins}}
    WHERE least_epoch <> most_epoch OR least_fp <> most_fp
        OR (expected & (~present)) <> 0
        OR (owner <> {_NO_OWNER} AND (present & ({owner_bit})) = 0)
        OR {spoilt} <> 0
), ranked AS (
    SELECT *, greatest({_listed("sound", catalogs)}) AS newest_sound FROM suspects
), referred AS (
    -- Copies that are unsigned, forged or damaged come after the others, the owner's too.
    SELECT *, CASE
        WHEN owner <> {_NO_OWNER} AND ({spoilt} & owner_bit) = 0 THEN owner
        {_first("sound", "newest_sound", catalogs)}
        WHEN owner <> {_NO_OWNER} THEN owner
        {_first("epoch", "most_epoch", catalogs)}
        END AS reference
    FROM ranked
), copies AS (
    SELECT h1, h2, owner, expected, unsigned, forged, damaged, reference, c.catalog,
        {", ".join(_at("reference", name, catalogs, f"reference_{name}") for name in _COMPARED)},
        {", ".join(_at("c.catalog", name, catalogs, name) for name in _COMPARED)}
    FROM referred CROSS JOIN ({_values(catalogs)}) AS c(catalog)
), judged AS (
    SELECT h1, h2, catalog, reference,
        CASE WHEN k.is_about_copy = 1 THEN {_COPY_FINDING} ELSE {_FINDING} END AS code
    FROM copies CROSS JOIN (VALUES (0), (1)) AS k(is_about_copy)
)
SELECT * FROM judged WHERE code <> {_NO_FINDING}"""
    return Statement(text)


def _listed(name: str, catalogs: Iterable[int]) -> str:
    return ", ".join(f"{name}_{n}" for n in catalogs)


def _values(catalogs: Iterable[int]) -> str:
    return f"VALUES {', '.join(f'({n})' for n in catalogs)}"


def _first(name: str, most: str, catalogs: Iterable[int]) -> str:
    """SQL cases for the first catalog whose column equals the greatest value, `most`."""
    return " ".join(f"WHEN {name}_{n} = {most} THEN {n}" for n in catalogs)


def _at(catalog: str, name: str, catalogs: Iterable[int], alias: str) -> str:
    """SQL for the column of the copy at the catalog of a row."""
    cases = " ".join(f"WHEN {n} THEN {name}_{n}" for n in catalogs)
    return f"CASE {catalog} {cases} END AS {alias}"


def held_of(*, is_few: bool) -> Statement:
    """All copies in `{rows}` of the origins that differ, `{found}`.

    Args:
        is_few: send the differences to every worker, so that Spark need not shuffle the rows.
    """
    shown = ", ".join(f"r.{name}" for name in _SHOWN)
    text = f"""
WITH wanted AS (
    SELECT DISTINCT h1, h2 FROM {{found}}
)
SELECT {_broadcast("w", is_few=is_few)} r.h1, r.h2, r.catalog, r.signature, {shown}
FROM {{rows}} AS r SEMI JOIN wanted AS w ON w.h1 = r.h1 AND w.h2 = r.h2"""
    return Statement(text)


def copies_of() -> Statement:
    """The differences `{found}`, each with the copy and the reference from `{held}`."""
    text = """
SELECT f.h1, f.h2, f.catalog, f.reference, f.code, c.signature,
    coalesce(c.authority, o.authority) AS authority, coalesce(c.origin, o.origin) AS origin,
    coalesce(c.xid, c.origin, o.origin) AS path,
    c.xid, c.epoch, c.deleted, c.digest, c.changedat, o.epoch AS reference_epoch,
    o.deleted AS reference_deleted, o.digest AS reference_digest,
    o.changedat AS reference_changedat
FROM {found} AS f
LEFT JOIN {held} AS o ON o.h1 = f.h1 AND o.h2 = f.h2 AND o.catalog = f.reference
LEFT JOIN {held} AS c ON c.h1 = f.h1 AND c.h2 = f.h2 AND c.catalog = f.catalog"""
    return Statement(text)


def _broadcast(relation: str, *, is_few: bool) -> str:
    return f"/*+ BROADCAST({relation}) */" if is_few else ""


def described(topology: Topology, *, is_few: bool) -> Statement:
    """The differences `{copies}` of `copies_of`, with the columns of `Difference`.

    A missing copy counts as collided if the xid belongs to another authority in `{rows}`. A
    difference by a change that is later than the moment of the reference, or could not have
    arrived at the moment of the copy, is left out: the change was in flight.

    Args:
        is_few: send the differences to every worker, so that Spark need not shuffle the rows.
    """
    catalogs = {f"catalog{n}": name for n, name in enumerate(topology.names)}
    details = {f"detail{n}": text for n, text in enumerate(DETAILS, UNSIGNED)}
    signed = ", ".join(str(_CODES[name]) for name in sorted(COPY_FINDINGS))
    columns = {
        "finding": _chosen("d.code", ((str(code), f"'{name}'") for name, code in _CODES.items())),
        "catalog": _named("d.catalog", topology.names),
        "reference": f"CASE WHEN d.reference_epoch IS NOT NULL"
        f" THEN {_named('d.reference', topology.names)} END",
        "detail": f"CASE WHEN d.code IN ({signed}) THEN "
        + _chosen(
            "d.signature",
            ((str(n), f":detail{n}") for n in range(UNSIGNED, UNSIGNED + len(DETAILS))),
        )
        + " END",
        **{
            f"rival_{name}": f"CASE WHEN d.code = {_CODES['collided']} THEN d.rival_{name} END"
            for name in ("authority", "origin")
        },
    }
    selected = ", ".join(
        f"{columns.get(each.name, f'd.{each.name}')} AS {each.name}" for each in fields(Difference)
    )
    text = f"""
WITH asked AS (
    SELECT h1, h2, catalog, authority, path FROM {{copies}}
    WHERE code = {_CODES["missing"]}
), paths AS (
    SELECT DISTINCT catalog, path FROM asked
), holders AS (
    SELECT {_broadcast("p", is_few=is_few)} r.catalog, r.xid, r.authority, r.origin
    FROM {{rows}} AS r SEMI JOIN paths AS p ON p.catalog = r.catalog AND p.path = r.xid
    WHERE NOT r.deleted
), rivals AS (
    SELECT a.h1, a.h2, a.catalog, r.authority AS rival_authority, r.origin AS rival_origin,
        row_number() OVER (
            PARTITION BY a.h1, a.h2, a.catalog ORDER BY r.authority, r.origin
        ) AS place
    FROM asked AS a JOIN holders AS r ON r.catalog = a.catalog AND r.xid = a.path
    WHERE r.authority <> a.authority
), done AS (
    SELECT w.signature, w.catalog, w.reference, w.authority, w.origin, w.xid, w.epoch,
        w.deleted, w.digest, w.changedat, w.reference_epoch, w.reference_deleted,
        w.reference_digest, w.reference_changedat, r.rival_authority, r.rival_origin,
        CASE WHEN w.code = {_CODES["missing"]} AND r.place IS NOT NULL
            THEN {_CODES["collided"]} ELSE w.code END AS code
    FROM {{copies}} AS w LEFT JOIN rivals AS r
        ON r.h1 = w.h1 AND r.h2 = w.h2 AND r.catalog = w.catalog AND r.place = 1
)
SELECT {selected} FROM done AS d{_settled(topology)}"""
    return Statement(text, catalogs | details)


def _settled(topology: Topology) -> str:
    """SQL for the condition that both catalogs of a difference show its last change."""
    if not topology.moments:
        return ""
    changed = "greatest(coalesce(d.changedat, 0), coalesce(d.reference_changedat, 0))"
    return "\nWHERE " + " AND ".join(
        f"{changed} < coalesce({_chosen(position, moments)}, {_NEVER})"
        for position, moments in (
            ("d.catalog", [(str(n), str(at - topology.lag)) for n, at in topology.moments.items()]),
            ("d.reference", [(str(n), str(at)) for n, at in topology.moments.items()]),
        )
    )


def _chosen(expression: str, cases: Iterable[tuple[str, str]]) -> str:
    whens = " ".join(f"WHEN {value} THEN {result}" for value, result in cases)
    return f"CASE {expression} {whens} END"


def _named(position: str, names: Sequence[str]) -> str:
    """SQL for the name of the catalog at a position."""
    return _chosen(position, ((str(n), f":catalog{n}") for n in range(len(names))))
