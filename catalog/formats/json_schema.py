"""Checks JSON Schema documents: the dialect, the validity, the references, and the compatibility.

A schema is compatible if the reader's schema accepts every value of the writer's schema. No library
fits: a library knows a single draft, misses changes or gives no reasons. Schemas that cannot be
proved compatible count as incompatible, with an exception: if the writer's schema is open,
properties that the schema does not name count as not written, so that an optional property can be
added to the reader's schema. Closing an open schema is not compatible. `format` is an annotation
and is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any

import jsonschema_rs
from referencing import Registry, Specification
from referencing.exceptions import NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

from catalog.formats.documenttext import (
    MAX_REASONS,
    MalformedDocument,
    Mismatch,
    read_json,
    read_payload,
)
from catalog.formats.json_assertions import (
    EXACTLY,
    TYPES,
    Facts,
    SchemaPart,
    conjuncts,
    equal,
    exact_values,
    exactly,
    listed_values,
    property_facts,
    required,
    types,
)
from catalog.formats.json_keywords import CHECKS, Path, shown
from catalog.formats.json_sameness import same

# The claim that a reader's schema accepts every value with the given facts.
Claim = tuple[frozenset[SchemaPart], SchemaPart]
ONE_TYPE = {name: {"type": name} for name in TYPES}


def obstacle(writer: SchemaPart, reader: SchemaPart) -> str:
    """The reason why the reader may reject a value that the writer's schema accepts, or ""."""
    return Comparison().gap([writer.at(writer.schema)], reader.at(reader.schema), ())


