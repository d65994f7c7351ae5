"""Checks whether a message conforms to a definition, except for the schema of the payload.

The violations are the rules that a message breaks, and the parts of a definition that could not be
checked. Sources: cloudevents/spec.md, "Context Attributes" and "Type System"; message/spec.md,
"CloudEvents/1.0".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.messages.definition import CLOUDEVENTS_ENVELOPE, MessageDefinition, Property
from catalog.messages.message import CarriedEvent, Entry, Message, is_json_type, pointer
from catalog.messages.messageprotocol import MessageProtocol, protocol_of
from catalog.messages.values import Template, is_now, is_same, media_type_fits, read

EFFORT = 1_000_000
MOST_VIOLATIONS = 1000
_EFFORT_OF_A_CHECK = 16
_CHARACTERS_OF_A_STEP = 32
_MOST_SHOWN = 200
_NAME = re.compile(r"[a-z0-9]+")
_MEDIA_TYPES = frozenset({"content-encoding", "content-type", "content_type", "datacontenttype"})
_STRUCTURED = "application/cloudevents"
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_LARGEST = 2**31

# The attributes of the CloudEvents specification, which must not be empty.
_CORE: Mapping[str, Property] = {
    "specversion": Property(value="1.0", required=True),
    "id": Property(required=True),
    "type": Property(required=True),
    "source": Property(type="urireference", required=True),
    "subject": Property(),
    "time": Property(type="timestamp"),
    "dataschema": Property(type="uri"),
    "datacontenttype": Property(),
}
# The types of attributes, for definitions without a type (the table of message/spec.md).
_TYPES = {"source": "uritemplate", "time": "timestamp", "dataschema": "uritemplate"}


class TooMuch(Exception):
    """The check of a message takes too long, or finds too many violations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleViolation:
    """A rule that a message breaks, with a JSON pointer into the message."""

    pointer: str
    rule: str
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unchecked:
    """A part of the definition that was not checked; `uri` is the reference in the part, if any."""

    part: str
    reason: str
    uri: str = ""


@dataclass(slots=True)
class Violations:
    """Checks values, and collects violations; `finish` compares the placeholders of the templates.

    The effort for a message is bounded, because the checks cannot be interrupted: every method
    raises `TooMuch` once the effort is spent, or the number of violations is at the limit.
    """

    violations: list[RuleViolation] = field(default_factory=list)
    unchecked: list[Unchecked] = field(default_factory=list)
    _effort: int = EFFORT
    _templates: list[tuple[str, Template, str]] = field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """Whether the number of violations is at the limit."""
        return len(self.violations) >= MOST_VIOLATIONS

    def object(self, pointer: str, rule: str, detail: str) -> None:
        """Add a violation."""
        if self.is_full:
            raise TooMuch
        self.violations.append(RuleViolation(pointer=pointer, rule=rule, detail=detail))

    def leave(self, part: str, reason: str, uri: str = "") -> None:
        """Add a part of the definition that was not checked."""
        self.unchecked.append(Unchecked(part=part, reason=reason, uri=uri))

    def spend(self, effort: int) -> None:
        """Count effort."""
        self._effort -= effort
        if self._effort < 0:
            raise TooMuch

    def admits(self, wanted: Property, value: Any) -> bool:
        """Whether a value conforms to a property's definition, shared placeholders excepted."""
        self.spend(_effort_for(wanted.value, value))
        trial = Violations()
        trial.check(wanted, value, "")
        return not trial.violations

    def check(self, wanted: Property, value: Any, pointer: str) -> None:
        """Check a value by the definition of a property; `None` is an absent value."""
        self.spend(_effort_for(wanted.value, value))
        if value is None:
            if wanted.required:
                self.object(pointer, "required", "it is missing")
            return
        try:
            # Definitions give media types the type symbol, which admits no slash.
            type = "string" if wanted.is_media_type else wanted.type
            found = read(type, value, is_text=wanted.is_text)
        except ValueError as error:
            self.object(pointer, "type", f"it is no {wanted.type}: {error}")
            return
        if wanted.value in (None, "") or is_now(wanted.type, wanted.value):
            return
        template = Template.parse(wanted.value) if isinstance(wanted.value, str) else None
        if template is not None and not template.is_constant:
            text = value if isinstance(value, str) else _text(value)
            if template.fits(text):
                self._templates.append((pointer, template, text))
            else:
                detail = f"{_shown(text)} does not match {_shown(template.text)}"
                self.object(pointer, "template", detail)
        elif wanted.is_media_type and isinstance(wanted.value, str):
            if not media_type_fits(wanted.value, found):
                self._differs(pointer, wanted.value, value)
        elif not is_same(wanted.type, wanted.value, found):
            self._differs(pointer, wanted.value, value)

    def finish(self) -> None:
        """Check that equal placeholders have equal texts, wherever only one text is possible.

        Each round puts the known texts into the templates, which makes further texts known.
        """
        texts: dict[str, str] = {}
        # A round that makes no text known would repeat itself, so it is the last one. The effort
        # bounds the rounds of a chain of templates in the worst order.
        waiting, before = self._templates, -1
        while waiting and len(texts) > before:
            due, waiting, before = waiting, [], len(texts)
            for at, template, text in due:
                names = template.names
                self.spend(_effort_for(template.text, text, *map(texts.get, names)))
                bound = template.bound(texts)
                found = bound.texts(text)
                if bound.bound(found).fits(text):
                    texts |= found
                    waiting.append((at, template, text))
                else:
                    shared = ", ".join(sorted({*names} & texts.keys()) or sorted({*names}))
                    self.object(at, "placeholder", f"{shared}: it has another text elsewhere")

    def _differs(self, pointer: str, wanted: Any, value: Any) -> None:
        self.object(pointer, "value", f"it must be {_shown(wanted)}, and is {_shown(value)}")


