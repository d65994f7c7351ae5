"""Translates an AsyncAPI document to groups of the default model.

The document is a schema group, each server and each operation an endpoint, each channel a message
group. The extension attribute `asyncapi` of an entity keeps what the attributes do not express.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from catalog.documents.asyncapi import protocols
from catalog.documents.asyncapi.correspondence import DESCRIPTION, to_attributes
from catalog.documents.asyncapi.edition2 import upgrade
from catalog.documents.asyncapi.references import (
    EXTENSION,
    AsyncApiError,
    Identifiers,
    Members,
    SourceDocument,
    identifier,
    object_in,
    objects,
    reference_of,
    without,
)
from catalog.documents.asyncapi.schemadocuments import (
    JSON_SCHEMA,
    bundle,
    format_of,
    is_json_schema,
    media_type_of,
    split,
)
from catalog.documents.losses import Loss
from catalog.documents.rewriter import escaped

KEPT = "asyncapi"
"""The extension attribute for what the attributes of an entity do not express."""

_EDITION = re.compile(r"[23]\.\d+\.\d+(?:-.*)?")
_MESSAGES = ("messages", "schemas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Translated:
    """The groups of a document by plural, and what the groups cannot express."""

    groups: dict[str, Members]
    losses: tuple[Loss, ...]


def edition_of(document: Mapping[str, Any]) -> str:
    """The version of AsyncAPI that a document states; empty for documents of other kinds."""
    stated = document.get("asyncapi")
    return stated if isinstance(stated, str) else ""


def to_entities(document: Mapping[str, Any]) -> Translated:
    """Translate a document of edition 2.x or 3.x.

    Raises:
        AsyncApiError: the document has another edition or no title, or is too large.
    """
    stated = edition_of(document)
    if not _EDITION.fullmatch(stated):
        raise AsyncApiError(
            f"AsyncAPI {stated[:40]} is not read, but 2.0 to 3.1 are.",
            "Convert it: npx @asyncapi/cli convert FILE",
        )
    source = SourceDocument(dict(document))
    try:
        if stated.startswith("2"):
            upgraded = SourceDocument(upgrade(source))
            upgraded.losses.update(source.losses)
            source = upgraded
        return _Translation(source).run()
    # A translation relies on the types that AsyncAPI gives to members.
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise AsyncApiError(
            f"The document is not of the form of AsyncAPI {stated}.",
            "Find out why: npx @asyncapi/cli validate FILE",
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A message definition, its place in the document, and its xid."""

    pointer: str
    definition: Members
    xid: str
    key: str
    base: str = ""