class Comparison:
    """A comparison of two schemas, which may be recursive.

    A claim that is being proved about a value may be assumed for the smaller values inside of the
    value, at longer paths. Recursive schemas can therefore be compared, and no claim is proved by
    assuming itself.
    """

    def __init__(self) -> None:
        # Claims that are proved or being proved, each with the length of the path.
        self._shown: dict[Claim, int] = {}
        self._open: set[tuple[Claim, int]] = set()
        self._excluding: set[Claim] = set()
        # Parts are compared by the identity of the schema: made schemas must outlive the parts.
        self._made: dict[tuple[int, str, int], dict[Any, Any]] = {}

    def gap(self, writer: Facts, reader: SchemaPart, at: Path) -> str:
        """The reason why the reader may reject a value with the writer's facts, or ""."""
        facts = conjuncts(writer)
        claim, depth = (frozenset(facts), reader), len(at)
        if not types(facts) or self._shown.get(claim, depth) < depth:
            return ""
        if (claim, depth) in self._open:
            return f"{shown(at)}: refers to itself"
        before = dict(self._shown)
        self._shown[claim] = depth
        self._open.add((claim, depth))
        problem = self._direct_gap(facts, reader, at)
        if problem and (cases := self._cases(facts)):
            # The failed attempt may have assumed claims that do not hold.
            self._shown = before | {claim: depth}
            problem = self._first(self.gap(case, reader, at) for case in cases)
        self._open.discard((claim, depth))
        if problem:
            self._shown = before
        return problem

    def fits(self, writer: Facts, reader: SchemaPart, at: Path) -> bool:
        return not self.gap(writer, reader, at)

    def excluded(self, facts: Facts, part: SchemaPart, at: Path) -> bool:
        """Whether a part provably rejects every value with the facts."""
        facts, others = conjuncts(facts), conjuncts([part])
        claim = frozenset(facts), part
        # A claim that is being proved must not prove itself.
        if claim in self._excluding:
            return False
        self._excluding.add(claim)
        is_excluded = (
            not types(facts) & types(others)
            or any(self._is_ruled_out(fact, part, at) for fact in facts)
            or _differ_in_value(facts, others)
            or self._differ_in_property(facts, others, at)
        )
        self._excluding.discard(claim)
        return is_excluded

    def _direct_gap(self, facts: Facts, reader: SchemaPart, at: Path) -> str:
        left = types(facts)
        return self._first(
            problem
            for demand in conjuncts([reader])
            if not any(same(fact, demand) for fact in facts)
            for check, kinds in CHECKS
            if left & kinds
            for problem in check(self, facts, demand, at)
        )

    def _cases(self, facts: Facts) -> list[list[SchemaPart]]:
        """Split facts into cases that together cover every value; empty if nothing is to split."""
        # The facts include the targets of allOf and $ref already. With the keywords kept,
        # `conjuncts` would add the fact that is split below to every case again.
        facts = [self._without(fact, "allOf", "$ref") for fact in facts]
        for fact in facts:
            rest = [other for other in facts if other != fact]
            if several := self._cases_of(fact):
                remainder = self._without(fact, several[0])
                return [[*rest, remainder, *case] for case in several[1]]
        return self._cases_of_types(facts)

    def _cases_of(self, fact: SchemaPart) -> tuple[str, list[list[SchemaPart]]] | None:
        keywords = fact.says()
        if "const" in keywords:
            return "const", [[self._exact(fact, "const", 0, keywords["const"])]]
        if "enum" in keywords:
            values = enumerate(keywords["enum"])
            return "enum", [[self._exact(fact, "enum", i, value)] for i, value in values]
        if "anyOf" in keywords:
            return "anyOf", [[branch] for branch in fact.members("anyOf")]
        if "oneOf" in keywords:
            return "oneOf", [*self._only_one(fact)]
        return None

    def _cases_of_types(self, facts: Facts) -> list[list[SchemaPart]]:
        left = types(facts)
        if any(EXACTLY in fact.schema for fact in facts):
            return []
        if left == TYPES["boolean"]:
            values = enumerate((False, True))
            return [[*facts, self._exact(facts[0], "boolean", i, value)] for i, value in values]
        if left == TYPES["null"]:
            return [[*facts, self._exact(facts[0], "null", 0, None)]]
        kinds = [name for name, kind in TYPES.items() if kind & left and name != "integer"]
        if len(kinds) < 2:
            return []
        return [[*facts, facts[0].at(ONE_TYPE[name])] for name in kinds]

    def _only_one(self, fact: SchemaPart) -> Iterator[list[SchemaPart]]:
        branches = fact.members("oneOf")
        for chosen in branches:
            others = [i for i, branch in enumerate(branches) if branch is not chosen]
            yield [chosen, *(self._negation(fact, i, branches[i]) for i in others)]

    def _negation(self, fact: SchemaPart, index: int, branch: SchemaPart) -> SchemaPart:
        made = self._made.setdefault((id(fact.schema), "not", index), {"not": branch.schema})
        return fact.at(made)

    def _exact(self, fact: SchemaPart, keyword: str, index: int, value: Any) -> SchemaPart:
        key = (id(fact.schema), keyword, index)
        if key not in self._made:
            self._made[key] = exactly(value)
        return fact.at(self._made[key])

    def _without(self, fact: SchemaPart, *keywords: str) -> SchemaPart:
        said = fact.says()
        if not said.keys() & set(keywords):
            return fact
        # The schema is kept, because the identity of the schema tells parts apart.
        key = (id(fact.schema), f"without {keywords}", 0)
        if key not in self._made:
            self._made[key] = {name: said[name] for name in said if name not in keywords}
        return fact.at(self._made[key])

    def _is_ruled_out(self, fact: SchemaPart, part: SchemaPart, at: Path) -> bool:
        keywords = fact.says()
        return "not" in keywords and self.fits([part], fact.at(keywords["not"]), at)

    def _differ_in_property(self, facts: Facts, others: Facts, at: Path) -> bool:
        if types(facts) & types(others) != TYPES["object"]:
            return False
        for name in required(facts) | required(others):
            mine, theirs = property_facts(facts, name), property_facts(others, name)
            if not types(mine) or not types(theirs):
                return True
            if any(mine and self.excluded(mine, their, (*at, name)) for their in theirs):
                return True
        return False

    @staticmethod
    def _first(problems: Iterator[str]) -> str:
        return next((problem for problem in problems if problem), "")


def _differ_in_value(facts: Facts, others: Facts) -> bool:
    """Whether both sides list the accepted values, and the lists have no value in common."""
    return any(
        not any(equal(value, listed) for value in mine for listed in theirs)
        for mine in _listed(facts)
        for theirs in _listed(others)
    )


