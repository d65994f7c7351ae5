"""Rules about references between entities: where they lead, and that bases form no circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from catalog.messages.definition import BASES
from catalog.messages.referencetargets import reference_targets
from catalog.model.xid import Xid
from catalog.rules.fault import EntityLookup, Fault, Rule, Subject, pointer, text
from catalog.rules.protocolrules import OPTIONS

BASEMESSAGE_CIRCULAR = Rule("basemessage_circular", 'message/spec.md, "basemessage"')
REFERENCE_DANGLING = Rule(
    "reference_dangling", 'message/spec.md, "basemessage" and "dataschemauri"'
)
FORMAT_DIFFERS = Rule("dataschemaformat_differs", 'message/spec.md, "dataschemaformat"')
_LONGEST_CHAIN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReference:
    """What an entity refers to: where it says so, how, and what that may mean, likeliest first."""

    pointer: str
    text: str
    targets: tuple[Xid, ...]


def references_of(subject: Subject, around: EntityLookup) -> list[DomainReference]:
    """The references of an entity that lead into its own catalog."""
    return [
        DomainReference(pointer=at, text=value, targets=targets)
        for at, value in _values(subject)
        if (targets := _targets(value, around))
    ]


def _values(subject: Subject) -> Iterator[tuple[str, str]]:
    if subject.xid.kind == "group":
        groups = subject.attributes.get("messagegroups")
        for place, value in enumerate(groups if isinstance(groups, list) else ()):
            yield pointer("messagegroups", place), text(value)
        yield pointer(OPTIONS, "willmessage"), text(subject.object(OPTIONS).get("willmessage"))
    elif subject.xid.kind == "resource":
        yield "/meta/xref", subject.text("xref")
    else:
        for name in (*BASES, "dataschemauri", "dataschemaxid"):
            yield pointer(name), subject.text(name)


def _targets(value: str, around: EntityLookup) -> tuple[Xid, ...]:
    found = [place.xid for place in reference_targets(value, around.bases)] if value else []
    # What follows a colon may be a part of the document, in a notation that nobody knows here.
    shorter = [_without_part(xid) for xid in found]
    found += [xid for xid in shorter if xid is not None and xid not in found]
    return tuple(found) or _group(value, around)


def _without_part(xid: Xid) -> Xid | None:
    try:
        return Xid.parse(str(xid).removesuffix(xid.id) + xid.id.partition(":")[0])
    except ValueError:
        return None


def _group(value: str, around: EntityLookup) -> tuple[Xid, ...]:
    """A reference to a group, which `places` knows nothing of."""
    for base in around.bases:
        value = value.removeprefix(base) if value.startswith(f"{base}/") else value
    try:
        xid = Xid.parse(value.removeprefix("#"))
    except ValueError:
        return ()
    return (xid,) if xid.kind == "group" else ()


def check_references(subject: Subject, around: EntityLookup) -> Iterator[Fault]:
    """References lead somewhere, as far as is known what there is."""
    for reference in references_of(subject, around):
        if all(around.is_absent(target) for target in reference.targets):
            yield REFERENCE_DANGLING.broken(
                reference.pointer,
                f'There is no "{reference.text}"; correct it, or add what it refers to.',
            )


def check_bases(subject: Subject, around: EntityLookup) -> Iterator[Fault]:
    """No message is among its own bases."""
    line = [subject.xid]
    base = _base_of(subject, around)
    while base is not None and base.xid not in line and len(line) < _LONGEST_CHAIN:
        line.append(base.xid)
        base = _base_of(base, around)
    if base is not None and base.xid == subject.xid:
        shown = ", ".join(str(xid.resource) for xid in (*line[1:], subject.xid))
        yield BASEMESSAGE_CIRCULAR.broken(
            pointer(_name_of_base(subject)),
            f"It is among its own bases: {shown}. Take one of them away.",
        )


def _name_of_base(subject: Subject) -> str:
    return next(name for name in BASES if subject.text(name))


def _base_of(subject: Subject, around: EntityLookup) -> Subject | None:
    value = next((subject.text(name) for name in BASES if subject.text(name)), "")
    found = (around.find(place.xid) for place in reference_targets(value, around.bases))
    return next((base for base in found if base is not None and base.xid.vid), None)


def check_format(subject: Subject, around: EntityLookup) -> Iterator[Fault]:
    """What `dataschemaformat` says is what the schema that is referred to is written in."""
    own = subject.text("dataschemaformat")
    for name in ("dataschemauri", "dataschemaxid"):
        found = (around.find(p.xid) for p in reference_targets(subject.text(name), around.bases))
        schema = next((each for each in found if each is not None), None)
        wanted: Any = schema.text("format") if schema is not None else ""
        if own and wanted and _name(own) != _name(wanted):
            yield FORMAT_DIFFERS.broken(
                "/dataschemaformat", f'It says "{own}" where the schema itself says "{wanted}".'
            )
            return


def _name(format: str) -> str:
    return format.partition("/")[0].strip().lower()
