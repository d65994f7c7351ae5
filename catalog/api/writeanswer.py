"""Answers writes with the written entities, in the form of a GET, and with notes.

Notes name the rules of the domains that a successful write breaks; an export has notes, too, of
what its format cannot express. The field `Concord-Notes` is a list (RFC 9651) of the names of
rules, with the parameters `subject` (an xid), `pointer` (a JSON pointer into the entity) and
`detail`. If the field has no room for every note, the last member is `more`, with the `count` of
the omitted notes. The answer of an apply has the notes in its body.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from aiohttp import hdrs, web
from multidict import CIMultiDict

from catalog.api.entityread import answer_document, answer_owner, load, shown, version_shown
from catalog.api.readplan import ReadPlan
from catalog.api.requesttarget import RequestTarget
from catalog.api.subtreejson import SubtreeWriter
from catalog.context import CONTEXT, Context
from catalog.http.responses import (
    JSON_TYPE,
    interaction_headers,
    json_response,
    shown_or_none,
    write_item,
)
from catalog.indexing.references import BASES
from catalog.load.workthread import aside
from catalog.messages.definition import reference_targets
from catalog.model.attributes import PROVENANCE
from catalog.model.entity import Entity
from catalog.model.errors import NotFound, XRegistryError
from catalog.model.interaction import Interaction
from catalog.model.record import record
from catalog.model.schema import Model
from catalog.model.xid import Xid, collection_of, parent_of
from catalog.reading import entities
from catalog.reading.entities import Loaded, read_entities
from catalog.reading.find import find_among, put_in_order
from catalog.reading.visible import EVERYTHING, Visible
from catalog.rules.domainrules import DomainRules, check_provenance
from catalog.rules.fault import Fault, Subject
from catalog.store.database import Connection
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


async def answer_written(
    plan: ReadPlan, interaction: Interaction, outcome: Outcome
) -> web.StreamResponse:
    """Answer with the target of a write, or with the written members of a collection."""
    request, target, headers = plan.request, plan.target, interaction_headers(outcome)
    headers |= await notes_on(plan.request, plan.model, interaction, outcome)
    if target.kind == "collection" or (
        request.method == hdrs.METH_POST and target.kind in ("registry", "group")
    ):
        return await _answer_processed(plan, interaction, outcome, headers)
    target = _entity_written(request, target, interaction, outcome)
    if target is not plan.target:
        plan = replace(plan, target=target)
    status = 201 if outcome.is_new(target.xid) else 200
    headers |= _places(plan.context.base_url(request), target, outcome, status)
    if target.kind in ("registry", "group") and plan.flags.inline:
        return await answer_owner(plan, CIMultiDict(headers), status=status)
    loaded = await _load_written(plan, outcome)
    if plan.shows_document:
        async with plan.context.database.acquire() as connection:
            await _load_documents(connection, loaded, [version_shown(loaded, plan.xid)])
        return answer_document(plan, loaded, status=status, headers=headers)
    visible = EVERYTHING
    if plan.flags.filters is not None and plan.target.kind not in ("version", "meta"):
        async with plan.context.database.acquire() as connection:
            visible = await plan.visible(connection)
    body = await aside(len(outcome.after), shown, plan.renderer(loaded, visible), plan)
    return json_response(body, status=status, headers=headers)


async def _answer_processed(
    plan: ReadPlan, interaction: Interaction, outcome: Outcome, headers: dict[str, str]
) -> web.StreamResponse:
    """Answer with the written entities by id, or by type and id."""
    target, inline = plan.target, plan.flags.inline
    written = await aside(interaction.size, _processed, target, interaction, outcome)
    if inline and target.plural != "versions":
        async with plan.snapshot() as snapshot:
            listed, visible = await _asked_for(snapshot.connection, plan, written)
            writer = SubtreeWriter(snapshot.connection, plan.renderer(Loaded(), visible))
            pieces = writer.listed(target.path, listed, inline)
            headers["Content-Type"] = JSON_TYPE
            return await plan.send(snapshot, writer, pieces, CIMultiDict(headers))
    async with plan.connection() as connection:
        listed, visible = await _asked_for(connection, plan, written)
        loaded = await entities.read_entities(connection, plan.model, written, follows=plan.follows)
        loaded = await aside(len(outcome.after), _with_own_writes, loaded, outcome)
        if inline:
            versions = [loaded.entities[str(xid)] for xid in written]
            await _load_documents(connection, loaded, versions)
    renderer = plan.renderer(loaded, visible)
    by_type: dict[str, Any] = {
        collection.rpartition("/")[2]: await aside(len(xids), renderer.collection, xids, inline)
        for collection, xids in listed.items()
    }
    if target.kind == "collection":
        by_type = by_type.get(target.plural, {})
    return json_response(by_type, headers=headers)


async def _load_documents(
    connection: Connection, loaded: Loaded, versions: Sequence[Entity]
) -> None:
    """Load the documents of written versions.

    Raises:
        NotFound: a later request has deleted a written document.
    """
    await entities.load_documents(connection, loaded, versions)
    for version in versions:
        stored = loaded.stored.get(version.xid, version.xid)
        is_read = version.document is not None or stored in loaded.documents
        if version.document_sha256 is not None and not is_read:
            detail = "It was written, and another request has deleted it since."
            raise NotFound(version.xid, detail=detail)


async def _asked_for(
    connection: Connection, plan: ReadPlan, written: Sequence[Xid]
) -> tuple[dict[str, list[str]], Visible]:
    """The written entities in the answer, by collection and in the requested order."""
    target, flags, listed = plan.target, plan.flags, defaultdict[str, list[str]](list)
    for xid in written:
        listed[collection_of(xid)].append(str(xid))
    if flags.sort is not None:
        for xids in listed.values():
            xids[:] = await put_in_order(connection, plan.xid, target.plural, xids, flags.sort)
    if flags.filters is None:
        return listed, EVERYTHING
    if target.kind != "collection":
        visible = await plan.visible(connection)
    else:
        xids = [str(xid) for xid in written]
        visible = await find_among(connection, plan.xid, flags.filters, target.plural, xids)
    for xids in listed.values():
        xids[:] = [xid for xid in xids if visible.shows(xid)]
    return listed, visible


def answer_deleted(outcome: Outcome) -> web.Response:
    return web.Response(status=204, headers=interaction_headers(outcome))


def _places(base: str, target: RequestTarget, outcome: Outcome, status: int) -> dict[str, str]:
    """The URLs of a new entity and version (core/http.md, "Creating or Updating Entities")."""
    kind = target.resource_type
    suffix = "$details" if target.details and kind is not None and kind.hasdocument else ""
    places = {}
    if status == 201:
        places["Location"] = f"{base}{target.path}{suffix}"
    version = _new_version(target.xid, outcome)
    if version is not None and target.kind in ("resource", "version"):
        places["Content-Location"] = f"{base}{version}{suffix}"
    return places


def _new_version(xid: Xid, outcome: Outcome) -> str | None:
    """The version that a request created; of several versions, preferably the default version."""
    versions = (each for each in outcome.after if "/versions/" in each)
    new = [each for each in versions if outcome.is_new(Xid.parse(each))]
    resource = outcome.after.get(str(xid.resource))
    if isinstance(resource, Entity):
        default = f"{resource.xid}/versions/{resource.attributes.get('defaultversionid')}"
        if default in new:
            return default
    return new[0] if new else None


def _entity_written(
    request: web.Request, target: RequestTarget, interaction: Interaction, outcome: Outcome
) -> RequestTarget:
    """The target of the answer: for `POST` to a resource, the written version."""
    if not (request.method == hdrs.METH_POST and target.kind == "resource"):
        return target
    vid = interaction.resources[0].versions[0].vid
    written = str(target.xid.version(vid)) if vid else _new_version(target.xid, outcome)
    assert written is not None, "without an id, a version is new"
    return replace(target, kind="version", xid=Xid.parse(written))


async def _load_written(plan: ReadPlan, outcome: Outcome) -> Loaded:
    """Load the entities that a GET would show, from the outcome for a single resource."""
    xid, inline = plan.xid, plan.flags.inline
    resource = outcome.after.get(str(xid.resource))
    is_reference = isinstance(resource, Entity) and "xref" in resource.attributes
    if xid.rid and not inline and not is_reference:
        states = {**outcome.before, **outcome.after}
        shown = {each: state for each, state in states.items() if isinstance(state, Entity)}
        versions = f"{xid.resource}/versions"
        count = sum(each.startswith(f"{versions}/") for each in shown)
        return Loaded(entities=shown, counts={versions: count})
    async with plan.connection() as connection:
        if inline:
            return await load(connection, plan)
        loaded = await entities.read_entities(connection, plan.model, [xid], follows=plan.follows)
        return _with_own_writes(loaded, outcome)


def _with_own_writes(loaded: Loaded, outcome: Outcome) -> Loaded:
    """Show the states that the request wrote, though later requests may have changed them."""
    # A loaded cross reference stays, since it shows the attributes of the target.
    for xid, state in {**outcome.before, **outcome.after}.items():
        if isinstance(state, Entity) and not (
            "xref" in state.attributes and xid in loaded.entities
        ):
            loaded.entities[xid] = state
    return loaded


def _processed(target: RequestTarget, interaction: Interaction, outcome: Outcome) -> list[Xid]:
    """The requested xids, without entities that were ignored or pruned."""
    if target.kind == "collection" and target.xid.rid:
        versions = (v for upsert in interaction.resources for v in upsert.versions)
        asked = [target.xid.version(version.vid) for version in versions]
        return [xid for xid in asked if isinstance(outcome.after.get(str(xid)), Entity)]
    upserts = interaction.resources if target.xid.gid else interaction.groups
    return [each.xid for each in upserts if str(each.xid) not in outcome.left_alone]