class _Translation:
    def __init__(self, source: SourceDocument) -> None:
        self.source = source
        self.info: Members = object_in(source.document.get("info"))
        title = self.info.get("title")
        if not isinstance(title, str) or not title:
            raise AsyncApiError("The document has no info.title.", "The title names its groups.")
        self.application = identifier(title)
        self.components: Members = object_in(source.document.get("components"))
        self.endpoints: dict[str, Members] = {}
        self.messagegroups: dict[str, Members] = {}
        self.schemas: dict[str, Members] = {}
        self._groups = Identifiers()
        self._groups.allot(self.application)
        self._endpoint_ids, self._schema_ids = Identifiers(), Identifiers()
        self._servers: list[tuple[str, Members, str]] = []
        self._channels: list[tuple[str, Members, str]] = []
        self._operations: list[tuple[str, Members, str]] = []
        self._placed: list[_Placed] = []
        self._documents: dict[str, Any] = {}
        self._entries: dict[str, tuple[str, Any, str]] = {}

    def run(self) -> Translated:
        self._servers = self._allot("servers", "endpoints", self._endpoint_ids)
        self._operations = self._allot("operations", "endpoints", self._endpoint_ids)
        self._channels = self._allot("channels", "messagegroups", self._groups)
        # Every entity has its xid before references are expanded, which turns them into xids.
        self._place_messages()
        self._place_schemas()
        for server in self._servers:
            self._add_server(*server)
        for channel in self._channels:
            self._add_channel(*channel)
        for operation in self._operations:
            self._add_operation(*operation)
        payloads = [self._add_message(placed) for placed in self._placed]
        self._add_schemas(set(payloads))
        groups = {
            "endpoints": self.endpoints,
            "messagegroups": self.messagegroups,
            "schemagroups": {self.application: self._document()},
        }
        return Translated(
            groups={name: found for name, found in groups.items() if found},
            losses=tuple(self.source.losses.values()),
        )

    def _allot(self, name: str, plural: str, ids: Identifiers) -> list[tuple[str, Members, str]]:
        """Give ids to servers, operations or channels; return key, object and id of each."""
        allotted = []
        members: Any = self.source.document.get(name)
        for key in sorted(members) if isinstance(members, dict) else ():
            value: Any = members[key]
            pointer = f"#/{name}/{escaped(key)}"
            id = ids.allot(f"{self.application}.{key}")
            found, target = self.source.follow(value, pointer)
            self.source.xids[pointer] = f"/{plural}/{id}"
            self.source.xids.setdefault(target, f"/{plural}/{id}")
            if found is not None and not isinstance(found, dict):
                self.source.lose(pointer, found, "it is no object")
            kept = found if isinstance(found, dict) else value
            allotted.append((key, kept if isinstance(kept, dict) else {}, id))
        return allotted

    def _place_messages(self) -> None:
        """Place messages in the groups of channels, and shared ones in a group of their own."""
        uses: Counter[str] = Counter()
        entries = []
        for channel, found, id in self._channels:
            ids = Identifiers()
            for key, value in objects(found.get("messages")):
                at = f"#/channels/{escaped(channel)}/messages/{escaped(key)}"
                definition, target = self.source.follow(value, at)
                xid = f"/messagegroups/{id}/messages/{ids.allot(key)}"
                self.source.xids[at] = xid
                uses[target] += target != at
                entries.append((key, value if definition is None else definition, at, target, xid))
        shared = Identifiers()
        for key, value in objects(self.components.get("messages")):
            at = f"#/components/messages/{escaped(key)}"
            if uses[at] == 1 or reference_of(value).startswith("#"):
                continue
            xid = f"/messagegroups/{self.application}/messages/{shared.allot(key)}"
            self.source.xids[at] = xid
            self._placed.append(_Placed(pointer=at, definition=value, xid=xid, key=key))
        for key, definition, at, target, xid in entries:
            base = self.source.xids.get(target, "") if target != at else ""
            if not base:
                self.source.xids[target] = xid
            placed = _Placed(pointer=target, definition=definition, xid=xid, key=key, base=base)
            self._placed.append(placed)

    def _place_schemas(self) -> None:
        for key in sorted(self.components.get("schemas") or {}):
            at = f"#/components/schemas/{escaped(key)}"
            self._place_schema(key, self.components["schemas"][key], at)
        self._placed = [
            replace(placed, definition=self._merged(placed.definition, placed.pointer))
            for placed in self._placed
        ]
        for placed in self._placed:
            payload = placed.definition.get("payload")
            if not placed.base and payload is not None and not self._names_schema(payload):
                group, message = placed.xid.split("/")[2:5:2]
                own = group.removeprefix(f"{self.application}.")
                key = f"{own}.{message}" if group != self.application else message
                self._place_schema(key, payload, f"{placed.pointer}/payload", is_inline=True)

    def _place_schema(self, key: str, entry: Any, at: str, *, is_inline: bool = False) -> None:
        id = self._schema_ids.allot(key)
        xid = f"/schemagroups/{self.application}/schemas/{id}"
        self.source.xids[at] = xid
        _, _, _, is_wrapped = split(entry)
        if is_wrapped:
            self.source.xids[f"{at}/schema"] = xid
        self._entries[xid] = ("" if is_inline else key, entry, at)

    def _names_schema(self, payload: Any) -> bool:
        """Whether a payload is a reference to a whole schema, or to another document."""
        reference = reference_of(split(payload)[1])
        if reference and not reference.startswith("#"):
            return True
        return bool(reference) and "#" not in (self.source.xid_of(reference) or "#")

    def _merged(self, definition: Members, pointer: str) -> Members:
        return self.source.with_traits(definition, pointer, traits_win=False)

    def _entity(self, kind: str, key: str, id: str, kept: Members) -> Members:
        """The attributes of an entity that describe it, with the extension that keeps the rest."""
        attributes: Members = {}
        to_attributes(kept, attributes, DESCRIPTION)
        extension: Members = {"kind": kind, "application": self.application}
        if id != f"{self.application}.{key}":
            extension["key"] = key
        return {**attributes, KEPT: {**extension, "object": kept}}

    def _add_server(self, key: str, found: Members, id: str) -> None:
        kept = self.source.expand(found, f"#/servers/{escaped(key)}")
        attributes = protocols.server_attributes(kept)
        protocol = _protocol(kept, attributes.get("protocol", ""))
        to_attributes(kept, attributes, protocols.OF_SERVERS.get(protocol, ()))
        entity = self._entity("server", key, id, kept)
        self.endpoints[id] = _with_extension({**entity, **attributes}, kept)

    def _servers_of(self, channel: Members) -> list[Members]:
        """The endpoints of the servers of a channel; of all servers if the channel names none."""
        references = channel.get("servers")
        named = [
            self.source.xid_of(reference_of(each)).rpartition("/")[2]
            for each in (references if isinstance(references, list) else ())
        ]
        ids = named or [id for _, _, id in self._servers]
        self.source.spend(len(ids))
        return [self.endpoints[id] for id in ids if id in self.endpoints]

    def _protocol_of(self, channel: Members) -> str:
        servers = self._servers_of(channel)
        return str(servers[0].get("protocol", "")) if servers else ""

    def _add_channel(self, key: str, found: Members, id: str) -> None:
        own = without(found, "messages")
        kept = self.source.expand(own, f"#/channels/{escaped(key)}")
        group = self._entity("channel", key, id, kept)
        if protocol := _protocol(kept, self._protocol_of(found)):
            group["protocol"] = protocol
        self.messagegroups[id] = _with_extension(group, kept)

    def _add_operation(self, key: str, found: Members, id: str) -> None:
        pointer = f"#/operations/{escaped(key)}"
        merged = self._merged(found, pointer)
        channel, target = self.source.follow(merged.get("channel"), f"{pointer}/channel")
        if self.source.xids.get(target, "").count("/") == 2:
            del merged["channel"]
        kept = self.source.expand(merged, pointer)
        attributes: Members = {}
        action = kept.get("action")
        if action in protocols.ACTIONS:
            attributes["usage"] = list(protocols.ACTIONS[action])
            del kept["action"]
        if "channel" not in merged:
            group = self.source.xids[target]
            group_id = group.rpartition("/")[2]
            attributes["messagegroups"] = [group]
            attributes["channel"] = self.messagegroups[group_id].get("name") or group_id
        stated = self._protocol_of(channel) if isinstance(channel, dict) else ""
        if isinstance(channel, dict) and (protocol := _protocol(kept, stated)):
            attributes |= self._operation_options(channel, protocol, str(action))
            to_attributes(kept, attributes, protocols.OF_OPERATIONS.get(protocol, ()))
        entity = self._entity("operation", key, id, kept)
        self.endpoints[id] = _with_extension({**entity, **attributes}, kept)

    def _operation_options(self, channel: Members, protocol: str, action: str) -> Members:
        addresses = protocols.common_addresses(self._servers_of(channel), protocol)
        expanded = self.source.expand(channel.get("bindings"), "#/channels")
        options = protocols.channel_options({**channel, "bindings": expanded}, protocol, action)
        if addresses:
            options["endpoints"] = addresses
        return (
            {"protocol": protocol, protocols.OPTIONS: options}
            if options
            else {"protocol": protocol}
        )

    def _add_message(self, placed: _Placed) -> str:
        """Add a message to its group; return the xid of the schema of the payload."""
        group, id = placed.xid.split("/")[2:5:2]
        if group not in self.messagegroups:
            extension = {"kind": "components", "application": self.application}
            self.messagegroups[group] = {KEPT: extension}
        protocol = str(self.messagegroups[group].get("protocol", ""))
        protocol = protocol if placed.base else _protocol(placed.definition, protocol)
        message: Members = {"protocol": protocol} if protocol else {}
        extension = {} if id == placed.key else {"key": placed.key}
        payload = ""
        if placed.base:
            message["basemessage"] = placed.base
        else:
            payload = self._define(message, placed, protocol, extension)
        if extension:
            message[KEPT] = extension
        self.messagegroups[group].setdefault("messages", {})[id] = message
        return payload

    def _define(self, message: Members, placed: _Placed, protocol: str, extension: Members) -> str:
        payload = placed.definition.get("payload")
        xid = self.source.xids.get(f"{placed.pointer}/payload", "")
        if not xid and payload is not None:
            media_type, schema, _, is_wrapped = split(payload)
            xid = self.source.xid_of(reference_of(schema))
            if xid and is_wrapped:
                self._set_format(xid, media_type)
            if not xid:
                self.source.follow(schema, f"{placed.pointer}/payload")  # Notes the loss.
        own = {n: v for n, v in placed.definition.items() if n != "payload" or not xid}
        headers, _ = self.source.follow(own.get("headers"), f"{placed.pointer}/headers")
        kept = self.source.expand({**own, "headers": headers} if headers else own, placed.pointer)
        message |= {"dataschemauri": xid} if xid else {}
        default = self.source.document.get("defaultContentType")
        if isinstance(default, str):
            kept.setdefault("contentType", default)
        to_attributes(kept, message, (*DESCRIPTION, *protocols.message_correspondences(protocol)))
        extension["object"] = kept
        _with_extension(message, kept)
        return xid

    def _set_format(self, xid: str, media_type: str) -> None:
        """Give the schema of a component the format that a payload states."""
        key, entry, at = self._entries.get(xid, ("", None, ""))
        if xid in self._entries and not split(entry)[3] and format_of(media_type) != JSON_SCHEMA:
            self._entries[xid] = (key, {"schemaFormat": media_type, "schema": entry}, at)

    def _add_schemas(self, payloads: set[str]) -> None:
        formats: dict[str, str] = {}
        for xid, (key, entry, at) in self._entries.items():
            media_type, schema, further, is_wrapped = split({} if entry is None else entry)
            format = formats[xid] = format_of(media_type) if media_type else JSON_SCHEMA
            extension: Members = {"key": key} if key and not xid.endswith(f"/{key}") else {}
            if not key:
                extension["isinline"] = True
            if is_wrapped and media_type_of(format) != media_type:
                extension["schemaformat"] = media_type
            entity: Members = {"format": format}
            is_written_in_json = is_json_schema(format)
            if isinstance(schema, dict):
                schema = self._localised(self.source.expand(schema, at), xid)
            if isinstance(schema, dict) and EXTENSION in schema:
                further = {**further, EXTENSION: schema[EXTENSION]}
                schema = without(schema, EXTENSION)
            _with_extension(entity, further)
            if further:
                extension["object"] = further
            if extension:
                entity[KEPT] = extension
            if is_written_in_json:
                self._documents[xid] = schema
            entity["schema"] = schema
            if isinstance(schema, str):
                entity["contenttype"] = "text/plain"
            self.schemas[xid.rpartition("/")[2]] = entity
        for group in self.messagegroups.values():
            for message in group.get("messages", {}).values():
                if (xid := message.get("dataschemauri")) in formats:
                    message["dataschemaformat"] = formats[xid]
        for xid in payloads & self._documents.keys():
            document = bundle(xid, self._documents, self.source.spend)
            self.schemas[xid.rpartition("/")[2]]["schema"] = document

    def _localised(self, schema: Any, xid: str) -> Any:
        """A schema whose references to itself are local."""
        if isinstance(schema, list):
            return [self._localised(item, xid) for item in schema]
        if not isinstance(schema, dict):
            return schema
        local = {name: self._localised(value, xid) for name, value in schema.items()}
        target, mark, fragment = reference_of(schema).partition("#")
        if target == xid:
            local["$ref"] = mark + fragment or "#"
        return local

    def _document(self) -> Members:
        """The schema group made of the document, with the members of the document's top level."""
        document = without(
            self.source.document,
            "asyncapi",
            "channels",
            "components",
            "info",
            "operations",
            "servers",
        )
        kept = self.source.expand(document, "#")
        info = self.source.expand(self.info, "#/info")
        attributes: Members = {}
        to_attributes(info, attributes, DESCRIPTION)
        extension = {"kind": "document", "application": self.application, "info": info}
        extension |= {"object": kept} if kept else {}
        if unused := self._unused():
            extension["components"] = unused
        group = _with_extension({**attributes, KEPT: extension}, info)
        return {**group, "schemas": self.schemas} if self.schemas else group

    def _unused(self) -> Members:
        """The components that nothing refers to, by kind and key."""
        unused: Members = {}
        for kind, found in objects(self.components):
            for key in sorted(found) if kind not in _MESSAGES else ():
                at = f"#/components/{escaped(kind)}/{escaped(key)}"
                if at not in self.source.used:
                    unused.setdefault(kind, {})[key] = self.source.expand(found[key], at)
        return unused


def _protocol(found: Members, otherwise: str) -> str:
    """The protocol that the specification extension of an object states, if it states any."""
    extension = found.get(EXTENSION)
    stated = extension.get("protocol") if isinstance(extension, dict) else None
    return stated if isinstance(stated, str) else otherwise


def _with_extension(entity: Members, kept: Members) -> Members:
    """Give an entity the attributes that the specification extension of its object has."""
    extension = kept.pop(EXTENSION, None)
    if isinstance(extension, dict):
        _override(entity, extension)
    return entity


def _override(members: Members, others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        if isinstance(value, dict):
            inner = members.get(name)
            made = inner if isinstance(inner, dict) else {}
            _override(made, value)
            members[name] = made
            if not made:
                del members[name]
        elif value is None:
            members.pop(name, None)
        else:
            members[name] = copy.deepcopy(value)
