"""Translates groups of the default model to an AsyncAPI document."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from catalog.documents.asyncapi import protocols
from catalog.documents.asyncapi.correspondence import DESCRIPTION, are_equal, to_members
from catalog.documents.asyncapi.edition2 import downgrade
from catalog.documents.asyncapi.references import (
    EXTENSION,
    Identifiers,
    Members,
    entity_reference,
    object_in,
    objects,
    reference_of,
    without,
)
from catalog.documents.asyncapi.schemadocuments import media_type_of, unbundle, with_references
from catalog.documents.asyncapi.toentities import KEPT
from catalog.documents.losses import Loss, default_version
from catalog.documents.rewriter import escaped, unescaped

EDITIONS = ("3.0", "2.6")
_VERSIONS = "AsyncAPI has no versions; only the default version is written"
_ELSEWHERE = "its target is in another document, which readers need beside this one"
_ABSENT = "the catalog, or the exported part, does not have its target"
_GROUP = "AsyncAPI has no groups of schemas; the schemas are written, the attributes are not"
_REMOTE = ("schemaurl", "schemabase64")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """An AsyncAPI document, and the members of the entities that it cannot express."""

    document: Members
    losses: tuple[Loss, ...]


def from_entities(groups: Mapping[str, Any], *, title: str, edition: str = "3.0") -> Exported:
    """Translate the groups of an export without assigned and default attributes.

    Args:
        groups: the groups by plural, in the form of `documents.clean`.
        title: the title of the document, unless the groups are those of one imported document.
        edition: one of `EDITIONS`.
    """
    translation = _Translation(copy.deepcopy(dict(groups)), title)
    document = translation.run()
    losses = translation.losses
    if edition != EDITIONS[0]:
        document, further = downgrade(document)
        losses = [*losses, *further]
    return Exported(document=document, losses=tuple(losses))


class _Keys(Identifiers):
    """The keys of the members of one object."""

    def of(self, id: str, entity: Mapping[str, Any], application: str) -> str:
        """The key of an entity: the key of the imported document, or a key that its id makes."""
        kept = _kept(entity)
        if application and kept.get("application", application) == application:
            if isinstance(key := kept.get("key"), str):
                return key
            id = id.removeprefix(f"{application}.")
        return self.allot(id)


def _kept(entity: Mapping[str, Any]) -> Members:
    return object_in(entity.get(KEPT))


class _Translation:
    def __init__(self, groups: Members, title: str) -> None:
        self.endpoints = dict(objects(groups.pop("endpoints", {})))
        self.messagegroups = dict(objects(groups.pop("messagegroups", {})))
        self.schemagroups = dict(objects(groups.pop("schemagroups", {})))
        self.title = title
        self.losses: list[Loss] = []
        documents = [id for id, each in self.schemagroups.items() if "info" in _kept(each)]
        others = [*self.endpoints.values(), *self.messagegroups.values()]
        is_one = len(documents) == 1 and all(
            _kept(each).get("application") == documents[0] for each in others
        )
        self.application = documents[0] if is_one else ""
        self.pointers: dict[str, str] = {}
        self.servers: Members = {}
        self.channels: Members = {}
        self.operations: Members = {}
        self.components: Members = {}
        self._channel_keys, self._server_keys = _Keys(), _Keys()
        self._operation_keys, self._schema_keys = _Keys(), _Keys()
        self._inline: dict[str, Any] = {}
        self._schema_entries: Members = {}
        self._server_ids: dict[str, str] = {}
        for plural in groups:
            if plural != "specversion" and isinstance(groups[plural], dict):
                self._lose(f"/{plural}", f"AsyncAPI has no place for {plural}")

    def _lose(self, pointer: str, reason: str, value: Any = None) -> None:
        self.losses.append(Loss(pointer=pointer, value=value, reason=reason))

    def run(self) -> Members:
        for id, group in self.schemagroups.items():
            for sid, schema in objects(group.get("schemas")):
                self._read_schema(id, sid, schema)
        for id, group in self.messagegroups.items():
            self._name_channel(id, group)
        for id, endpoint in self.endpoints.items():
            if _kept(endpoint).get("kind") == "server":
                key = self._server_keys.of(id, endpoint, self.application)
                self.pointers[f"/endpoints/{id}"] = f"#/servers/{escaped(key)}"
                self._add_server(id, key, endpoint)
            else:
                key = self._operation_keys.of(id, endpoint, self.application)
                self.pointers[f"/endpoints/{id}"] = f"#/operations/{escaped(key)}"
        for id, group in self.messagegroups.items():
            self._add_messages(id, group)
        for id, endpoint in self.endpoints.items():
            # After all servers and channels: an operation may add some, under keys that are free.
            if _kept(endpoint).get("kind") != "server":
                self._add_operation(id, endpoint)
        self._add_schemas()
        return self._document()

    def _name_channel(self, id: str, group: Members) -> None:
        if _kept(group).get("kind") == "components" and id == self.application:
            at = "#/components"
        else:
            key = self._channel_keys.of(id, group, self.application)
            at = f"#/channels/{escaped(key)}"
            self.channels[key] = {}
        self.pointers[f"/messagegroups/{id}"] = at
        keys = _Keys()
        for mid, message in objects(group.get("messages")):
            key = keys.of(mid, message, self.application or " ")
            self.pointers[f"/messagegroups/{id}/messages/{mid}"] = f"{at}/messages/{escaped(key)}"

    def _read_schema(self, group: str, id: str, found: Members) -> None:
        """Name a schema, unless it belongs to the payload of one message."""
        xid = f"/schemagroups/{group}/schemas/{id}"
        schema = self._default(found, xid)
        self._schema_entries[xid] = schema
        if not _kept(schema).get("isinline"):
            self._name_schema(xid)

    def _name_schema(self, xid: str) -> None:
        _, _, group, _, id = xid.split("/")
        name = id if group == self.application or len(self.schemagroups) == 1 else f"{group}.{id}"
        schema = self._schema_entries[xid]
        key = _kept(schema).get("key") if group == self.application else None
        key = key if isinstance(key, str) else self._schema_keys.allot(name)
        at = f"#/components/schemas/{escaped(key)}"
        self.pointers[xid] = f"{at}/schema" if self._is_wrapped(schema) else at

    @staticmethod
    def _is_wrapped(schema: Members) -> bool:
        stated = _kept(schema).get("schemaformat")
        return bool(stated or media_type_of(str(schema.get("format", ""))))

    def _default(self, resource: Members, xid: str) -> Members:
        """The default version of a resource; other versions are losses."""
        versions = resource.pop("versions", None)
        if not isinstance(versions, dict) or not versions:
            return resource
        meta = resource.get("meta") or {}
        default = default_version(versions, meta.get("defaultversionid"))
        for vid in versions:
            if vid != default:
                self._lose(f"{xid}/versions/{vid}", _VERSIONS)
        return {**resource, **versions[default], "versionid": default}

    def _target(self, reference: str, at: str) -> str:
        """The pointer in place of a reference to an entity; other references stay."""
        xid, fragment = entity_reference(reference)
        pointer = self.pointers.get(xid, "")
        if pointer:
            return f"{pointer}{fragment}"
        self._lose(at, _ABSENT if xid else _ELSEWHERE, reference)
        return reference

    def _shown(self, entity: Members, at: str, what: str = "object") -> Members:
        """The kept object of an entity, with references into the document."""
        kept = object_in(_kept(entity).get(what))
        shown = with_references(kept, lambda reference: self._target(reference, at))
        assert isinstance(shown, dict)
        return shown

    def _finish(self, shown: Members, left: Members) -> Members:
        """Give an object the attributes that AsyncAPI has no member for, as an extension."""
        left = without(left, KEPT, "versionid")
        if (meta := left.get("meta")) and isinstance(meta, dict):
            left["meta"] = without(meta, "readonly")
        left = {name: value for name, value in left.items() if value not in ({}, [])}
        if left:
            shown[EXTENSION] = left
        return shown

    def _add_server(self, id: str, key: str, endpoint: Members) -> None:
        at, left = f"/endpoints/{id}", copy.deepcopy(endpoint)
        shown = self._shown(endpoint, at)
        to_members(shown, left, DESCRIPTION)
        protocol, options = str(left.pop("protocol", "")), left.get(protocols.OPTIONS) or {}
        to_members(shown, left, protocols.OF_SERVERS.get(protocol, ()))
        wanted: Members = {"protocol": protocol} if protocol else {}
        made = {n: options.pop(n) for n in ("endpoints", "authorization") if n in options}
        wanted |= {protocols.OPTIONS: made} if made else {}
        if not are_equal(protocols.server_attributes(shown), wanted):
            shown |= protocols.server_members(protocol, made)
            if not are_equal(protocols.server_attributes(shown), wanted):
                left |= {"protocol": protocol, protocols.OPTIONS: {**options, **made}}
        self.servers[key] = self._finish(shown, left)
        self._server_ids[id] = key

    def _add_messages(self, id: str, group: Members) -> None:
        at = f"/messagegroups/{id}"
        pointer = self.pointers[at]
        messages: Members = {}
        for mid, found in objects(group.pop("messages", {})):
            key = _key_at(self.pointers[f"{at}/messages/{mid}"])
            messages[key] = self._message(f"{at}/messages/{mid}", found, group)
        if pointer == "#/components":
            self.components["messages"] = messages
            return
        shown, left = self._shown(group, at), dict(group)
        to_members(shown, left, DESCRIPTION)
        if left.get("protocol") == self._protocol_of(shown):
            del left["protocol"]
        key = _key_at(pointer)
        shown = self._finish(shown, left)
        self.channels[key] = {**shown, "messages": messages} if messages else shown

    def _protocol_of(self, channel: Members) -> str:
        """The protocol of the servers of a channel, as an import would find it."""
        servers = self._servers_of(channel)
        return str(servers[0].get("protocol", "")) if servers else ""

    def _servers_of(self, channel: Members) -> list[Members]:
        named = channel.get("servers")
        ids = sorted(self._server_ids, key=self._server_ids.__getitem__)
        if isinstance(named, list) and named:
            by_pointer = {self.pointers[f"/endpoints/{id}"]: id for id in ids}
            ids = [id for each in named if (id := by_pointer.get(reference_of(each)))]
        return [self.endpoints[id] for id in ids]

    def _message(self, xid: str, found: Members, group: Members) -> Members:
        reference = (found.get("meta") or {}).get("xref", "")
        message = self._default(found, xid)
        base = message.get("basemessage") or message.get("basemessageuri") or reference
        target = self.pointers.get(str(base).removeprefix("#"))
        own = message.keys() - {KEPT, "basemessage", "basemessageuri", "protocol", "versionid"}
        if target and own <= {"meta"} and "object" not in _kept(message):
            return {"$ref": target}
        shown, left = self._shown(message, xid), dict(message)
        protocol = str(left.get("protocol", ""))
        to_members(shown, left, (*DESCRIPTION, *protocols.message_correspondences(protocol)))
        if protocol == group.get("protocol", ""):
            left.pop("protocol", None)
        if not left.get(protocols.OPTIONS):
            left.pop(protocols.OPTIONS, None)
        self._set_payload(shown, left, xid)
        return self._finish(shown, left)

    def _set_payload(self, shown: Members, left: Members, xid: str) -> None:
        reference = left.pop("dataschemauri", None) or left.pop("dataschemaxid", None)
        schema, fragment = entity_reference(str(reference or "").removeprefix("#"))
        schema = schema.partition("/versions/")[0]
        if schema in self._schema_entries and not fragment:
            left.pop("dataschemaformat", None)
            entry = self._schema_entries[schema]
            if _kept(entry).get("isinline") and schema not in self.pointers:
                pointer = f"{self.pointers[xid]}/payload"
                self.pointers[schema] = f"{pointer}/schema" if self._is_wrapped(entry) else pointer
                shown["payload"] = {}
                self._inline[schema] = shown
            else:
                shown["payload"] = {"$ref": self._component_at(schema)}
        elif reference:
            left["dataschemauri"] = reference
            if schema:
                self._lose(f"{xid}/dataschemauri", _ABSENT, reference)
        elif "dataschema" in left:
            format = str(left.pop("dataschemaformat", ""))
            media_type = media_type_of(format) if format else ""
            schema_value = left.pop("dataschema")
            wrapped = {"schemaFormat": media_type, "schema": schema_value}
            shown["payload"] = wrapped if media_type else schema_value

    def _component_at(self, xid: str) -> str:
        """The pointer of a schema of the components, with the wrapper of the schema, if any."""
        return "/".join(self.pointers[xid].split("/")[:4])

    def _add_schemas(self) -> None:
        for xid in self._schema_entries:
            if xid not in self.pointers:
                self._name_schema(xid)
        for xid, schema in self._schema_entries.items():
            entry = self._schema(xid, schema)
            if xid in self._inline:
                self._inline[xid]["payload"] = entry
            else:
                key = _key_at(self._component_at(xid))
                self.components.setdefault("schemas", {})[key] = entry

    def _schema(self, xid: str, schema: Members) -> Any:
        left = dict(schema)
        format = str(left.pop("format", ""))
        left.pop("contenttype", None)
        reference = (left.get("meta") or {}).get("xref")
        document = {"$ref": reference} if reference else left.pop("schema", None)
        for name in _REMOTE:
            if name in left:
                self._lose(f"{xid}/{name}", "AsyncAPI needs the schema itself", left.pop(name))
        shown = self._shown(schema, xid)
        if isinstance(document, dict):
            document = with_references(unbundle(document), lambda to: self._local(to, xid))
        if self._is_wrapped(schema):
            stated = _kept(schema).get("schemaformat") or media_type_of(format)
            entry = {"schemaFormat": stated, "schema": {} if document is None else document}
            return self._finish({**entry, **shown}, left)
        document = {} if document is None else document
        return self._finish(document, left) if isinstance(document, dict) else document

    def _local(self, reference: str, xid: str) -> str:
        if reference.startswith("#"):
            return f"{self.pointers[xid]}{reference[1:]}"
        return self._target(reference, xid)

    def _add_operation(self, id: str, endpoint: Members) -> None:
        at, left = f"/endpoints/{id}", copy.deepcopy(endpoint)
        shown = self._shown(endpoint, at)
        to_members(shown, left, DESCRIPTION)
        protocol, usage = str(left.pop("protocol", "")), left.pop("usage", None)
        # An imported operation without a group had a channel in another document.
        is_detached = _kept(endpoint).get("kind") == "operation" and "messagegroups" not in endpoint
        actions = [each for each, made in protocols.ACTIONS.items() if made == usage]
        action = next(iter(actions), "send" if "producer" in (usage or ()) else "receive")
        if usage is not None or not is_detached:
            if not actions and "action" not in shown:
                left["usage"] = usage
            shown.setdefault("action", action)
        if not is_detached:
            channel = self._channel_of(id, endpoint, left, protocol, action)
            shown["channel"] = {"$ref": f"#/channels/{escaped(channel)}"}
            to_members(shown, left, protocols.OF_OPERATIONS.get(protocol, ()))
            options = left.setdefault(protocols.OPTIONS, {})
            for name, value in protocols.channel_options(
                self.channels[channel], protocol, action
            ).items():
                if are_equal(options.get(name), value):
                    del options[name]
                else:
                    options.setdefault(name, None)
            if protocol and protocol != self._protocol_of(self.channels[channel]):
                left["protocol"] = protocol
        self.operations[_key_at(self.pointers[at])] = self._finish(shown, left)

    def _channel_of(
        self, id: str, endpoint: Members, left: Members, protocol: str, action: str
    ) -> str:
        """The channel of an endpoint, a new channel if no message group is the channel."""
        named = left.pop("messagegroups", None) or []
        options = left.get(protocols.OPTIONS) or {}
        groups = list(filter(None, (self._group_of(each, id) for each in named)))
        targets = [self.pointers[f"/messagegroups/{group}"] for group in groups]
        address = options.get(protocols.address_option(protocol, action))
        own = left.pop("messages", {})
        if len(targets) == 1 and not own:
            key = _key_at(targets[0])
            channel = self.channels[key]
            is_imported = _kept(endpoint).get("kind") == "operation"
            if is_imported or self._fits(channel, protocol, action, address):
                if left.get("channel") == (self.messagegroups[groups[0]].get("name") or groups[0]):
                    del left["channel"]
                self._set_servers(channel, options, protocol)
                return key
        key = self._channel_keys.allot(id)
        channel = self.channels[key] = {"address": address}
        messages: Members = {}
        for mid, found in objects(own):
            xid = f"/endpoints/{id}/messages/{mid}"
            self.pointers[xid] = f"#/channels/{escaped(key)}/messages/{escaped(mid)}"
            messages[mid] = self._message(xid, found, endpoint)
        for pointer in targets:
            prefix = f"{pointer}/messages/"
            for each in [p for p in self.pointers.values() if p.startswith(prefix)]:
                messages.setdefault(_key_at(each), {"$ref": each})
        if messages:
            channel["messages"] = messages
        self._set_servers(channel, options, protocol)
        return key

    def _fits(self, channel: Members, protocol: str, action: str, address: Any) -> bool:
        """Whether an endpoint can be an operation on a channel, which gets its address."""
        channel.setdefault("address", address)
        expected = protocols.channel_options(channel, protocol, action).get(
            protocols.address_option(protocol, action)
        )
        is_other = "servers" in channel and self._protocol_of(channel) != protocol
        return not is_other and address in (None, expected)

    def _group_of(self, value: Any, id: str) -> str:
        """The id of the message group that an endpoint refers to; empty if there is no channel."""
        path = str(value).removeprefix("#")
        if self.pointers.get(path, "").startswith("#/channels/"):
            return path.rpartition("/")[2]
        self._lose(f"/endpoints/{id}/messagegroups", _ABSENT, value)
        return ""

    def _set_servers(self, channel: Members, options: Members, protocol: str) -> None:
        """Give a channel the servers for the addresses of an endpoint."""
        known = protocols.common_addresses(self._servers_of(channel), protocol)
        addresses = protocols.addresses_of(options)
        options.pop("endpoints", None)
        if known and not addresses:
            options["endpoints"] = None
        if are_equal(known, addresses):
            return
        authorization = options.get("authorization")
        references = list(channel.get("servers") or ())
        for address in addresses:
            made = {"endpoints": [address]}
            made |= {"authorization": authorization} if authorization else {}
            key = self._server_for(protocol, made)
            reference = {"$ref": f"#/servers/{escaped(key)}"}
            if reference not in references:
                references.append(reference)
        if references:
            channel["servers"] = references

    def _server_for(self, protocol: str, options: Members) -> str:
        """The key of a server with an address, a new server if there is none."""
        entity = {"protocol": protocol, protocols.OPTIONS: options}
        for id, key in self._server_ids.items():
            own = {name: self.endpoints[id].get(name) for name in entity}
            if are_equal(own, entity):
                return key
        server = protocols.server_members(protocol, options)
        id = key = self._server_keys.allot(str(server["host"]) or "server")
        self.endpoints = {**self.endpoints, id: entity}
        self.pointers[f"/endpoints/{id}"] = f"#/servers/{escaped(key)}"
        made = protocols.server_attributes(server)
        left = {} if are_equal(made, entity) else copy.deepcopy(entity)
        self.servers[key] = self._finish(server, left)
        self._server_ids[id] = key
        return key

    def _document(self) -> Members:
        group = self.schemagroups.get(self.application, {})
        group.pop("schemas", None)
        at = f"/schemagroups/{self.application}"
        info = self._shown(group, at, "info") if self.application else {}
        left = dict(group)
        to_members(info, left, DESCRIPTION)
        info.setdefault("title", self.title)
        info.setdefault("version", "1.0.0")
        for id, other in self.schemagroups.items():
            if id != self.application and other.keys() - {"schemas"}:
                self._lose(f"/schemagroups/{id}", _GROUP)
        for kind, found in self._shown(group, at, "components").items():
            self.components.setdefault(kind, {}).update(found)
        found = {
            "servers": self.servers,
            "channels": self.channels,
            "operations": self.operations,
            "components": self.components,
        }
        return {
            "asyncapi": "3.0.0",
            **self._shown(group, at),
            "info": self._finish(info, left),
            **{name: each for name, each in found.items() if each},
        }


def _key_at(pointer: str) -> str:
    """The last key of a JSON pointer."""
    return unescaped(pointer.rpartition("/")[2])
