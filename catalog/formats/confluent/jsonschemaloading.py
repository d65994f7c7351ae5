"""Loads JSON schemas into parts, and refuses the schemas that Confluent refuses.

Drafts 4, 6 and 7, and schemas of no known draft, load as the library everit-json-schema loads
them, and the drafts since 2019-09 as json-sKema does, whose result Confluent translates. Both
check types of keywords instead of the meta-schema, and only in places that they reach.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urljoin

from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT4, DRAFT7

from catalog.formats.confluent.jsondocument import printed
from catalog.formats.confluent.jsonschemakeywords import (
    CRITERIA,
    DRAFT_7,
    DRAFTS,
    MODERN,
    NUMBER_KEYWORDS,
    OLDER,
    SchemaDraft,
    check_regex,
    check_uri,
    draft_of,
    is_number,
    members,
    names_of,
    number_of,
    typed,
    value_of,
)
from catalog.formats.confluent.jsonschemamodel import (
    ArrayNode,
    CombinedNode,
    ConstNode,
    EnumNode,
    NotNode,
    NumberNode,
    ObjectNode,
    PlainNode,
    ReferenceNode,
    SchemaNode,
    StringNode,
)
from catalog.formats.documenttext import MalformedDocument

if TYPE_CHECKING:
    from referencing._core import Resolver

# The library gives its type of resolvers no public name.
Resolving: TypeAlias = "Resolver[Any]"


def load(schema: Any, references: Mapping[str, Any]) -> SchemaNode:
    """Build the model of a schema.

    Args:
        schema: The document.
        references: The other documents by the names by which schemas refer to them.

    Raises:
        MalformedDocument: the schema is not valid, or refers to what is missing.
    """
    if isinstance(schema, bool):
        return PlainNode(kind="true" if schema else "false")
    if not isinstance(schema, dict):
        raise MalformedDocument("a schema is an object, true or false")
    try:
        return Loading(draft_of(schema, DRAFT_7), schema, references).load(schema)
    except MalformedDocument:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        # The library for references takes it that identifiers and anchors are URIs.
        raise MalformedDocument("an identifier or an anchor in it is malformed") from error


class Loading:
    """The loading of a schema and of all that it refers to."""

    def __init__(
        self, draft: SchemaDraft, root: dict[str, Any], references: Mapping[str, Any]
    ) -> None:
        self._modern = draft.is_modern
        self._draft4 = draft.specification is DRAFT4
        self._keywords = MODERN if draft.is_modern else OLDER
        self._specification = draft.specification
        self._identifier = "id" if self._draft4 else "$id"
        identifier = root.get(self._identifier)
        base = identifier.rstrip("#") if isinstance(identifier, str) else ""
        registry: Registry[Any] = Registry()
        # A schema may refer to meta-schemas, which are not compared.
        for known in DRAFTS:
            anything = known.specification.create_resource({})
            registry = registry.with_resources(
                [(f"{scheme}://{known.uri}", anything) for scheme in ("http", "https")]
            )
        for name, document in references.items():
            if not isinstance(document, dict) and not draft.is_modern:
                raise MalformedDocument(f"the schema that {name} refers to is no object")
            other = draft_of(document, draft).specification.create_resource(document)
            registry = registry.with_resources([(name, other), (urljoin(base, name), other)])
        resource = draft.specification.create_resource(root)
        self._outermost = registry.resolver()
        self._root = registry.with_resource(base, resource).resolver(base)
        self._schemas: dict[int, SchemaNode] = {}
        self._pending: list[tuple[Any, Resolving]] = []

    def load(self, root: Any) -> SchemaNode:
        """Build the model of the root."""
        self._pending.append((root, self._root))
        while self._pending:
            schema, resolver = self._pending.pop()
            if id(schema) not in self._schemas:
                self._schemas[id(schema)] = self._node(schema, resolver)
        return self._schemas[id(root)]

    def _child(self, schema: Any, resolver: Resolving) -> SchemaNode:
        if isinstance(schema, dict):
            resolver = resolver.in_subresource(self._specification.create_resource(schema))
        return self._node(schema, resolver)

    def _node(self, schema: Any, resolver: Resolving) -> SchemaNode:
        if isinstance(schema, bool):
            return PlainNode(kind="true" if schema else "false", source=schema)
        if not isinstance(schema, dict):
            raise MalformedDocument("a schema in it is neither an object nor true or false")
        parts = (
            self._modern_parts(schema, resolver) if self._modern else self._parts(schema, resolver)
        )
        self._check_annotations(schema)
        match parts:
            case []:
                node: SchemaNode = PlainNode(kind="empty")
            case [part]:
                node = part
            case _:
                node = CombinedNode(criterion="allOf", parts=parts, is_implied=True)
        node.source = schema
        node.has_default = (
            schema.get("default") is not None if self._modern else "default" in schema
        )
        node.connects_bytes = schema.get("connect.type") == "bytes"
        return node

    def _check_annotations(self, schema: dict[str, Any]) -> None:
        annotations: dict[str, type] = {"title": str, "description": str}
        if self._modern:
            annotations |= {"deprecated": bool, "readOnly": bool, "writeOnly": bool, "format": str}
        else:
            annotations[self._identifier] = str
            if self._specification is DRAFT7:
                annotations |= {"readOnly": bool, "writeOnly": bool}
        for keyword, kind in annotations.items():
            if keyword in schema:
                value_of(schema, keyword, kind)
        if isinstance(schema.get(self._identifier), str):
            check_uri(schema[self._identifier])

    def _parts(self, schema: dict[str, Any], resolver: Resolving) -> list[SchemaNode]:
        """Divide a schema of draft 4, 6 or 7."""
        if "$ref" in schema:
            return [self._reference(schema, "$ref", resolver)]
        parts = [
            self._keyword(schema, keyword, resolver)
            for keyword in ("enum", *CRITERIA, "not", "const")
            if keyword in schema and not (keyword == "const" and self._draft4)
        ]
        used: set[str] = set()
        if "type" in schema:
            parts.append(self._typed(schema, resolver, used))
        parts += [
            self._of_kind(kind, schema, resolver)
            for kind, keywords in self._keywords.items()
            if kind not in used and any(self._counts(keyword, schema) for keyword in keywords)
        ]
        branches = [schema[keyword] for keyword in ("if", "then", "else") if keyword in schema]
        if self._specification is DRAFT7 and branches:
            parts.append(self._conditional(branches, resolver))
        return parts

    def _modern_parts(self, schema: dict[str, Any], resolver: Resolving) -> list[SchemaNode]:
        """Divide a schema of draft 2019-09 or 2020-12, whose references have neighbours."""
        for definitions in ("$defs", "definitions"):
            if definitions == "$defs" or isinstance(schema.get(definitions), dict):
                for definition in members(schema, definitions).values():
                    self._child(definition, resolver)
        used: set[str] = set()
        typed = [self._typed(schema, resolver, used)] if "type" in schema else []
        parts: list[SchemaNode] = []
        kinds = {word: kind for kind, words in self._keywords.items() for word in words}
        for keyword in schema:
            if keyword == "type":
                parts += typed
            elif keyword in ("$ref", "$dynamicRef"):
                parts.append(self._reference(schema, keyword, resolver))
            elif keyword in ("enum", *CRITERIA, "not", "const"):
                parts.append(self._keyword(schema, keyword, resolver))
            elif keyword == "if":
                branches = [schema[word] for word in ("if", "then", "else") if word in schema]
                parts.append(self._conditional(branches, resolver))
            elif kinds.get(keyword, "any") not in (*used, "any") and self._counts(keyword, schema):
                used.add(kinds[keyword])
                parts.append(self._of_kind(kinds[keyword], schema, resolver))
        return parts

    def _counts(self, keyword: str, schema: dict[str, Any]) -> bool:
        """Whether a keyword alone makes a part of a schema."""
        if keyword not in schema or (self._draft4 and keyword in ("contains", "propertyNames")):
            return False
        maps = ("properties", "patternProperties")
        return not (self._modern and keyword in maps and schema[keyword] == {})

    def _keyword(self, schema: dict[str, Any], keyword: str, resolver: Resolving) -> SchemaNode:
        value = schema[keyword]
        source = {keyword: value}
        match keyword:
            case "enum":
                values = value_of(schema, keyword, list)
                texts = frozenset(printed(element, in_order=True) for element in values)
                return EnumNode(values=texts, source=source)
            case "const":
                return ConstNode(value=printed(value, in_order=True), source=source)
            case "not":
                return NotNode(negated=self._child(value, resolver), source=source)
            case "allOf" | "anyOf" | "oneOf":
                parts = []
                for element in value_of(schema, keyword, list):
                    part = self._child(element, resolver)
                    # Confluent's translation dissolves what is combined by neighbourhood alone.
                    is_dissolved = (
                        self._modern and isinstance(part, CombinedNode) and part.is_implied
                    )
                    parts += (
                        part.parts if is_dissolved and isinstance(part, CombinedNode) else [part]
                    )
                return CombinedNode(criterion=keyword, parts=parts, source=source)
            case _:
                raise AssertionError(keyword)

    def _typed(self, schema: dict[str, Any], resolver: Resolving, used: set[str]) -> SchemaNode:
        """Build the part of `type`, and note of which kinds it uses the keywords."""
        match schema["type"]:
            case str() as name:
                return self._of_type(name, schema, resolver, used)
            case list() as names:
                parts = [self._of_type(name, schema, resolver, used) for name in names]
                return CombinedNode(criterion="anyOf", parts=parts, source={"type": names})
            case _:
                raise MalformedDocument("type is neither a string nor an array")

    def _of_type(
        self, name: Any, schema: dict[str, Any], resolver: Resolving, used: set[str]
    ) -> SchemaNode:
        match name:
            case "boolean" | "null":
                return PlainNode(kind=name, source={"type": name})
            case "integer" | "number":
                used.add("number")
                node = self._number(schema)
                node.is_integer = name == "integer"
                node.source |= {"type": name}
            case "string" | "array" | "object":
                used.add(name)
                return self._of_kind(name, schema, resolver)
            case _:
                raise MalformedDocument(f"{str(name)[:100]} is no type")
        return node

    def _of_kind(self, kind: str, schema: dict[str, Any], resolver: Resolving) -> SchemaNode:
        match kind:
            case "number":
                return self._number(schema)
            case "string":
                return self._string(schema)
            case "object":
                return self._object(schema, resolver)
            case _:
                return self._array(schema, resolver)

    def _source(self, kind: str, schema: dict[str, Any]) -> dict[str, Any]:
        keywords = self._keywords[kind]
        return {keyword: schema[keyword] for keyword in keywords if keyword in schema} | {
            "type": kind
        }

    def _limits(self, schema: dict[str, Any], *keywords: str) -> dict[str, Any]:
        """Return limits of sizes, which libraries of older drafts read as Java's integers."""
        limits = {word: number_of(schema, word) for word in keywords if word in schema}
        for keyword, value in limits.items():
            if not self._modern and (not isinstance(value, int) or abs(value) >= 2**31):
                raise MalformedDocument(f"{keyword} is not an integer")
        return limits

    def _number(self, schema: dict[str, Any]) -> NumberNode:
        keywords = NUMBER_KEYWORDS[:2]
        limits = {word: number_of(schema, word) for word in keywords if word in schema}
        for keyword in ("exclusiveMaximum", "exclusiveMinimum"):
            if keyword not in schema:
                continue
            if self._draft4:
                value_of(schema, keyword, bool)
            else:
                limits[keyword] = number_of(schema, keyword)
        multiple = number_of(schema, "multipleOf") if "multipleOf" in schema else None
        if not self._modern and multiple == 0:
            raise MalformedDocument("multipleOf is 0")
        return NumberNode(
            limits=limits, multiple_of=multiple, source=self._source("number", schema)
        )

    def _string(self, schema: dict[str, Any]) -> StringNode:
        if "format" in schema:
            value_of(schema, "format", str)
        pattern = value_of(schema, "pattern", str) if "pattern" in schema else None
        if pattern is not None:
            check_regex(pattern)
        limits = self._limits(schema, "maxLength", "minLength")
        return StringNode(limits=limits, pattern=pattern, source=self._source("string", schema))

    def _object(self, schema: dict[str, Any], resolver: Resolving) -> ObjectNode:
        node = ObjectNode(
            limits=self._limits(schema, "maxProperties", "minProperties"),
            source=self._source("object", schema),
        )
        for name, property in members(schema, "properties").items():
            if self._modern or name != self._identifier or isinstance(property, dict):
                node.properties[name] = self._child(property, resolver)
        if "required" in schema:
            node.required = names_of(value_of(schema, "required", list))
        for pattern, property in members(schema, "patternProperties").items():
            check_regex(pattern)
            node.patterns[pattern] = self._child(property, resolver)
        node.is_open, node.others = self._rest(schema, "additionalProperties", resolver)
        if self._modern:
            for name, names in members(schema, "dependentRequired").items():
                node.dependent_names[name] = names_of(typed(names, "dependentRequired", list))
            for name, dependent in members(schema, "dependentSchemas").items():
                node.dependent_schemas[name] = self._child(dependent, resolver)
            node.unevaluated = self._optional(schema, "unevaluatedProperties", resolver)
        else:
            self._add_dependencies(node, members(schema, "dependencies"), resolver)
        if not self._draft4:
            self._optional(schema, "propertyNames", resolver)
        node.dependent_names = {name: of for name, of in node.dependent_names.items() if of}
        return node

    def _add_dependencies(
        self, node: ObjectNode, dependencies: dict[str, Any], resolver: Resolving
    ) -> None:
        for name, dependent in dependencies.items():
            if isinstance(dependent, list):
                node.dependent_names[name] = names_of(dependent)
            else:
                self._check_draft_4(dependent)
                node.dependent_schemas[name] = self._child(dependent, resolver)

    def _check_draft_4(self, schema: Any) -> None:
        """Refuse true and false where draft 4 has neither."""
        if self._draft4 and isinstance(schema, bool):
            raise MalformedDocument("a schema in it is not an object")

    def _array(self, schema: dict[str, Any], resolver: Resolving) -> ArrayNode:
        node = ArrayNode(
            limits=self._limits(schema, "maxItems", "minItems"),
            source=self._source("array", schema),
        )
        if "uniqueItems" in schema:
            node.is_unique = value_of(schema, "uniqueItems", bool)
        if self._modern:
            self._add_modern_items(node, schema, resolver)
        else:
            self._add_items(node, schema, resolver)
        if not self._draft4:
            self._optional(schema, "contains", resolver)
        return node

    def _add_items(self, node: ArrayNode, schema: dict[str, Any], resolver: Resolving) -> None:
        items = schema.get("items")
        if isinstance(items, list):
            node.first = [self._child(item, resolver) for item in items]
        else:
            self._check_draft_4(items)
            node.every = self._optional(schema, "items", resolver)
        node.is_open, node.others = self._rest(schema, "additionalItems", resolver)
        node.is_open = node.is_open or node.every is not None

    def _add_modern_items(
        self, node: ArrayNode, schema: dict[str, Any], resolver: Resolving
    ) -> None:
        if "prefixItems" in schema:
            first = value_of(schema, "prefixItems", list)
            node.first = [self._child(item, resolver) for item in first]
        node.is_open, rest = self._rest(schema, "items", resolver)
        if node.first:
            node.others = rest
        else:
            node.every = rest
        node.unevaluated = self._optional(schema, "unevaluatedItems", resolver)
        if "contains" in schema:
            least, most = schema.get("minContains"), schema.get("maxContains")
            node.limits["minContains"] = least if is_number(least) else 1
            if is_number(most):
                node.limits["maxContains"] = most

    def _rest(
        self, schema: dict[str, Any], keyword: str, resolver: Resolving
    ) -> tuple[bool, SchemaNode | None]:
        """Return whether there may be more than a schema names, and what more must be like."""
        value = schema.get(keyword, True)
        return (value, None) if isinstance(value, bool) else (True, self._child(value, resolver))

    def _optional(
        self, schema: dict[str, Any], keyword: str, resolver: Resolving
    ) -> SchemaNode | None:
        return self._child(schema[keyword], resolver) if keyword in schema else None

    def _conditional(self, branches: list[Any], resolver: Resolving) -> PlainNode:
        for branch in branches:
            self._child(branch, resolver)
        return PlainNode(kind="conditional", source=branches)

    def _reference(
        self, schema: dict[str, Any], keyword: str, resolver: Resolving
    ) -> ReferenceNode:
        reference = value_of(schema, keyword, str)
        if not self._modern:
            check_uri(reference)
        for uri, resolver_of in self._readings(reference, resolver):
            try:
                found = resolver_of.lookup(uri)
            except (Unresolvable, ValueError, TypeError, LookupError):
                continue
            self._pending.append((found.contents, found.resolver))
            return ReferenceNode(
                schemas=self._schemas, target=id(found.contents), source={keyword: reference}
            )
        raise MalformedDocument(f"its reference {reference[:200]} leads nowhere")

    def _readings(self, reference: str, resolver: Resolving) -> Iterator[tuple[str, Resolving]]:
        """Return what a reference can mean: definitions are found by both of their keywords."""
        document, hash, fragment = reference.partition("#")
        fragments = [fragment]
        if fragment.startswith("/$defs/"):
            fragments.append(fragment.replace("/$defs/", "/definitions/", 1))
        for each in fragments:
            if self._modern and document:
                yield document.removeprefix("./") + hash + each, self._outermost
            yield document + hash + each, resolver
