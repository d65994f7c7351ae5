"""Rules of references: their targets exist, and base messages form no circle."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from catalog.indexing.references import BASES, attribute_references
from catalog.messages.definition import path_within, reference_targets
from catalog.messages.message import pointer
from catalog.model.xid import Xid
from catalog.rules.fault import EntityLookup, Fault, Rule, Subject, family

BASEMESSAGE_CIRCULAR = Rule("basemessage_circular", 'message/spec.md, "basemessage"')
REFERENCE_DANGLING = Rule(
    "reference_dangling", 'message/spec.md, "basemessage" and "dataschemauri"'
)
FORMAT_DIFFERS = Rule("dataschemaformat_differs", 'message/spec.md, "dataschemaformat"')
_LONGEST_CHAIN = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReference:
    """A reference of an entity: the JSON pointer, the text, and the targets, likeliest first."""

    pointer: str
    text: str
    targets: tuple[Xid, ...]


def references_of(subject: Subject, lookup: EntityLookup) -> list[DomainReference]:
    """The references of an entity that lead into the entity's own catalog."""
    return [
        DomainReference(pointer=at, text=value, targets=targets)
        for at, value in attribute_references(subject.xid.kind, subject.attributes)
        if (targets := _targets(value, lookup))
    ]


def _targets(value: str, lookup: EntityLookup) -> tuple[Xid, ...]:
    found = [target.xid for target in reference_targets(value, lookup.bases)] if value else []
    # The text after a colon may name a part of the document, in an unknown notation.
    shorter = [_without_part(xid) for xid in found]
    found += [xid for xid in shorter if xid is not None and xid not in found]
    return tuple(found) or _group(value, lookup)


def _without_part(xid: Xid) -> Xid | None:
    try:
        return Xid.parse(str(xid).removesuffix(xid.id) + xid.id.partition(":")[0])
    except ValueError:
        return None


def _group(value: str, lookup: EntityLookup) -> tuple[Xid, ...]:
    """The target of a reference to a group, which `reference_targets` does not find."""
    path, _ = path_within(value, lookup.bases)
    try:
        xid = Xid.parse(path)
    except ValueError:
        return ()
    return (xid,) if xid.kind == "group" else ()


def check_references(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check that the target of each reference exists, as far as the lookup knows."""
    for reference in references_of(subject, lookup):
        if all(lookup.is_absent(target) for target in reference.targets):
            yield REFERENCE_DANGLING.broken(
                reference.pointer,
                f'There is no "{reference.text}"; correct it, or add what it refers to.',
            )


def check_bases(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check that a message is not among the message's own bases."""
    chain = [subject.xid]
    base = _base_of(subject, lookup)
    while base is not None and base.xid not in chain and len(chain) < _LONGEST_CHAIN:
        chain.append(base.xid)
        base = _base_of(base, lookup)
    # A circle further down the chain is a fault of the messages in the circle, not of this message.
    if base is not None and base.xid == subject.xid:
        shown = ", ".join(str(xid.resource) for xid in (*chain[1:], subject.xid))
        yield BASEMESSAGE_CIRCULAR.broken(
            pointer(next(filter(subject.text, BASES))),
            f"It is among its own bases: {shown}. Remove one of them.",
        )


def _base_of(subject: Subject, lookup: EntityLookup) -> Subject | None:
    value = next(filter(None, map(subject.text, BASES)), "")
    found = (lookup.find(target.xid) for target in reference_targets(value, lookup.bases))
    return next((base for base in found if base is not None and base.xid.vid), None)


def check_format(subject: Subject, lookup: EntityLookup) -> Iterator[Fault]:
    """Check that `dataschemaformat` is the format of the schema that the message refers to."""
    own = subject.text("dataschemaformat")
    for name in ("dataschemauri", "dataschemaxid"):
        targets = reference_targets(subject.text(name), lookup.bases)
        schema = next(filter(None, (lookup.find(target.xid) for target in targets)), None)
        wanted = schema.text("format") if schema is not None else ""
        if own and wanted and family(own) != family(wanted):
            yield FORMAT_DIFFERS.broken(
                "/dataschemaformat", f'It says "{own}" where the schema itself says "{wanted}".'
            )
            return
