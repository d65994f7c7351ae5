"""Finds the definition of a message, with inherited attributes, and the schema of its payload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from catalog.context import Context, SchemaUnknown
from catalog.indexing.references import BASES
from catalog.messages.conformance import Violations
from catalog.messages.definition import (
    MessageDefinition,
    ReferenceTarget,
    combine,
    path_within,
    reference_targets,
    topic_of,
)
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.entities import Loaded, load_documents, read_entities
from catalog.store import discoveryservices
from catalog.store.database import Connection

_MOST_BASES, _MOST_ENDPOINTS = 16, 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema of a payload.

    Args:
        part: the name of the applicable definition in the document.
        xid: the version that has the document; "" for an inline schema.
        is_implied: whether the definition only names a Kafka topic.
    """

    format: str
    document: bytes
    part: str = ""
    xid: str = ""
    is_implied: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Follows references within one snapshot; `bases` are the URLs of the registry."""

    context: Context
    connection: Connection
    bases: Sequence[str]

    @property
    def model(self) -> Model:
        return self.context.model

    async def definition(self, xid: Xid, findings: Violations) -> tuple[MessageDefinition, str]:
        """The definition of a message with inherited attributes, and the xid of its version.

        Raises:
            NotFound
        """
        _, version = await self._version(xid)
        if version is None:
            raise NotFound(str(xid))
        group = (await read_entities(self.connection, self.model, [xid.group])).entities
        chain = await self._chain(version, findings)
        definition = combine(chain, group[str(xid.group)].attributes)
        if definition.lacks_schema:
            definition = replace(definition, topic=await self._topic_of(xid.group))
        return definition, version.xid

    async def _topic_of(self, group: Xid) -> str:
        """The one Kafka topic of the endpoints that refer to a message group; else ""."""
        texts = [f"{base}{group}" for base in ("", "#", *self.bases)]
        xids = await discoveryservices.find_referring(self.connection, texts)
        endpoints = [Xid.parse(xid) for xid in xids[:_MOST_ENDPOINTS]]
        found = (await read_entities(self.connection, self.model, endpoints)).entities
        topics = {topic_of(found[str(xid)].attributes) for xid in endpoints if str(xid) in found}
        return topics.pop() if len(topics) == 1 else ""

    async def _chain(self, version: Entity, findings: Violations) -> list[Mapping[str, Any]]:
        """The attributes of a message and of its bases, nearest base first.

        A missing base is no error (message/spec.md, "basemessage").
        """
        chain, seen = [version.attributes], {version.xid}
        while reference := _base_of(chain[-1]):
            found = reference_targets(reference, self.bases)
            base = (await self._version(found[0].xid))[1] if found else None
            if not found:
                reason = "it is kept elsewhere"
            elif base is None or found[0].xid.resources != version.path.resources:
                reason = "there is no such message"
            elif base.xid in seen:
                reason = "it is among its own bases"
            elif len(chain) > _MOST_BASES:
                reason = "it has too many"
            else:
                seen.add(base.xid)
                chain.append(base.attributes)
                continue
            findings.leave("basemessage", reason, reference)
            break
        return chain

    async def schema(self, definition: MessageDefinition, findings: Violations) -> Schema | None:
        """The schema of the payload; `None` if the definition has no usable schema.

        A definition that names none has the schema of its Kafka topic, if there is one.
        """
        if definition.dataschema is not None:
            document = _inline(definition.dataschema)
            return Schema(format=definition.dataschemaformat, document=document)
        reference = definition.dataschemaxid or definition.dataschemauri
        is_implied = not reference
        if not (reference := reference or definition.topic_schema):
            return None
        try:
            found = await self._targets(reference)
        except SchemaUnknown as error:
            if not (is_implied and error.is_absent):
                findings.leave("dataschema", str(error), reference)
            return None
        for target in found:
            loaded, version = await self._version(target.xid)
            if version is not None:
                part = target.part or self._part(definition)
                schema = await self._schema(loaded, version, part, definition, findings)
                return schema and replace(schema, is_implied=is_implied)
        reason = "there is no such schema" if found else "it is kept elsewhere"
        findings.leave("dataschema", reason, reference)
        return None

    async def _targets(self, reference: str) -> Sequence[ReferenceTarget]:
        """The entities that a reference can mean, by its xid or by an address of another API.

        Raises:
            SchemaUnknown
        """
        if found := reference_targets(reference, self.bases):
            return found
        path, part = path_within(reference, self.bases)
        if (dialect := self.context.shared.schema_dialect) is None:
            return []
        own = self.context.database.node.authority
        xid = await dialect.find(self.context, self.connection, path, own)
        return [] if xid is None else [ReferenceTarget(xid, part)]

    def _part(self, definition: MessageDefinition) -> str:
        """The part named by the URI of the schema, since an xid cannot name a part."""
        uri = definition.dataschemauri if definition.dataschemaxid else ""
        return next((found.part for found in reference_targets(uri, self.bases) if found.part), "")

    async def _schema(
        self,
        loaded: Loaded,
        version: Entity,
        part: str,
        definition: MessageDefinition,
        findings: Violations,
    ) -> Schema | None:
        path = version.path
        kind = self.model.resource_type(path.groups, path.resources)
        url = version.attributes.get(f"{kind.singular}url") if kind is not None else None
        if url is not None:
            findings.leave("dataschema", "its document is kept elsewhere", str(url))
            return None
        await load_documents(self.connection, loaded, [version])
        document = loaded.document_of(version)
        if not document:
            findings.leave("dataschema", "it has no document", version.xid)
            return None
        format = version.attributes.get("format") or definition.dataschemaformat
        return Schema(format=format, document=document, part=part, xid=version.xid)

    async def _version(self, xid: Xid) -> tuple[Loaded, Entity | None]:
        """A version, or the default version of a resource."""
        loaded = await read_entities(self.connection, self.model, [xid])
        found = loaded.entities.get(str(xid))
        if found is not None and xid.kind == "resource":
            found = loaded.default_of(found)
        return loaded, found


def _base_of(attributes: Mapping[str, Any]) -> str:
    named = (attributes.get(name) for name in BASES)
    return next((value for value in named if isinstance(value, str) and value), "")


def _inline(schema: Any) -> bytes:
    """The document of an inline schema; a string is either JSON text or the name of a type."""
    if isinstance(schema, str) and schema.lstrip().startswith(("{", "[")):
        return schema.encode()
    return orjson.dumps(schema)
