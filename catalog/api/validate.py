"""Checks messages against their definitions: `POST /validate/<xid of the definition>`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from catalog.api.requesttarget import parse_path
from catalog.context import CONTEXT, Context, SchemaUnknown
from catalog.formats.families import is_supported
from catalog.formats.process import UnusableSchema
from catalog.http.body import SEND_JSON, parse_json, read_body
from catalog.http.responses import json_response
from catalog.indexing.references import BASES
from catalog.load.longwork import aside
from catalog.messages.conformance import MOST_VIOLATIONS, Violations, check_metadata
from catalog.messages.definition import (
    MessageDefinition,
    ReferenceTarget,
    combine,
    path_within,
    reference_targets,
    topic_of,
)
from catalog.messages.message import (
    Message,
    Payload,
    is_binary_event,
    read_binary_event,
    read_json_message,
)
from catalog.model.concorderrors import UnsupportedMediaType
from catalog.model.entity import Entity
from catalog.model.errors import MissingBody, NotFound
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.reading.entities import load_documents, read_entities
from catalog.reading.loaded import Loaded
from catalog.store import discoveryservices
from catalog.store.database import Connection

_ROOT = "/validate"
_EVENT = "application/cloudevents+json"
_ENCODED = "_base64"
# A fault as `catalog/formats/documenttext.py` writes it.
_FAULT = re.compile(r"(/[^\s:]*): (.+)")
_MOST_BASES, _MOST_ENDPOINTS = 16, 100


async def post_message(request: web.Request) -> web.Response:
    """Check a message against its definition; both verdicts are answered with 200."""
    context = request[CONTEXT]
    xid = _target(request, context.model)
    body = await read_body(request)
    inherited = Violations()
    async with context.database.snapshot() as connection:
        bases = [context.base_url(request), context.public_base]
        reader = Reader(context=context, connection=connection, bases=bases)
        definition, used = await reader.definition(xid, inherited)
        schema = await reader.schema(definition, inherited)
    message = await aside(0, read_message, request, body, definition.protocol)
    findings = await aside(0, check_metadata, message, definition)
    findings.unchecked[:0] = inherited.unchecked
    if schema is not None and not findings.is_full:
        await check_payload(context, message, definition, schema, findings)
    return json_response(_answer(used, schema, findings))


def _target(request: web.Request, model: Model) -> Xid:
    groups, resources = request.path.split("/")[2:5:2]
    if model.resource_type(groups, resources) is None:
        raise NotFound(request.path)
    return parse_path(request.rel_url.raw_path.removeprefix(_ROOT), model).xid


def read_message(request: web.Request, body: bytes, protocol: str) -> Message:
    """Read a message from the whole request (binary mode) or from the body (JSON).

    Args:
        protocol: as for `read_json_message`.

    Raises:
        XRegistryError: the request has no message.
    """
    media_type = request.content_type.lower()
    if media_type != _EVENT and is_binary_event(request.headers):
        return read_binary_event(request.headers.items(), body)
    if not body:
        raise MissingBody(request.path)
    if media_type not in (_EVENT, "application/json", "application/octet-stream"):
        raise UnsupportedMediaType(request.path, contenttype=media_type, detail=SEND_JSON)
    value = parse_json(body, request[CONTEXT].settings)
    return read_json_message(value, protocol)


async def check_payload(
    context: Context,
    message: Message,
    definition: MessageDefinition,
    schema: Schema,
    findings: Violations,
) -> None:
    """Check the payload against the schema; a message without payload does not conform."""
    data = message.data
    if not is_supported(schema.format):
        findings.leave("dataschema", f"the format {schema.format or 'unknown'} is not checked here")
    elif data is None and schema.is_implied:
        # Kafka has records without value, which tell that a key is gone.
        return
    elif data is None:
        findings.object("", "payload", "it has no payload, which the definition describes")
    else:
        contenttype = data.contenttype or _implied(definition, data.content)
        payload = data.encoded(contenttype)
        try:
            fault = await context.checked_requests.begin(context.caller.client).conform(
                schema.format, schema.document, payload, contenttype, schema.part
            )
        except UnusableSchema as error:
            findings.leave("dataschema", f"the schema cannot be used: {error}")
            return
        if fault:
            _add_faults(fault, data, findings)


def _add_faults(text: str, data: Payload, findings: Violations) -> None:
    """Add the faults of a payload, each at its place if the check tells the places."""
    lines = [_FAULT.fullmatch(line) for line in text.split("\n")]
    found = [(unquote(each[1]), each[2]) for each in lines if each is not None]
    # The places within base64 or a text are none of the message.
    if len(found) < len(lines) or (data.is_text_or_bytes and data.pointer.endswith(_ENCODED)):
        findings.object(data.pointer, "payload", text.replace("\n", "; "))
        return
    for pointer, reason in found[: MOST_VIOLATIONS - len(findings.violations)]:
        findings.object(data.pointer + pointer.removesuffix("/"), "payload", reason)


def _implied(definition: MessageDefinition, content: Any) -> str:
    """The media type of a payload whose message names none."""
    declared = definition.datacontenttype
    if declared and not declared.lower().startswith("application/cloudevents"):
        return declared
    return "" if isinstance(content, str | bytes) else "application/json"


def _answer(used: str, schema: Schema | None, findings: Violations) -> dict[str, Any]:
    return {
        "valid": not findings.violations,
        "definition": used,
        **({"schema": schema.xid} if schema is not None and schema.xid else {}),
        "violations": [
            {"pointer": one.pointer, "rule": one.rule, "detail": one.detail}
            for one in findings.violations
        ],
        "unchecked": [
            {"part": one.part, "reason": one.reason, **({"uri": one.uri} if one.uri else {})}
            for one in findings.unchecked
        ],
    }


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
        if (dialect := self.context.schema_dialect) is None:
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
