"""JSON Schema as Confluent's Schema Registry checks, stores and compares it.

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

from catalog.formats.confluent import jsonschemamodel as model
from catalog.formats.confluent.jackson import printed, read_schema
from catalog.formats.confluent.jsonschemadiff import differences
from catalog.formats.confluent.jsonschemamodel import SchemaNode
from catalog.formats.confluent.questions import SchemaDocument, bounded
from catalog.formats.documenttext import MalformedDocument

if TYPE_CHECKING:
    from referencing._core import Resolver


# The library gives its type of resolvers no public name.
Resolving: TypeAlias = "Resolver[Any]"


def canonical(
    text: str, references: Mapping[str, str], *, normalize: bool, is_new: bool = True
) -> str:
    """Return the minimal JSON of the schema; `normalize` sorts the members of objects."""
    with bounded():
        schema = read_schema(text)
        _load(schema, references)
        return printed(schema, in_order=normalize)


def incompatibilities(reader: SchemaDocument, writer: SchemaDocument) -> list[str]:
    """Return what keeps a reader from reading what the writer wrote; see `questions`."""
    with bounded():
        update, original = (
            _load(read_schema(document.text), document.references) for document in (reader, writer)
        )
        return [difference.message() for difference in differences(original, update)]


def formatted(text: str, references: Mapping[str, str], format: str) -> str:
    """Return the text in a format of the API: JSON Schema has none but the text itself."""
    return text


def field_names(text: str, references: Mapping[str, str]) -> list[str]:
    """Return the names of the fields of the outermost object."""
    schema = read_schema(text)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _load(schema: Any, references: Mapping[str, str]) -> SchemaNode:
    """Build the model of a schema, which refers to other documents by names."""
    if isinstance(schema, bool):
        return model.PlainNode(kind="true" if schema else "false")
    if not isinstance(schema, dict):
        raise MalformedDocument("a schema is an object, true or false")
    others = {name: read_schema(text) for name, text in references.items()}
    try:
        return Loading(model.draft_of(schema, model.DRAFT_7), schema, others).load(schema)
    except MalformedDocument:
        raise
    except (AttributeError, TypeError, ValueError) as error:
        # The library for references takes it that identifiers and anchors are URIs.
        raise MalformedDocument("an identifier or an anchor in it is malformed") from error


class Loading:
    """The loading of a schema and of all that it refers to."""

    def __init__(
        self, draft: model.SchemaDraft, root: dict[str, Any], references: Mapping[str, Any]
    ) -> None:
        self.draft = draft
        self.is_draft_4 = draft.specification is DRAFT4
        self.identifier = "id" if self.is_draft_4 else "$id"
        identifier = root.get(self.identifier)
        base = identifier.rstrip("#") if isinstance(identifier, str) else ""
        registry: Registry[Any] = Registry()
        # A schema may refer to meta-schemas, which are not compared.
        for known in model.DRAFTS:
            anything = known.specification.create_resource({})
            registry = registry.with_resources(
                [(f"{scheme}://{known.uri}", anything) for scheme in ("http", "https")]
            )
        for name, document in references.items():
            if not isinstance(document, dict) and not draft.is_modern:
                raise MalformedDocument(f"the schema that {name} refers to is no object")
            other = model.draft_of(document, draft).specification.create_resource(document)
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

    def child(self, schema: Any, resolver: Resolving) -> SchemaNode:
        """Build the model of a schema inside of another schema."""
        if isinstance(schema, dict):
            resource = self.draft.specification.create_resource(schema)
            resolver = resolver.in_subresource(resource)
        return self._node(schema, resolver)

    def _node(self, schema: Any, resolver: Resolving) -> SchemaNode:
        if isinstance(schema, bool):
            return model.PlainNode(kind="true" if schema else "false", source=schema)
        if not isinstance(schema, dict):
            raise MalformedDocument("a schema in it is neither an object nor true or false")
        is_modern = self.draft.is_modern
        division = Division(self, schema, resolver)
        parts = division.modern_parts() if is_modern else division.parts()
        self._check_annotations(schema)
        match parts:
            case []:
                node: SchemaNode = model.PlainNode(kind="empty")
            case [part]:
                node = part
            case _:
                node = model.CombinedNode(criterion="allOf", parts=parts, is_implied=True)
        node.source = schema
        node.has_default = schema.get("default") is not None if is_modern else "default" in schema
        node.connects_bytes = schema.get("connect.type") == "bytes"
        return node

    def _check_annotations(self, schema: dict[str, Any]) -> None:
        annotations: dict[str, type] = {"title": str, "description": str}
        if self.draft.is_modern:
            annotations |= {"deprecated": bool, "readOnly": bool, "writeOnly": bool, "format": str}
        else:
            annotations[self.identifier] = str
            if self.draft.specification is DRAFT7:
                annotations |= {"readOnly": bool, "writeOnly": bool}
        for keyword, kind in annotations.items():
            if keyword in schema:
                model.typed(schema[keyword], keyword, kind)
        if isinstance(schema.get(self.identifier), str):
            model.check_uri(schema[self.identifier])

    def reference(self, keyword: str, reference: str, resolver: Resolving) -> model.ReferenceNode:
        """Find what a schema refers to; the model of the other schema is built later."""
        if not self.draft.is_modern:
            model.check_uri(reference)
        for uri, resolver_of in self._readings(reference, resolver):
            try:
                found = resolver_of.lookup(uri)
            except (Unresolvable, ValueError, TypeError, LookupError):
                continue
            self._pending.append((found.contents, found.resolver))
            return model.ReferenceNode(
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
            if self.draft.is_modern and document:
                yield document.removeprefix("./") + hash + each, self._outermost
            yield document + hash + each, resolver


class Division:
    """The division of a schema into parts; `_used` are the kinds whose keywords have a part."""

    def __init__(self, loading: Loading, schema: dict[str, Any], resolver: Resolving) -> None:
        self._loading = loading
        self._schema = schema
        self._resolver = resolver
        self._is_modern = loading.draft.is_modern
        self._is_draft_4 = loading.is_draft_4
        self._keywords = loading.draft.keywords
        self._used: set[str] = set()

    def parts(self) -> list[SchemaNode]:
        """Divide a schema of draft 4, 6 or 7."""
        schema = self._schema
        if "$ref" in schema:
            return [self._reference("$ref")]
        parts = [
            self._keyword(keyword)
            for keyword in ("enum", *model.CRITERIA, "not", "const")
            if keyword in schema and not (keyword == "const" and self._is_draft_4)
        ]
        if "type" in schema:
            parts.append(self._typed())
        parts += [
            self._of_kind(kind)
            for kind, keywords in self._keywords.items()
            if kind not in self._used and any(map(self._counts, keywords))
        ]
        if self._loading.draft.specification is DRAFT7:
            parts += self._conditional()
        return parts

    def modern_parts(self) -> list[SchemaNode]:
        """Divide a schema of draft 2019-09 or 2020-12, whose references have neighbours."""
        schema = self._schema
        for definitions in ("$defs", "definitions"):
            if definitions == "$defs" or isinstance(schema.get(definitions), dict):
                for definition in self._members(definitions).values():
                    self._child(definition)
        typed_parts = [self._typed()] if "type" in schema else []
        parts: list[SchemaNode] = []
        kinds = {word: kind for kind, words in self._keywords.items() for word in words}
        for keyword in schema:
            if keyword == "type":
                parts += typed_parts
            elif keyword in ("$ref", "$dynamicRef"):
                parts.append(self._reference(keyword))
            elif keyword in ("enum", *model.CRITERIA, "not", "const"):
                parts.append(self._keyword(keyword))
            elif keyword == "if":
                parts += self._conditional()
            elif keyword in kinds and kinds[keyword] not in self._used and self._counts(keyword):
                self._used.add(kinds[keyword])
                parts.append(self._of_kind(kinds[keyword]))
        return parts

    def _child(self, schema: Any) -> SchemaNode:
        return self._loading.child(schema, self._resolver)

    def _value(self, keyword: str, kind: type) -> Any:
        return model.typed(self._schema[keyword], keyword, kind)

    def _members(self, keyword: str) -> dict[str, Any]:
        members: dict[str, Any] = model.typed(self._schema.get(keyword, {}), keyword, dict)
        return members

    def _children(self, keyword: str) -> dict[str, SchemaNode]:
        return {name: self._child(schema) for name, schema in self._members(keyword).items()}

    def _counts(self, keyword: str) -> bool:
        """Whether a keyword alone makes a part of a schema."""
        if keyword not in self._schema:
            return False
        if self._is_draft_4 and keyword in ("contains", "propertyNames"):
            return False
        maps = ("properties", "patternProperties")
        return not (self._is_modern and keyword in maps and self._schema[keyword] == {})

    def _keyword(self, keyword: str) -> SchemaNode:
        value = self._schema[keyword]
        source = {keyword: value}
        match keyword:
            case "enum":
                values = model.typed(value, keyword, list)
                texts = frozenset(printed(element, in_order=True) for element in values)
                return model.EnumNode(values=texts, source=source)
            case "const":
                return model.ConstNode(value=printed(value, in_order=True), source=source)
            case "not":
                return model.NotNode(negated=self._child(value), source=source)
            case "allOf" | "anyOf" | "oneOf":
                parts: list[SchemaNode] = []
                for part in map(self._child, model.typed(value, keyword, list)):
                    # Confluent's translation dissolves what is combined by neighbourhood alone.
                    if self._is_modern and isinstance(part, model.CombinedNode) and part.is_implied:
                        parts += part.parts
                    else:
                        parts.append(part)
                return model.CombinedNode(criterion=keyword, parts=parts, source=source)
            case _:
                raise AssertionError(keyword)

    def _typed(self) -> SchemaNode:
        match self._schema["type"]:
            case str() as name:
                return self._of_type(name)
            case list() as names:
                parts = [self._of_type(name) for name in names]
                return model.CombinedNode(criterion="anyOf", parts=parts, source={"type": names})
            case _:
                raise MalformedDocument("type is neither a string nor an array")

    def _of_type(self, name: Any) -> SchemaNode:
        match name:
            case "boolean" | "null":
                return model.PlainNode(kind=name, source={"type": name})
            case "integer" | "number":
                self._used.add("number")
                node = self._number()
                node.is_integer = name == "integer"
                node.source |= {"type": name}
                return node
            case "string" | "array" | "object":
                self._used.add(name)
                return self._of_kind(name)
            case _:
                raise MalformedDocument(f"{str(name)[:100]} is no type")

    def _of_kind(self, kind: str) -> SchemaNode:
        match kind:
            case "number":
                return self._number()
            case "string":
                return self._string()
            case "object":
                return self._object()
            case _:
                return self._array()

    def _source(self, kind: str) -> dict[str, Any]:
        held = {word: self._schema[word] for word in self._keywords[kind] if word in self._schema}
        return held | {"type": kind}

    def _numbers(self, *keywords: str) -> dict[str, Any]:
        numbers = {word: self._schema[word] for word in keywords if word in self._schema}
        for keyword, value in numbers.items():
            if not model.is_number(value):
                raise MalformedDocument(f"{keyword} is not a number")
        return numbers

    def _limits(self, *keywords: str) -> dict[str, Any]:
        """Return limits of sizes, which libraries of older drafts read as Java's integers."""
        limits = self._numbers(*keywords)
        for keyword, value in limits.items():
            if not self._is_modern and (not isinstance(value, int) or abs(value) >= 2**31):
                raise MalformedDocument(f"{keyword} is not an integer")
        return limits

    def _number(self) -> model.NumberNode:
        limits = self._numbers("maximum", "minimum")
        exclusive = ("exclusiveMaximum", "exclusiveMinimum")
        if self._is_draft_4:
            for keyword in exclusive:
                model.typed(self._schema.get(keyword, False), keyword, bool)
        else:
            limits |= self._numbers(*exclusive)
        multiple = self._numbers("multipleOf").get("multipleOf")
        if not self._is_modern and multiple == 0:
            raise MalformedDocument("multipleOf is 0")
        return model.NumberNode(limits=limits, multiple_of=multiple, source=self._source("number"))

    def _string(self) -> model.StringNode:
        model.typed(self._schema.get("format", ""), "format", str)
        pattern = self._value("pattern", str) if "pattern" in self._schema else None
        if pattern is not None:
            model.check_regex(pattern)
        limits = self._limits("maxLength", "minLength")
        return model.StringNode(limits=limits, pattern=pattern, source=self._source("string"))

    def _object(self) -> model.ObjectNode:
        limits = self._limits("maxProperties", "minProperties")
        node = model.ObjectNode(limits=limits, source=self._source("object"))
        for name, property in self._members("properties").items():
            if self._is_modern or name != self._loading.identifier or isinstance(property, dict):
                node.properties[name] = self._child(property)
        if "required" in self._schema:
            node.required = _names(self._value("required", list))
        for pattern in self._members("patternProperties"):
            model.check_regex(pattern)
        node.patterns = self._children("patternProperties")
        node.is_open, node.others = self._rest("additionalProperties")
        if self._is_modern:
            for name, names in self._members("dependentRequired").items():
                node.dependent_names[name] = _names(model.typed(names, "dependentRequired", list))
            node.dependent_schemas = self._children("dependentSchemas")
            node.unevaluated = self._optional("unevaluatedProperties")
        else:
            self._add_dependencies(node)
        if not self._is_draft_4:
            self._optional("propertyNames")
        node.dependent_names = {name: of for name, of in node.dependent_names.items() if of}
        return node

    def _add_dependencies(self, node: model.ObjectNode) -> None:
        for name, dependent in self._members("dependencies").items():
            if isinstance(dependent, list):
                node.dependent_names[name] = _names(dependent)
            else:
                self._check_draft_4(dependent)
                node.dependent_schemas[name] = self._child(dependent)

    def _check_draft_4(self, schema: Any) -> None:
        """Refuse true and false where draft 4 has neither."""
        if self._is_draft_4 and isinstance(schema, bool):
            raise MalformedDocument("a schema in it is not an object")

    def _array(self) -> model.ArrayNode:
        limits = self._limits("maxItems", "minItems")
        node = model.ArrayNode(limits=limits, source=self._source("array"))
        if "uniqueItems" in self._schema:
            node.is_unique = self._value("uniqueItems", bool)
        if self._is_modern:
            self._add_modern_items(node)
        else:
            self._add_items(node)
        if not self._is_draft_4:
            self._optional("contains")
        return node

    def _add_items(self, node: model.ArrayNode) -> None:
        items = self._schema.get("items")
        if isinstance(items, list):
            node.first = [self._child(item) for item in items]
        else:
            self._check_draft_4(items)
            node.every = self._optional("items")
        node.is_open, node.others = self._rest("additionalItems")
        node.is_open = node.is_open or node.every is not None

    def _add_modern_items(self, node: model.ArrayNode) -> None:
        if "prefixItems" in self._schema:
            node.first = [self._child(item) for item in self._value("prefixItems", list)]
        node.is_open, rest = self._rest("items")
        if node.first:
            node.others = rest
        else:
            node.every = rest
        node.unevaluated = self._optional("unevaluatedItems")
        if "contains" in self._schema:
            least, most = self._schema.get("minContains"), self._schema.get("maxContains")
            node.limits["minContains"] = least if model.is_number(least) else 1
            if model.is_number(most):
                node.limits["maxContains"] = most

    def _rest(self, keyword: str) -> tuple[bool, SchemaNode | None]:
        """Return whether there may be more than a schema names, and what more must be like."""
        value = self._schema.get(keyword, True)
        return (value, None) if isinstance(value, bool) else (True, self._child(value))

    def _optional(self, keyword: str) -> SchemaNode | None:
        return self._child(self._schema[keyword]) if keyword in self._schema else None

    def _conditional(self) -> list[SchemaNode]:
        words = ("if", "then", "else")
        branches = [self._schema[word] for word in words if word in self._schema]
        for branch in branches:
            self._child(branch)
        return [model.PlainNode(kind="conditional", source=branches)] if branches else []

    def _reference(self, keyword: str) -> model.ReferenceNode:
        return self._loading.reference(keyword, self._value(keyword, str), self._resolver)


def _names(names: list[Any]) -> frozenset[str]:
    return frozenset(model.typed(name, "a name", str) for name in names)
