"""Notes on a write: the rules of the domains that a successful write breaks.

An export has notes, too, of what its format cannot express.

The field `Concord-Notes` of the answer is a list (RFC 9651) of the names of rules, with the
parameters `subject` (an xid), `pointer` (a JSON pointer into the entity) and `detail`. If the field
has no room for every note, the last member is `more`, with the `count` of the omitted notes. The
answer of an apply has the notes in its body.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from aiohttp import web

from catalog.context import CONTEXT, Context
from catalog.http.responses import shown_or_none, write_item
from catalog.indexing.references import BASES
from catalog.messages.definition import reference_targets
from catalog.model.attributes import PROVENANCE
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.record import record
from catalog.model.schema import Model
from catalog.model.xid import Xid, parent_of
from catalog.reading.entities import read_entities
from catalog.rules.domainrules import DomainRules, check_provenance
from catalog.rules.fault import Fault, Subject
from catalog.writing.outcome import Outcome

NOTES = "Concord-Notes"
_MOST_NOTES = 16
# Many clients refuse header lines above 8 KiB.
_LARGEST_VALUE = 6000
_MOST_EXAMINED = 200
_MOST_CHECKED = 20
_MOST_BASES = 16
_LONGEST_DETAIL = 200
_MOST_LISTED = 200

Note: TypeAlias = tuple[Xid, Fault]


@record
class _Touched:
    """The entities that an interaction touched.

    `bases` are the URLs of the registry, and `loaded` has the loaded bases of messages.
    """

    outcome: Outcome
    bases: Sequence[str]
    loaded: dict[str, Subject] = field(default_factory=dict)

    def find(self, xid: Xid) -> Subject | None:
        state = self.outcome.after.get(str(xid)) or self.outcome.before.get(str(xid))
        if isinstance(state, Entity) and state.kind == "resource":
            default = self.find(xid.version(str(state.attributes.get("defaultversionid"))))
            return default or self.loaded.get(str(xid))
        return _subject(state) if isinstance(state, Entity) else self.loaded.get(str(xid))

    def is_absent(self, xid: Xid) -> bool:
        """Always false, since the target of a reference may be written later."""
        return False


async def notes_on(
    request: web.Request, model: Model, interaction: Interaction, outcome: Outcome
) -> dict[str, str]:
    """The header for an answer to a write; empty if no rule is broken."""
    context = request[CONTEXT]
    found = await find_notes(context, model, context.base_url(request), interaction, outcome)
    return notes_header([(fault.rule.name, _parameters(xid, fault)) for xid, fault in found])


async def find_notes(
    context: Context, model: Model, base_url: str, interaction: Interaction, outcome: Outcome
) -> list[Note]:
    """Find the rules that an interaction breaks, each with the xid of the faulty entity.

    Only the first 200 entities are examined, and the embedded schemas of the first 20 entities.

    Args:
        base_url: the URL of the registry for the client, with which references may begin.
    """
    touched = _Touched(outcome=outcome, bases=(base_url,))
    rules, found = DomainRules(model), list[Note]()
    subjects = [*islice(_subjects(interaction, outcome), _MOST_EXAMINED)]
    for subject in subjects:
        if any(subject.text(name) for name in BASES):
            await _load_bases(context, model, subject, touched)
        # The write is committed: a rule that meets a damaged entity must not fail the request.
        faults = shown_or_none(str(subject.xid), partial(_examine, rules, subject, touched))
        found += ((subject.xid, fault) for fault in faults or ())
    # For the same reason, schemas stay unchecked if too many checks are under way.
    with contextlib.suppress(XRegistryError):
        answers = context.checked_requests.begin(context.caller.client).answers
        found += await rules.examine_schemas(subjects[:_MOST_CHECKED], answers)
    for xid, given in islice(_given(interaction), _MOST_EXAMINED):
        if PROVENANCE.isdisjoint(given):
            continue
        kept = touched.find(xid)
        if kept is not None and str(kept.xid) in outcome.after:
            found += ((xid, fault) for fault in check_provenance(given, kept.attributes))
    return found


def _given(interaction: Interaction) -> Iterator[tuple[Xid, Mapping[str, Any]]]:
    """The attributes of groups, resources and versions in a request."""
    for group in interaction.groups:
        if group.body:
            yield group.xid, group.body
    for resource in interaction.resources:
        if resource.default:
            yield resource.xid, resource.default
        for version in resource.versions:
            xid = resource.xid.version(version.vid) if version.vid else resource.xid
            yield xid, version.body


def _examine(rules: DomainRules, subject: Subject, touched: _Touched) -> list[Fault]:
    return list(rules.examine(subject, touched))


def notes_as_json(found: Sequence[Note]) -> dict[str, Any]:
    """The first notes as an array, and the total number of notes."""
    listed = found[:_MOST_LISTED]
    notes = [{"rule": fault.rule.name, **_parameters(xid, fault)} for xid, fault in listed]
    return {"notes": notes, "notescount": len(found)}


def notes_header(notes: Sequence[tuple[str, Mapping[str, str]]]) -> dict[str, str]:
    """The header with as many notes as fit, and the number of the remaining notes.

    Args:
        notes: the name and the parameters of each note; without notes there is no header.
    """
    shown: list[str] = []
    room = _LARGEST_VALUE
    for name, parameters in notes[:_MOST_NOTES]:
        note = write_item(name, parameters)
        if len(note) <= room:
            shown.append(note)
            room -= len(note)
    if len(notes) > len(shown):
        shown.append(write_item("more", {"count": len(notes) - len(shown)}))
    return {NOTES: ", ".join(shown)} if shown else {}


def _subjects(interaction: Interaction, outcome: Outcome) -> Iterator[Subject]:
    """The groups and versions to which a request gives attributes."""
    groups = {str(upsert.xid) for upsert in interaction.groups if upsert.body is not None}
    resources = {str(upsert.xid) for upsert in interaction.resources}
    for xid, state in outcome.after.items():
        if not isinstance(state, Entity) or state.kind in ("registry", "resource"):
            continue
        if xid in groups if state.kind == "group" else parent_of(xid) in resources:
            yield _subject(state)


def _parameters(xid: Xid, fault: Fault) -> dict[str, str]:
    detail = fault.message
    if len(detail) > _LONGEST_DETAIL:
        detail = f"{detail[: _LONGEST_DETAIL - 1]}…"
    return {"subject": str(xid), "pointer": fault.pointer, "detail": detail}


def _subject(entity: Entity) -> Subject:
    return Subject(xid=entity.path, attributes=entity.attributes)


async def _load_bases(context: Context, model: Model, subject: Subject, touched: _Touched) -> None:
    """Load the bases of a message, except for bases that the interaction touched."""
    async with context.database.acquire() as connection:
        base: Subject | None = subject
        for _ in range(_MOST_BASES):
            named = (base.text(name) for name in BASES) if base is not None else ()
            found = reference_targets(next(filter(None, named), ""), touched.bases)
            if not found:
                return
            xid = found[0].xid
            base = touched.find(xid)
            if base is None:
                loaded = await read_entities(connection, model, [xid])
                version = loaded.entities.get(str(xid))
                if version is not None and version.kind == "resource":
                    version = loaded.default_of(version)
                if version is None:
                    return
                base = touched.loaded[str(xid)] = _subject(version)
