"""Gives schema ids to the versions that native clients write into contexts.

Such a version keeps its text; where it is not the canonical text, the attribute has the canonical
text as well. A text that is no valid schema for the API gets no id.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from functools import partial

import structlog

from catalog.context import Context as NodeContext
from catalog.dialects.confluent.candidates import Candidate, Scope, find_same
from catalog.dialects.confluent.contexts import Contexts
from catalog.dialects.confluent.errors import ConfluentError
from catalog.dialects.confluent.schemachecks import SchemaChecks, SchemaText
from catalog.dialects.confluent.subjectversions import CANONICAL, load_subject
from catalog.dialects.confluent.subjectwrites import MOST_BYTES, NextIds, SubjectWrite, put_versions
from catalog.model.entity import Entity
from catalog.model.errors import XRegistryError
from catalog.model.interaction import Interaction, VersionUpsert
from catalog.operations.schemacontracts import AVRO, JSON, PROTOBUF
from catalog.store import entities as store
from catalog.store import schemaids
from catalog.store.database import Connection, wait_for
from catalog.supervisor import LoopTiming, run_as_leader

_TYPES = {"avro": AVRO, "jsonschema": JSON, "protobuf": PROTOBUF}
_BATCH = 100
_MOST_REFUSED = 10_000
_SECONDS_BETWEEN = 0.2
_LONGEST_WAIT = 60.0
_log = structlog.get_logger(__name__)


async def run_native_versions(context: NodeContext, *, timing: LoopTiming | None = None) -> None:
    """Give ids to new versions for ever, in one process of the node at a time."""
    timing = timing or LoopTiming()
    serve = partial(_serve, context, timing)
    await run_as_leader(context.database, "schema ids", serve, timing=timing)


async def _serve(context: NodeContext, timing: LoopTiming, connection: Connection) -> None:
    refused: OrderedDict[bytes, None] = OrderedDict()
    while True:
        # Taken before the look, so that a write during the look ends the wait at once.
        ticket = context.database.signal.ticket()
        authority = context.database.node.authority
        found = await schemaids.find_without_id(connection, authority, _TYPES, refused, _BATCH)
        adopted = 0
        for entity in found:
            if await _adopt(context, connection, entity):
                adopted += 1
            else:
                refused[entity.digest] = None
        is_full = len(refused) > _MOST_REFUSED
        while len(refused) > _MOST_REFUSED:
            refused.popitem(last=False)
        # Refused versions that were forgotten are found again: only a write may change them.
        if not found or (is_full and not adopted):
            await wait_for(ticket, _LONGEST_WAIT)
            await timing.sleep(_SECONDS_BETWEEN)


async def _adopt(context: NodeContext, connection: Connection, entity: Entity) -> bool:
    """Give a version an id; false if it can have none as it is."""
    schema_type = _TYPES[str(entity.attributes["format"]).partition("/")[0].lower()]
    documents = await store.load_documents(connection, [entity.xid])
    try:
        text = documents.get(entity.xid, b"").decode()
        checks = SchemaChecks.of(context)
        asked = SchemaText(schema_type, text, {})
        canonical = await checks.canonical(asked, normalize=False, is_new=False)
    except (ConfluentError, UnicodeDecodeError) as error:
        _log.info("a version has no schema id", xid=entity.xid, reason=str(error))
        return False
    if canonical != text and len(canonical) > MOST_BYTES // 2:
        _log.info("a version has no schema id", xid=entity.xid, reason="its text is too long")
        return False
    candidate = Candidate(
        schema_type=schema_type, text=canonical, references=(), metadata=None, rules=None
    )
    try:
        await _write(context, entity, candidate, is_canonical=canonical == text)
    except XRegistryError as error:
        _log.info("a version has no schema id", xid=entity.xid, reason=str(error))
        return False
    return True


async def _write(
    context: NodeContext, entity: Entity, candidate: Candidate, *, is_canonical: bool
) -> None:
    xid = entity.path

    async def make(connection: Connection, interaction: Interaction) -> None:
        held = (await store.load(connection, [entity.xid])).get(entity.xid)
        node = context.database.node
        contexts = await Contexts.load(connection, node.authority, context.settings)
        group = contexts.all.get(str(xid.group))
        if held is None or held.digest != entity.digest or group is None:
            # The next look finds it as it is now.
            return
        subject = contexts.shown_subject(xid, xid.rid)
        stored = await load_subject(connection, contexts, subject, by_alias=False)
        # The subject may be that of another home group of this authority.
        own = replace(stored, context=group, versions=())
        ids = await NextIds.read_for(connection, contexts, own, candidate.guid, context)
        same = await find_same(connection, Scope.of(contexts, stored), candidate, ids.read)
        id = next((one.id for one in same), None)
        if id is None:
            id = await ids.take(connection, interaction)
        kept = {"id": id, **candidate.kept(subject, xid.rid)}
        if not is_canonical:
            kept[CANONICAL] = candidate.text
        upsert = VersionUpsert(vid=xid.vid, body={}, patch=True, confluent=kept)
        put_versions(interaction, xid.resource, [upsert])

    write = SubjectWrite(
        caller=context.caller,
        path=entity.xid,
        group=str(xid.group),
        resource=xid.resource,
        make=make,
    )
    await context.writer.apply_composed(context.configuration, write)