def _listed(facts: Facts) -> Iterator[list[Any]]:
    yield from ([value] for value in exact_values(facts))
    yield from (values for fact in facts for _, values in listed_values(fact))


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A published version of JSON Schema."""

    uri: str
    specification: Specification[Any]


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "draft-04": Dialect(uri="http://json-schema.org/draft-04/schema", specification=DRAFT4),
        "draft-06": Dialect(uri="http://json-schema.org/draft-06/schema", specification=DRAFT6),
        "draft-07": Dialect(uri="http://json-schema.org/draft-07/schema", specification=DRAFT7),
        "draft-2019-09": Dialect(
            uri="https://json-schema.org/draft/2019-09/schema", specification=DRAFT201909
        ),
        "draft-2020-12": Dialect(
            uri="https://json-schema.org/draft/2020-12/schema", specification=DRAFT202012
        ),
    }
)
_WHOLE = "urn:concord:schema"
LATEST = DIALECTS["draft-2020-12"]


def validate(format: str, document: bytes) -> str:
    """Check a schema against the meta-schema of the dialect, and references into the schema.

    An empty document is no schema. A $schema that contradicts the dialect of the format is an
    error. References to other documents are not followed.
    """
    _read(format, document)
    return ""


def compare(format: str, older: bytes, newer: bytes, direction: str) -> str:
    """Compare the values that the schemas accept; see `json_evolution`."""
    parts = _read(format, older), _read(format, newer)
    writer, reader = parts if direction == "backward" else (parts[1], parts[0])
    return obstacle(writer, reader)


def conform(format: str, schema: bytes, payload: bytes, contenttype: str, part: str) -> str:
    """Validate a JSON payload. `part` is a JSON pointer in the schema."""
    described = _read(format, schema).schema
    dialect = _dialect(format, described)
    if isinstance(described, dict):
        described = {**described, "$schema": dialect.uri}
    validator = _validator(described, dialect, part)
    value = read_payload(payload)
    try:
        errors = list(islice(validator.iter_errors(value), MAX_REASONS))
    except ValueError as error:
        raise Mismatch(f"it cannot be checked: {error}") from error
    return "; ".join(f"{_pointer(error)}: {error.message}" for error in errors)


def _validator(schema: Any, dialect: Dialect, part: str) -> Any:
    """Build the validator of values, which fetches no references to other documents."""
    entry = {"$schema": dialect.uri, "$ref": f"{_WHOLE}#{part}"} if part else schema
    whole = [(_WHOLE, schema)] if part else []
    try:
        registry = jsonschema_rs.Registry(whole, retriever=_refuse)
        return jsonschema_rs.validator_for(entry, registry=registry, retriever=_refuse)
    except ValueError as error:
        raise MalformedDocument(str(error).partition("\n")[0]) from error


def _refuse(uri: str) -> Any:
    raise ValueError("nothing but the document itself is read")


def _pointer(error: jsonschema_rs.ValidationError) -> str:
    return "".join(f"/{step}" for step in error.instance_path) or "/"


def _read(format: str, document: bytes) -> SchemaPart:
    schema = read_json(document)
    dialect = _dialect(format, schema)
    _check_by_meta_schema(schema, dialect)
    resource = dialect.specification.create_resource(schema)
    registry: Registry[Any] = Registry()
    part = SchemaPart(schema, registry.resolver_with_root(resource), dialect.specification)
    _check_references(part)
    return part


def _dialect(format: str, schema: Any) -> Dialect:
    """The dialect that the format names, or else $schema, or else the latest dialect.

    Raises:
        MalformedDocument: $schema names an unknown dialect, or contradicts the format.
    """
    version = format.removeprefix("jsonschema").removeprefix("/").replace("draft/", "draft-")
    declared = schema.get("$schema") if isinstance(schema, dict) else None
    if declared is None:
        return DIALECTS[version] if version else LATEST
    allowed = [DIALECTS[version]] if version else DIALECTS.values()
    for dialect in allowed:
        if _without_scheme(str(declared)) == _without_scheme(dialect.uri):
            return dialect
    raise MalformedDocument(f"its $schema is {declared}, which is not what its format says")


def _without_scheme(uri: str) -> str:
    return uri.removesuffix("#").partition("://")[2]


def _check_by_meta_schema(schema: Any, dialect: Dialect) -> None:
    """Validate a schema.

    Draft 4 has no boolean schemas; the other drafts accept a boolean, which has no $schema.
    """
    if not isinstance(schema, dict):
        if not isinstance(schema, bool) or dialect is DIALECTS["draft-04"]:
            raise MalformedDocument("a schema of this dialect is not of this type")
        return
    try:
        jsonschema_rs.meta.validate({**schema, "$schema": dialect.uri})
    except jsonschema_rs.ValidationError as error:
        raise MalformedDocument(f"{_pointer(error)}: {error.message}") from error
    except ValueError as error:
        raise MalformedDocument(str(error)) from error


def _check_references(root: SchemaPart) -> None:
    """Reject references to missing places in the document.

    Raises:
        MalformedDocument: a reference leads nowhere.
    """
    pending = [root]
    while pending:
        part = pending.pop()
        if not isinstance(part.schema, dict):
            continue
        reference = part.schema.get("$ref")
        if isinstance(reference, str) and (missing := _missing(part, reference)):
            raise MalformedDocument(missing)
        pending += part.children()


def _missing(part: SchemaPart, reference: str) -> str:
    try:
        part.resolver.lookup(reference)
    except (NoSuchAnchor, PointerToNowhere):
        return f"its reference {reference} leads nowhere"
    except Unresolvable:
        return ""
    return ""
