"""Reads what messages are checked by: a definition with its bases, and the payload's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.messages import BASES, Definition, Findings, combine, places
from catalog.model.entity import Entity
from catalog.model.errors import NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.registry.known import Known
from catalog.registry.read import load_documents, read_entities
from catalog.store.database import Connection

MOST_BASES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """The schema of a payload; `part` is what of it describes the payload."""

    format: str
    document: bytes
    part: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """Follows references within one snapshot. `bases` are the URLs of the registry's root."""

    connection: Connection
    model: Model
    bases: Sequence[str]

    async def definition(self, xid: Xid, findings: Findings) -> tuple[Definition, str]:
        """A message's definition with all that it inherits, and the xid of the version used.

        Raises:
            NotFound
        """
        _, version = await self._version(xid)
        if version is None:
            raise NotFound(str(xid))
        group = (await read_entities(self.connection, self.model, [xid.group])).entities
        chain = await self._chain(version, findings)
        return combine(chain, group[str(xid.group)].attributes), version.xid

    async def _chain(self, version: Entity, findings: Findings) -> list[Mapping[str, Any]]:
        """Attributes of a message, of its base, of that one's base and so on, as far as it goes.

        A base that is not here is no error (message/spec.md, "basemessage").
        """
        chain, seen = [version.attributes], {version.xid}
        while reference := _base_of(chain[-1]):
            found = places(reference, self.bases)
            if not found:
                findings.leave("basemessage", "it is kept elsewhere", reference)
                return chain
            _, base = await self._version(found[0].xid)
            if base is None or found[0].xid.resources != version.path.resources:
                findings.leave("basemessage", "there is no such message", reference)
                return chain
            if base.xid in seen or len(chain) > MOST_BASES:
                reason = "it is among its own bases" if base.xid in seen else "it has too many"
                findings.leave("basemessage", reason, reference)
                return chain
            seen.add(base.xid)
            chain.append(base.attributes)
        return chain

    async def schema(self, definition: Definition, findings: Findings) -> Schema | None:
        """The schema of the payload; `None` if there is none, or none that can be used here."""
        if definition.dataschema is not None:
            document = _inline(definition.dataschema)
            return Schema(format=definition.dataschemaformat, document=document)
        reference = definition.dataschemaxid or definition.dataschemauri
        if not reference:
            return None
        found = places(reference, self.bases)
        if not found:
            findings.leave("dataschema", "it is kept elsewhere", reference)
        for place in found:
            known, version = await self._version(place.xid)
            if version is not None:
                part = place.part or self._part(definition)
                return await self._schema(known, version, part, definition, findings)
        if found:
            findings.leave("dataschema", "there is no such schema", reference)
        return None

    def _part(self, definition: Definition) -> str:
        """An xid has no room for a part, which the URI beside it may have."""
        found = places(definition.dataschemauri, self.bases) if definition.dataschemaxid else []
        return next((place.part for place in found if place.part), "")

    async def _schema(
        self, known: Known, version: Entity, part: str, definition: Definition, findings: Findings
    ) -> Schema | None:
        path = version.path
        kind = self.model.resource_type(path.groups, path.resources)
        url = version.attributes.get(f"{kind.singular}url") if kind is not None else None
        if url is not None:
            findings.leave("dataschema", "its document is kept elsewhere", str(url))
            return None
        await load_documents(self.connection, known, [version])
        document = known.document_of(version)
        if not document:
            findings.leave("dataschema", "it has no document", version.xid)
            return None
        format = version.attributes.get("format") or definition.dataschemaformat
        return Schema(format=format, document=document, part=part)

    async def _version(self, xid: Xid) -> tuple[Known, Entity | None]:
        """A version, or the default version of a resource."""
        known = await read_entities(self.connection, self.model, [xid])
        found = known.entities.get(str(xid))
        if found is not None and xid.kind == "resource":
            found = known.default_of(found)
        return known, found


def _base_of(attributes: Mapping[str, Any]) -> str:
    named = (attributes.get(name) for name in BASES)
    return next((value for value in named if isinstance(value, str) and value), "")


def _inline(schema: Any) -> bytes:
    """Text may be the document itself; a JSON schema that is one string is a type's name."""
    if isinstance(schema, str) and schema.lstrip().startswith(("{", "[")):
        return schema.encode()
    return orjson.dumps(schema)
