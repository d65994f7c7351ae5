"""Rewrites AsyncAPI documents of edition 2.x in edition 3.0, and documents of 3.0 in 2.6."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import orjson

from catalog.documents.asyncapi.references import (
    Identifiers,
    Members,
    SourceDocument,
    object_in,
    objects,
    reference_of,
    without,
)
from catalog.documents.asyncapi.schemadocuments import (
    JSON_SCHEMA,
    format_of,
    is_json_schema,
    split,
    with_references,
)
from catalog.documents.losses import Loss
from catalog.documents.rewriter import escaped, unescaped

# In 2.x an operation says what others do; in 3.0, what the described application does.
_ACTIONS = {"publish": "receive", "subscribe": "send"}
_OPERATIONS = {action: name for name, action in _ACTIONS.items()}
_URL = re.compile(r"(?:[A-Za-z{][A-Za-z0-9+.{}-]*://)?([^/]*)(/.*)?")
_PARAMETER = ("default", "description", "enum", "examples")
_SCOPES = ("scopes", "availableScopes")
_AMQP_OF_CHANNELS = ["exchange", "is", "queue", "replyTo", "routingKey"]
_MERGED = ("messageTraits", "operationTraits")
_UNKNOWN = "AsyncAPI 2.6 has no such member"


def upgrade(source: SourceDocument) -> Members:
    """A document of edition 2.x in edition 3.0, with the traits merged."""
    return _Upgrade(source).run()


class _Upgrade:
    def __init__(self, source: SourceDocument) -> None:
        self.source = source
        self.channels: Members = {}
        self.operations: Members = {}
        self._channel_ids, self._operation_ids = Identifiers(), Identifiers()
        self._message_keys: dict[tuple[str, bytes], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()

    def run(self) -> Members:
        found = self.source.document
        for address, item in objects(found.get("channels")):
            self._add_channel(address, item)
        info = dict(object_in(found.get("info")))
        info |= {name: found[name] for name in ("tags", "externalDocs") if name in found}
        kept = without(found, "channels", "components", "externalDocs", "servers", "tags")
        servers = self._servers(found.get("servers"), "#/servers")
        # After the rest, which marks the components that are used up, such as traits: they are left
        # out.
        components = self._components(found.get("components"))
        return {
            **kept,
            "asyncapi": "3.0.0",
            "info": info,
            **({"servers": servers} if servers else {}),
            "channels": self.channels,
            "operations": self.operations,
            **({"components": components} if components else {}),
        }

    def _servers(self, found: Any, pointer: str) -> Members:
        servers: Members = {}
        for key, each in objects(found):
            server, _ = self.source.follow(each, f"{pointer}/{escaped(key)}")
            servers[key] = self._server(server) if isinstance(server, dict) else each
        return servers

    def _server(self, found: Members) -> Members:
        server = without(found, "url")
        url = found.get("url")
        if isinstance(url, str) and (parts := _URL.fullmatch(url)):
            server["host"] = parts[1]
            if parts[2]:
                server["pathname"] = parts[2]
            if _url_of(server) != url:
                server["x-url"] = url
        return self._with_security(server)

    def _with_security(self, members: Members) -> Members:
        """Security requirements, which name schemes in 2.x, as references to schemes."""
        required = members.get("security")
        if not isinstance(required, list):
            return members
        schemes = [
            self._scheme(name, scopes)
            for each in required
            if isinstance(each, dict)
            for name, scopes in each.items()
        ]
        return {**members, "security": schemes}

    def _scheme(self, name: str, scopes: Any) -> Members:
        reference = {"$ref": f"#/components/securitySchemes/{escaped(name)}"}
        if not scopes:
            return reference
        found, _ = self.source.follow(reference, f"/components/securitySchemes/{name}")
        scheme = _with_scopes(found, *_SCOPES) if isinstance(found, dict) else reference
        return {**scheme, "scopes": scopes}

    def _add_channel(self, address: str, item: Members) -> None:
        key = self._channel_ids.allot(address)
        pointer = f"#/channels/{escaped(address)}"
        found, _ = self.source.follow(item, pointer)
        if not isinstance(found, dict):
            self.channels[key] = {"address": address, **item}
            return
        channel: Members = {"address": address}
        channel |= without(found, *_ACTIONS)
        if isinstance(names := found.get("servers"), list):
            channel["servers"] = [{"$ref": f"#/servers/{escaped(str(name))}"} for name in names]
        if isinstance(found.get("parameters"), dict):
            channel["parameters"] = {
                name: self._parameter(each, f"{pointer}/parameters/{escaped(name)}")
                for name, each in objects(found["parameters"])
            }
        messages: Members = {}
        for kind in sorted(_ACTIONS.keys() & found.keys()):
            if isinstance(found[kind], dict):
                self._add_operation(key, kind, found[kind], messages, f"{pointer}/{kind}")
        channel = _with_strict_bindings(channel)
        self.channels[key] = {**channel, "messages": messages} if messages else channel

    def _add_operation(
        self, channel: str, kind: str, found: Members, messages: Members, pointer: str
    ) -> None:
        operation = self._merged(found, pointer)
        key = self._operation_ids.allot(str(operation.pop("operationId", f"{channel}.{kind}")))
        named = []
        for each, at in _alternatives(operation.pop("message", None), f"{pointer}/message"):
            name = self._add_message(each, messages, at)
            named.append({"$ref": f"#/channels/{escaped(channel)}/messages/{escaped(name)}"})
        self.operations[key] = {
            **_with_strict_bindings(self._with_security(operation)),
            "action": _ACTIONS[kind],
            "channel": {"$ref": f"#/channels/{escaped(channel)}"},
            **({"messages": named} if named else {}),
        }

    def _add_message(self, entry: Members, messages: Members, pointer: str) -> str:
        """Add a message to those of a channel, unless it is there; return its key."""
        reference = reference_of(entry)
        found, target = self.source.follow(entry, pointer)
        merged = self._merged(found, target) if isinstance(found, dict) else {}
        last = unescaped(reference.rpartition("/")[2])
        name = str(merged.get("messageId") or last or merged.get("name") or "message")
        is_component = target.startswith("#/components/messages/") and target.count("/") == 3
        definition = entry if is_component or found is None else self._message(merged)
        channel = pointer.split("/")[2]
        written = channel, orjson.dumps([name, definition])
        if written not in self._message_keys:
            key = name
            while key in messages:
                self._counts[channel, name] += 1
                key = f"{name}-{self._counts[channel, name] + 1}"
            messages[key] = definition
            self._message_keys[written] = key
        return self._message_keys[written]

    def _message(self, found: Members) -> Members:
        message = without(found, "messageId", "schemaFormat")
        media_type = found.get("schemaFormat")
        if isinstance(media_type, str) and format_of(media_type) != JSON_SCHEMA:
            schema = message.get("payload", {})
            message["payload"] = {"schemaFormat": media_type, "schema": schema}
        return message

    def _merged(self, found: Members, pointer: str) -> Members:
        return self.source.with_traits(found, pointer, traits_win=True)

    def _parameter(self, entry: Members, pointer: str) -> Members:
        """A parameter, which has a schema in 2.x; other members of the schema become `x-schema`."""
        parameter, target = self.source.follow(entry, pointer)
        if not isinstance(parameter, dict):
            return entry
        schema, _ = self.source.follow(parameter.get("schema", {}), f"{target}/schema")
        schema = dict(object_in(schema))
        found = without(parameter, "schema")
        for name in _PARAMETER:
            if name in schema and name not in found:
                found[name] = schema.pop(name)
        is_text = schema in ({}, {"type": "string"})
        return found if is_text else {**found, "x-schema": schema}

    def _components(self, found: Any) -> Members:
        components = dict(object_in(found))
        rewrites: Mapping[str, Callable[[Members, str], Members]] = {
            "messages": lambda each, at: self._message(self._merged(each, at)),
            "parameters": self._parameter,
            "securitySchemes": lambda each, _: _with_scopes(each, *_SCOPES),
            "servers": lambda each, _: self._server(each),
        }
        for kind, rewrite in rewrites.items():
            if isinstance(components.get(kind), dict):
                components[kind] = {
                    key: each if reference_of(each) else rewrite(each, f"#/components/{kind}/{key}")
                    for key, each in objects(components[kind])
                }
        for kind in (*_MERGED, "channels", "servers"):
            for key in [*(components.get(kind) or {})]:
                if f"#/components/{kind}/{escaped(key)}" in self.source.used:
                    components[kind] = without(components[kind], key)
        return {kind: each for kind, each in components.items() if each}


def _with_strict_bindings(members: Members) -> Members:
    """A channel or operation whose bindings have the form of 3.0, which checks them.

    Ids of Kafka are schemas, and members of AMQP bindings that 3.0 refuses become extensions.
    """
    bindings = members.get("bindings")
    if not isinstance(bindings, dict):
        return members
    made = dict(bindings)
    if isinstance(kafka := bindings.get("kafka"), dict):
        made["kafka"] = {
            name: {"type": "string", "enum": [value]}
            if name in ("clientId", "groupId") and isinstance(value, str)
            else value
            for name, value in kafka.items()
        }
    if isinstance(amqp := bindings.get("amqp"), dict):
        of_channel = {"queue": ["exchange"], "routingKey": ["queue"]}.get(str(amqp.get("is")), [])
        refused = of_channel if "address" in members else _AMQP_OF_CHANNELS
        made["amqp"] = {
            f"x-{name}" if name in refused else name: value for name, value in amqp.items()
        }
    return {**members, "bindings": made}


def _alternatives(message: Any, pointer: str) -> Iterator[tuple[Members, str]]:
    alternatives = message.get("oneOf") if isinstance(message, dict) else None
    if isinstance(alternatives, list):
        for place, each in enumerate(alternatives):
            if isinstance(each, dict):
                yield each, f"{pointer}/oneOf/{place}"
    elif isinstance(message, dict):
        yield message, pointer


def _with_scopes(scheme: Members, old: str, new: str) -> Members:
    """An OAuth 2 scheme whose flows have their scopes under the name of another edition."""
    flows = scheme.get("flows")
    if not isinstance(flows, dict):
        return scheme
    renamed = {
        kind: {(new if name == old else name): value for name, value in flow.items()}
        for kind, flow in objects(flows)
    }
    return {**scheme, "flows": renamed}


def _url_of(server: Mapping[str, Any]) -> str:
    return f"{server.get('protocol')}://{server.get('host', '')}{server.get('pathname', '')}"


def downgrade(document: Members) -> tuple[Members, list[Loss]]:
    """A document of edition 3.0, as `from_entities` writes it, in edition 2.6, with the losses."""
    return _Downgrade(document).run()


class _Downgrade:
    def __init__(self, document: Members) -> None:
        self.source = SourceDocument(document)
        self.document = document
        self.components: Members = dict(document.get("components", {}))
        self.schemes: Members = dict(self.components.pop("securitySchemes", {}))
        self.messages: Members = {}
        self.names: dict[str, str] = {}
        """The keys of messages by the pointers of 3.0."""
        self._message_ids = Identifiers()

    def run(self) -> tuple[Members, list[Loss]]:
        found = self.document
        info = dict(found["info"])
        root = {name: info.pop(name) for name in ("tags", "externalDocs") if name in info}
        kept = without(found, "channels", "components", "info", "operations", "servers")
        names = self.names
        for pointer, key, each in self._definitions():
            # References follow in a second pass: their targets may come later in the document.
            if not reference_of(each):
                names[pointer] = self._add_message(each, key, pointer)
        for pointer, _, each in self._definitions():
            _, target = self.source.follow(each, pointer)
            if target in names:
                names[pointer] = names[target]
        servers = {key: self._server(key, each) for key, each in objects(found.get("servers"))}
        channels = self._channels(names)
        for kind in ("replies", "replyAddresses", "operations", "tags", "externalDocs"):
            if kind in self.components:
                self._lose(f"#/components/{kind}", self.components.pop(kind))
        components = {**self.components, "messages": self.messages}
        if self.schemes:
            components["securitySchemes"] = {
                key: _with_scopes(each, *reversed(_SCOPES)) for key, each in objects(self.schemes)
            }
        components["schemas"] = self._schemas()
        written: Members = {
            **kept,
            "asyncapi": "2.6.0",
            "info": info,
            **root,
            **({"servers": servers} if servers else {}),
            "channels": channels,
            "components": {kind: each for kind, each in components.items() if each},
        }
        schemas = components["schemas"]
        written = with_references(written, lambda reference: self._moved(reference, schemas))
        return written, [*self.source.losses.values()]

    def _moved(self, reference: str, schemas: Members) -> str:
        """A reference in the terms of 2.6, where messages are components without wrappers."""
        if not reference.startswith("#/"):
            return reference
        steps = reference.split("/")
        length = 5 if steps[1] == "channels" else 4
        head, rest = "/".join(steps[:length]), steps[length:]
        if head in self.names:
            rest = ["payload", *rest[2:]] if rest[:2] == ["payload", "schema"] else rest
            head = f"#/components/messages/{self.names[head]}"
        elif head.startswith("#/components/schemas/"):
            schema = self.components.get("schemas", {}).get(unescaped(steps[3]))
            rest = rest[1:] if rest[:1] == ["schema"] and split(schema)[3] else rest
            if unescaped(steps[3]) not in schemas:
                self._lose(reference, reference, "AsyncAPI 2.6 has its format in messages only")
        return "/".join([head, *rest])

    def _definitions(self) -> Iterator[tuple[str, str, Members]]:
        """The messages of components and channels with their pointers and keys."""
        for key, each in objects(self.components.get("messages")):
            yield f"#/components/messages/{escaped(key)}", key, each
        for channel, item in objects(self.document.get("channels")):
            for key, each in objects(item.get("messages")):
                yield f"#/channels/{escaped(channel)}/messages/{escaped(key)}", key, each

    def _schemas(self) -> Members:
        """The schemas in JSON Schema; 2.6 has schemas of other formats in messages only."""
        schemas: Members = {}
        for key, each in (self.components.get("schemas") or {}).items():
            at = f"#/components/schemas/{escaped(key)}"
            media_type, schema, _, is_wrapped = split(each)
            if not is_wrapped or is_json_schema(format_of(media_type)):
                schemas[key] = schema
            elif at not in self.source.used:
                self._lose(at, media_type, "AsyncAPI 2.6 has this format in messages only")
        return schemas

    def _lose(self, pointer: str, value: Any, reason: str = _UNKNOWN) -> None:
        self.source.lose(pointer, value, reason)

    def _without(self, members: Members, pointer: str, *names: str) -> Members:
        """An object without members that 2.6 does not know."""
        for name in names:
            if name in members:
                self._lose(f"{pointer}/{name}", members[name])
        return without(members, *names)

    def _server(self, key: str, found: Members) -> Members:
        at = f"#/servers/{escaped(key)}"
        server = self._without(found, at, "title", "summary", "externalDocs")
        url = server.pop("x-url", _url_of(server))
        server = without(server, "host", "pathname")
        return self._with_security({"url": url, **server})

    def _with_security(self, members: Members) -> Members:
        required = members.get("security")
        if not isinstance(required, list):
            return members
        found = []
        for each in (each for each in required if isinstance(each, dict)):
            scheme = without(each, "scopes")
            name = next((key for key, known in self.schemes.items() if known == scheme), "")
            name = name or f"{scheme.get('type', 'scheme')}-{len(self.schemes) + 1}"
            self.schemes.setdefault(name, scheme)
            found.append({name: each.get("scopes", [])})
        return {**members, "security": found}

    def _add_message(self, found: Members, key: str, pointer: str) -> str:
        id = self._message_ids.allot(key)
        message = dict(found)
        media_type, schema, _, is_wrapped = split(found.get("payload"))
        target = reference_of(found.get("payload"))
        if target:
            referred, _ = self.source.follow({"$ref": target}, pointer)
            media_type, schema, _, is_inner = split(referred)
            if is_inner and not is_json_schema(format_of(media_type)):
                former, own = f"{target}/schema", f"{pointer}/payload"
                message["payload"] = with_references(schema, lambda to: to.replace(former, own, 1))
            message |= {"schemaFormat": media_type} if is_inner else {}
        elif is_wrapped:
            message |= {"schemaFormat": media_type, "payload": schema}
        if "headers" in found:
            message["headers"] = split(found["headers"])[1]
        self.messages[id] = message
        return id

    def _channels(self, names: Mapping[str, str]) -> Members:
        channels: Members = {}
        by_channel: dict[str, Members] = {}
        for key, found in objects(self.document.get("channels")):
            at = f"#/channels/{escaped(key)}"
            address = found.get("address")
            address = address if isinstance(address, str) and address else key
            if "#" in address or "?" in address:
                self._lose(f"{at}/address", address, "AsyncAPI 2.6 has no such addresses")
                address = key
            while address in channels:
                address = f"{address}.{key}"
                self._lose(f"{at}/address", found.get("address"), "another channel has it, too")
            own = self._without(found, at, "title", "summary", "tags", "externalDocs")
            item = without(own, "address", "messages")
            if isinstance(servers := item.get("servers"), list):
                item["servers"] = [unescaped(reference_of(s).rpartition("/")[2]) for s in servers]
            if isinstance(parameters := item.get("parameters"), dict):
                item["parameters"] = {n: _parameter(p) for n, p in objects(parameters)}
            channels[address] = by_channel[at] = item
        for key, found in objects(self.document.get("operations")):
            self._add_operation(key, found, by_channel, names)
        return channels

    def _add_operation(
        self, key: str, found: Members, channels: Mapping[str, Members], names: Mapping[str, str]
    ) -> None:
        at = f"#/operations/{escaped(key)}"
        channel = reference_of(found.get("channel"))
        kind = _OPERATIONS.get(str(found.get("action")))
        if kind is None or channel not in channels:
            self._lose(at, found, "it has no channel and action")
            return
        if kind in channels[channel]:
            self._lose(at, found, f"AsyncAPI 2.6 has one operation to {kind} for each channel")
            return
        operation = self._without(found, at, "title", "reply")
        listed = operation.get("messages")
        found_messages = self.document["channels"][unescaped(channel[len("#/channels/") :])]
        every = [
            f"{channel}/messages/{escaped(name)}" for name in found_messages.get("messages", {})
        ]
        chosen = [reference_of(each) for each in listed] if isinstance(listed, list) else every
        refs = [{"$ref": p} for p in chosen if p in names]
        item = without(operation, "action", "channel", "messages")
        item = self._with_security({"operationId": key, **item})
        if refs:
            item["message"] = refs[0] if len(refs) == 1 else {"oneOf": refs}
        channels[channel][kind] = item


def _parameter(found: Members) -> Members:
    rest = without(found, "default", "enum", "examples", "x-schema")
    schema = dict(found.get("x-schema") or {"type": "string"})
    schema |= {name: found[name] for name in ("default", "enum", "examples") if name in found}
    return {**rest, "schema": schema}
