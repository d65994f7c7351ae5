"""Whether a message conforms to its definition, except for its payload's own schema."""

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
    """Hold everything but the payload's content against a definition."""
    findings = Violations()
    try:
        _check_envelope(message, definition, findings)
        _check_protocol(message, definition, findings)
        _check_content_type(message, definition, findings)
        findings.finish()
    except TooMuch:
        reason = "it has too much that is wrong, or is too large, to be checked in bounded time"
        findings.violations.append(RuleViolation(pointer="", rule="size", detail=reason))
    return findings


def _check_envelope(message: Message, definition: MessageDefinition, findings: Violations) -> None:
    declared = message.envelope.lower()
    if declared and definition.envelope and declared != definition.envelope.lower():
        findings.object("/envelope", "envelope", f"it must be {definition.envelope}")
    if definition.envelope and not definition.is_cloudevent:
        findings.leave("envelope", f"{definition.envelope} is not known here")
    if message.event is not None:
        check_event(message.event, definition, findings)
    elif definition.is_cloudevent or declared == CLOUDEVENTS_ENVELOPE:
        findings.object("", "envelope", message.fault)


def _check_protocol(message: Message, definition: MessageDefinition, findings: Violations) -> None:
    if not definition.protocol:
        return
    protocol = protocol_of(definition.protocol)
    if protocol is None:
        findings.leave("protocol", f"{definition.protocol} is not known here")
    elif message.options is None:
        findings.leave("protocol", f"the message came without what {protocol.name} says of it")
    elif protocol_of(message.protocol) is not protocol:
        findings.object("/protocol", "protocol", f"it must be {definition.protocol}")
    else:
        _check_options(message, definition, protocol, findings)


def _check_options(
    message: Message, definition: MessageDefinition, protocol: MessageProtocol, findings: Violations
) -> None:
    given = message.options or {}
    together = [given[name] for name in protocol.exclusive if name in given]
    if len(together) > 1:
        findings.object(together[0].pointer, "exclusive", f"{together[1].name} is there, too")
    for name, source in definition.protocoloptions.items():
        option = protocol.canonical(name)
        if option in protocol.options:
            wanted = Property.of(source, type=protocol.options[option])
            entry = given.get(option) or _default(protocol, (option,))
            _check_entry(wanted, [entry] if entry else [], option, pointer(name), False, findings)
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
        found = entries.get(protocol.key(name), [])
        default = _default(protocol, (section, name))
        if not found and default is not None:
            found = [default]
        wanted = Property.of(definition, type=types.get(name, "string"))
        _check_entry(wanted, found, name, pointer(section, name), protocol.textual, findings)


def _check_entry(
    wanted: Property,
    found: list[Entry],
    name: str,
    place: str,
    is_text: bool,
    findings: Violations,
) -> None:
    """Of several entries of a name, one that the definition fits is enough."""
    is_media_type = name.lower() in _MEDIA_TYPES
    chosen = found[0] if found else Entry(name=name, value=None, pointer=place)
    if len(found) > 1:
        fitting = (
            entry
            for entry in found
            if findings.admits(wanted, entry.value, is_text=is_text, is_media_type=is_media_type)
        )
        chosen = next(fitting, chosen)
    findings.check(
        wanted, chosen.value, chosen.pointer, is_text=is_text, is_media_type=is_media_type
    )


def _default(protocol: MessageProtocol, path: tuple[str, ...]) -> Entry | None:
    if path not in protocol.defaults:
        return None
    return Entry(name=path[-1], value=protocol.defaults[path], pointer=pointer(*path))


def _definitions(source: Any) -> Iterator[tuple[str, Any]]:
    """The entries of a section: a list of objects with names, or a map."""
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
    """Where the definition means an envelope around the data, that is what it has to be."""
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
            findings.object(at, "datacontenttype", f"it must be {wanted}, and it is not said")
    elif not media_type_fits(wanted, data.contenttype):
        findings.object(at, "datacontenttype", f"it must be {wanted}, and is {data.contenttype}")