def _effort_for(*values: Any) -> int:
    characters = sum(len(value) for value in values if isinstance(value, str))
    return _EFFORT_OF_A_CHECK + characters // _CHARACTERS_OF_A_STEP


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


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


def _check_event(event: CarriedEvent, definition: MessageDefinition, findings: Violations) -> None:
    """Check an event; attributes that the definition does not name are allowed by CloudEvents."""
    faulty = _check_core(event, findings)
    metadata = definition.envelopemetadata if definition.is_cloudevent else {}
    for name, wanted in _wanted(metadata, definition.dataschemauri, findings).items():
        # A second violation of a faulty attribute would often repeat the first.
        if name not in faulty:
            findings.check(wanted, event.attributes.get(name), event.pointer(name))
    payload = event.payload
    if payload is None or payload.is_text_or_bytes or is_json_type(payload.contenttype):
        return
    findings.object(payload.pointer, "payload", f"{payload.contenttype} needs text or data_base64")


def _check_core(event: CarriedEvent, findings: Violations) -> set[str]:
    """Check an event by the specification, and return the names of the faulty attributes."""
    before = len(findings.violations)
    faulty: set[str] = set()
    findings.spend(len(event.attributes))
    for name in sorted({*event.attributes, *_CORE}):
        value, pointer = event.attributes.get(name), event.pointer(name)
        if name in _CORE:
            findings.check(_CORE[name], value, pointer)
            if value == "":
                findings.object(pointer, "value", "it must not be empty")
        else:
            _check_extension(name, value, pointer, findings)
        if len(findings.violations) > before:
            faulty.add(name)
            before = len(findings.violations)
    return faulty


def _check_extension(name: str, value: Any, pointer: str, findings: Violations) -> None:
    if not _NAME.fullmatch(name):
        findings.object(pointer, "name", "a name has small letters and digits only")
    elif isinstance(value, int) and not isinstance(value, bool):
        if not -_LARGEST <= value < _LARGEST:
            findings.object(pointer, "type", "an integer of CloudEvents has 32 bits")
    elif not isinstance(value, str | bool):
        findings.object(pointer, "type", "an attribute is a string, an integer or a boolean")


def _wanted(
    metadata: Mapping[str, Any], dataschemauri: str, findings: Violations
) -> dict[str, Property]:
    wanted = {
        name: Property.of(
            source,
            type=_TYPES.get(name, "string"),
            is_text=True,
            is_media_type=name == "datacontenttype",
        )
        for name, source in metadata.items()
        if name != "*"
    }
    schema = wanted.get("dataschema", Property(is_text=True))
    if schema.value is None and _ABSOLUTE.match(dataschemauri):
        wanted["dataschema"] = replace(schema, type="uri", value=dataschemauri)
    elif isinstance(schema.value, str) and schema.value.startswith(("/", "#")):
        # A relative reference names a schema of the registry; an event has an absolute URI.
        findings.leave("envelopemetadata/dataschema", "it is relative", schema.value)
        wanted["dataschema"] = replace(schema, value=None)
    return wanted


def _check_envelope(message: Message, definition: MessageDefinition, findings: Violations) -> None:
    declared = message.envelope.lower()
    if declared and definition.envelope and declared != definition.envelope.lower():
        findings.object("/envelope", "envelope", f"it must be {definition.envelope}")
    if definition.envelope and not definition.is_cloudevent:
        findings.leave("envelope", f"{definition.envelope} is not supported")
    if message.event is not None:
        _check_event(message.event, definition, findings)
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
