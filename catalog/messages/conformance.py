"""Checks whether a message conforms to a definition, except for the schema of the payload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from catalog.messages.cloudeventcheck import check_event
from catalog.messages.definition import CLOUDEVENTS_ENVELOPE, MessageDefinition, Property
from catalog.messages.message import Entry, Message, pointer
from catalog.messages.protocols import MessageProtocol, protocol_of
from catalog.messages.values import media_type_fits
from catalog.messages.violations import RuleViolation, TooMuch, Violations

_MEDIA_TYPES = frozenset({"content-encoding", "content-type", "content_type", "datacontenttype"})
_STRUCTURED = "application/cloudevents"


def check_metadata(message: Message, definition: MessageDefinition) -> Violations:
    """Check a message by a definition, except for the content of the payload."""
    findings = Violations()
    try:
        _check_envelope(message, definition, findings)
        _check_protocol(message, definition, findings)
        _check_content_type(message, definition, findings)
        findings.finish()
    except TooMuch:
        reason = "it has too many errors, or is too large, to be checked in bounded time"
        findings.violations.append(RuleViolation(pointer="", rule="size", detail=reason))
    return findings


def _check_envelope(message: Message, definition: MessageDefinition, findings: Violations) -> None:
    declared = message.envelope.lower()
    if declared and definition.envelope and declared != definition.envelope.lower():
        findings.object("/envelope", "envelope", f"it must be {definition.envelope}")
    if definition.envelope and not definition.is_cloudevent:
        findings.leave("envelope", f"{definition.envelope} is not supported")
    if message.event is not None:
        check_event(message.event, definition, findings)
    elif definition.is_cloudevent or declared == CLOUDEVENTS_ENVELOPE:
        findings.object("", "envelope", message.fault)


def _check_protocol(message: Message, definition: MessageDefinition, findings: Violations) -> None:
    if not definition.protocol:
        return
    protocol = protocol_of(definition.protocol)
    if protocol is None:
        findings.leave("protocol", f"{definition.protocol} is not supported")
    elif message.options is None:
        findings.leave("protocol", f"the message came without the metadata of {protocol.name}")
    elif protocol_of(message.protocol) is not protocol:
        findings.object("/protocol", "protocol", f"it must be {definition.protocol}")
    else:
        _check_options(message, definition, protocol, findings)


def _check_options(
    message: Message, definition: MessageDefinition, protocol: MessageProtocol, findings: Violations
) -> None:
    given = message.options or {}
    exclusive = [given[name] for name in protocol.exclusive if name in given]
    if len(exclusive) > 1:
        findings.object(exclusive[0].pointer, "exclusive", f"{exclusive[1].name} is there, too")
    for name, source in definition.protocoloptions.items():
        option = protocol.canonical(name)
        if option in protocol.options:
            wanted = _property(source, option, protocol.options[option], is_text=False)
            entry = given.get(option) or _default(protocol, (option,))
            _check_entries(wanted, [entry] if entry else [], pointer(name), findings)
        elif option in protocol.sections:
            _check_section(message, protocol, option, source, findings)
        else:
            findings.leave(f"protocoloptions/{name}", f"{protocol.name} has no such option")


def _check_section(
    message: Message, protocol: MessageProtocol, section: str, source: Any, findings: Violations
) -> None:
    types = protocol.sections[section]
    entries: dict[str, list[Entry]] = {}
    for entry in message.sections.get(section, ()):
        entries.setdefault(protocol.key(entry.name), []).append(entry)
    for given_name, definition in _definitions(source):
        name = protocol.canonical(given_name) if types else given_name
        if (section, name) in protocol.volatile:
            continue
        default = _default(protocol, (section, name))
        found = entries.get(protocol.key(name)) or ([default] if default else [])
        wanted = _property(definition, name, types.get(name, "string"), is_text=protocol.textual)
        _check_entries(wanted, found, pointer(section, name), findings)


def _property(source: Any, name: str, type: str, *, is_text: bool) -> Property:
    is_media_type = name.lower() in _MEDIA_TYPES
    return Property.of(source, type=type, is_text=is_text, is_media_type=is_media_type)


def _check_entries(
    wanted: Property, found: list[Entry], default_pointer: str, findings: Violations
) -> None:
    """Check the first conforming entry of a name, or the first entry if no entry conforms."""
    if not found:
        findings.check(wanted, None, default_pointer)
        return
    fitting = (entry for entry in found if findings.admits(wanted, entry.value))
    chosen = next(fitting, found[0]) if len(found) > 1 else found[0]
    findings.check(wanted, chosen.value, chosen.pointer)


def _default(protocol: MessageProtocol, path: tuple[str, ...]) -> Entry | None:
    if path not in protocol.defaults:
        return None
    return Entry(name=path[-1], value=protocol.defaults[path], pointer=pointer(*path))


def _definitions(source: Any) -> Iterator[tuple[str, Any]]:
    """The definitions in a section: a list of objects with names, or a map."""
    if isinstance(source, list):
        named = [one for one in source if isinstance(one, Mapping)]
        yield from ((name, one) for one in named if isinstance(name := one.get("name"), str))
    elif isinstance(source, Mapping):
        for name, one in source.items():
            inner = one.get("name") if isinstance(one, Mapping) else None
            yield (inner if isinstance(inner, str) else name), one


def _check_content_type(
    message: Message, definition: MessageDefinition, findings: Violations
) -> None:
    """Check the media type of the data, or of the structured event around it."""
    wanted, data = definition.datacontenttype, message.data
    if not wanted:
        return
    event = message.event
    if wanted.lower().startswith(_STRUCTURED):
        if event is None or not event.is_structured:
            findings.object("", "datacontenttype", f"it must be {wanted}")
        return
    if data is None:
        return
    at = event.pointer("datacontenttype") if event is not None else data.pointer
    if not data.contenttype:
        if event is not None:
            findings.object(at, "datacontenttype", f"it must be {wanted}, and it is missing")
    elif not media_type_fits(wanted, data.contenttype):
        findings.object(at, "datacontenttype", f"it must be {wanted}, and is {data.contenttype}")
