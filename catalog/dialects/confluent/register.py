"""Registers schemas: finds the text, or adds a version to a subject.

The steps and their order are those of Confluent's registry. Reads and checks come first, and the
write begins again if the subject has changed meanwhile.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import orjson
from aiohttp import web

from catalog.context import CONTEXT
from catalog.dialects.confluent import errors, subjectwrites
from catalog.dialects.confluent.candidates import (
    Candidate,
    Scope,
    equal_of,
    find_faults,
    find_same,
    find_version,
    is_same,
    load_older,
    property_of,
    with_contract,
    with_version,
)
from catalog.dialects.confluent.contexts import IMPORT, READWRITE, SubjectName
from catalog.dialects.confluent.errors import ConfluentError, confluent_json
from catalog.dialects.confluent.requests import (
    cached,
    is_set,
    node_of,
    read_schema,
    reading,
    subject_in,
)
from catalog.dialects.confluent.schemachecks import SchemaChecks
from catalog.dialects.confluent.subjectversions import (
    LATEST,
    StoredSubject,
    SubjectVersion,
    load_subject,
    load_text,
    read_version,
    read_versions,
)
from catalog.model.confluentattribute import derived_id
from catalog.model.entity import Entity
from catalog.model.errors import ServerBusy
from catalog.model.interaction import Delete, Interaction, VersionDocument, VersionUpsert
from catalog.model.xid import Xid
from catalog.operations.schemacontracts import (
    AVRO,
    CONFLUENT_VERSION,
    JSON,
    PROTOBUF,
    RegisterRequest,
)
from catalog.store import schemaids
from catalog.store.database import Connection
from catalog.store.schemaids import RegistrationRow

MIXED = "mixed"
"""The format of a schema whose versions are of several types."""
_FORMATS = {AVRO: "Avro", JSON: "JsonSchema", PROTOBUF: "Protobuf/3"}
CONTENT_TYPES = {AVRO: "application/json", JSON: "application/schema+json", PROTOBUF: "text/plain"}
_MOST_ATTEMPTS = 20


class Outdated(Exception):
    """The subject has changed since it was read."""


@cached
async def register_schema(request: web.Request) -> web.Response:
    """Register a schema under a subject; a known one keeps its id."""
    subject, body = subject_in(request), await read_schema(request)
    node = node_of(request)
    checks = SchemaChecks.of(node)
    async with contextlib.AsyncExitStack() as turn:
        for attempt in range(_MOST_ATTEMPTS):
            try:
                return await _Registration(request, subject, body, checks).run()
            except Outdated:
                # Concurrent registrations make each other begin again, so the second and later
                # attempts of a subject take turns.
                if not attempt:
                    await turn.enter_async_context(node.checked_requests.contention(str(subject)))
    raise ServerBusy(request.path)


class _Registration:
    """One attempt to register a schema."""

    def __init__(
        self,
        request: web.Request,
        subject: SubjectName,
        body: RegisterRequest,
        checks: SchemaChecks,
    ) -> None:
        self.request = request
        self.subject = subject
        self.body = body
        self.checks = checks
        self.node = request[CONTEXT]
        self.given_id = body.id if body.id is not None and body.id >= 0 else None
        self.wanted = max(body.version or 0, 0)

    async def run(self) -> web.Response:
        async with self.node.database.acquire() as connection:
            scope = await Scope.read(self.request, connection, self.subject)
            # The name may be an alias.
            self.subject = scope.stored.subject
            if scope.mode == IMPORT and self.given_id is None:
                self._check_mode(scope)
            known = await self._find_known(connection, scope)
            if known is not None:
                return await self._answer(connection, known)
            self._check_mode(scope)
            candidate = await self._inheriting(connection, scope)
            if candidate.is_empty:
                raise errors.invalid_schema("Empty schema")
            candidate, schema = await scope.completed(
                self.request, connection, candidate, self.checks, is_new=self.given_id is None
            )
            if (again := await self._find_again(connection, scope, candidate)) is not None:
                return await self._answer(connection, again)
            subjectwrites.check_own(scope.contexts, scope.stored.context, self.subject)
            compared = () if scope.imports else scope.stored.live
            older = await load_older(connection, scope, candidate.metadata, compared)
        faults = []
        if not scope.imports:
            faults = await find_faults(scope, candidate, schema, self.checks, older)
        if faults:
            raise errors.incompatible(
                "Schema being registered is incompatible with an earlier schema for subject "
                f'"{self.subject}", details: [{", ".join(faults)}]'
            )
        return await self._write(scope, candidate)

    async def _find_known(self, connection: Connection, scope: Scope) -> SubjectVersion | None:
        """The version that has the schema as it was sent, unless the settings would change it."""
        candidate = Candidate.of(self.body)
        names_other = self.wanted and self.given_id is None
        if candidate.is_empty or names_other or scope.config.changes_contracts:
            return None
        # Not held to the rules for new schemas: the text may be older than a rule.
        candidate, _ = await scope.completed(
            self.request, connection, candidate, self.checks, is_new=False
        )
        seen = scope.stored.live[-1:] if self.body.version == LATEST else scope.stored.live
        known = await find_version(connection, scope, candidate, self.checks, seen)
        if known is None or self.given_id not in (None, known.id):
            return None
        return known if self.wanted in (0, known.number) else None

    def _check_mode(self, scope: Scope) -> None:
        """Refuse a registration that the mode of the subject does not permit.

        Raises:
            ConfluentError: 42205.
        """
        named = f"Subject {self.subject} in context {scope.stored.subject.context}"
        if scope.is_read_only:
            raise errors.not_permitted(f"{named} is in read-only mode")
        if self.given_id is not None and not scope.imports:
            raise errors.not_permitted(f"{named} is not in import mode")
        if self.given_id is None and scope.mode != READWRITE:
            raise errors.not_permitted(f"{named} is not in read-write mode")

    async def _inheriting(self, connection: Connection, scope: Scope) -> Candidate:
        """The schema with what it takes from the version before and from the settings."""
        candidate = Candidate.of(self.body)
        if scope.imports:
            return candidate
        latest = scope.stored.live[-1] if scope.stored.live else None
        if candidate.is_empty and latest is not None:
            candidate = replace(
                candidate,
                text=await load_text(connection, latest),
                schema_type=latest.schema_type,
                references=tuple(latest.references),
            )
        candidate = with_contract(scope, candidate, latest)
        if self.body.version or property_of(candidate.metadata, CONFLUENT_VERSION) is not None:
            metadata = with_version(candidate.metadata, _next_number(scope.stored))
            candidate = replace(candidate, metadata=metadata)
        return candidate

    async def _find_again(
        self, connection: Connection, scope: Scope, candidate: Candidate
    ) -> SubjectVersion | None:
        """The live version of the subject that is equal, and has the wanted number if any."""
        for one in await equal_of(connection, scope.stored.live, candidate):
            is_wanted = not self.wanted or (self.given_id is not None and one.number == self.wanted)
            if is_wanted and self.given_id in (None, one.id):
                return one
        return None

    async def _write(self, scope: Scope, candidate: Candidate) -> web.Response:
        written: list[Xid] = []
        stored = scope.stored

        async def make(connection: Connection, interaction: Interaction) -> None:
            now, ids = await self._read_again(connection, scope, candidate)
            # Another subject may have got the text meanwhile.
            same = await find_same(connection, now, candidate, ids.read)
            number = self._number(stored, candidate)
            resource = _resource(stored, ids.read)
            id = self.given_id
            if id is None:
                id = next((one.id for one in _of_context(now, same)), None)
            else:
                await self._check_given(connection, now, candidate, id)
            format = _format(stored, candidate)
            kept = candidate.kept(self.subject, resource.rid)
            if len(orjson.dumps(kept)) > subjectwrites.MOST_BYTES:
                message = (
                    f"References, metadata and rules have {subjectwrites.MOST_BYTES} bytes at most"
                )
                raise errors.too_large(message)
            if id is None:
                id = await ids.take(connection, interaction)
            elif not ids.contexts.exists(ids.context):
                subjectwrites.put_group(interaction, ids.context)
            # The writer composes again if other locks are needed: the xid of an earlier run is
            # replaced.
            written[:] = [resource.version(str(number))]
            # A subject may mix types, and the versions of a resource have one format.
            upserts = [
                VersionUpsert(vid=str(one.number), body={"format": format}, patch=True)
                for one in stored.versions
                if _format_of(one) != format
            ]
            new = VersionUpsert(
                vid=str(number),
                body={"format": format, "contenttype": CONTENT_TYPES[candidate.schema_type]},
                patch=True,
                document=VersionDocument(body=candidate.text.encode()),
                confluent={"id": id, **kept},
            )
            subjectwrites.put_versions(interaction, resource, [*upserts, new])
            # As in Confluent's registry, a text that comes back leaves its deleted version.
            interaction.deletes += [
                Delete(xid=one.xid)
                for one in stored.versions
                if one.is_deleted and one.id == id and one.number < number
            ]

        outcome = await subjectwrites.apply(self.request, stored.context.xid, stored.resource, make)
        entity = outcome.after[str(written[0])]
        version = SubjectVersion.of(entity) if isinstance(entity, Entity) else None
        assert version is not None, "it was just written"
        return self._shown(version, candidate.text)

    async def _read_again(
        self, connection: Connection, before: Scope, candidate: Candidate
    ) -> tuple[Scope, subjectwrites.NextIds]:
        """Read under the locks what the registration depends on.

        Raises:
            Outdated: the subject or what holds for it has changed since it was checked.
        """

        async def ids_in(scope: Scope) -> subjectwrites.NextIds:
            return await subjectwrites.NextIds.read_for(
                connection,
                scope.contexts,
                scope.stored,
                candidate.guid,
                self.node,
                is_given=self.given_id is not None,
            )

        now, ids = before, await ids_in(before)
        if ids.read.contexts != [row.state for row in before.contexts.rows]:
            # A context was written meanwhile, and may hold settings of the subject. Otherwise the
            # scope that was read before the locks is still true, and needs no query under the
            # locks.
            now = await Scope.read(self.request, connection, self.subject, by_alias=False)
            ids = await ids_in(now)
        if (
            ids.read.versions != before.stored.digests
            or now.stored.context.xid != before.stored.context.xid
            or now.config != before.config
            or now.mode != before.mode
        ):
            raise Outdated
        return now, ids

    def _number(self, stored: StoredSubject, candidate: Candidate) -> int:
        """The number of the new version.

        Raises:
            ConfluentError: 42201 for a gap, 42205 for a version that has another text.
        """
        number, wanted = _next_number(stored), self.wanted
        if not wanted:
            return number
        if self.given_id is None and wanted != number:
            raise errors.invalid_schema("Version is not one more than previous version")
        held = {one.number: one for one in stored.versions}.get(wanted)
        if held is not None and held.guid != candidate.guid:
            raise errors.not_permitted(
                f"Version {wanted} of subject {self.subject} has another text already. Texts of "
                "versions never change"
            )
        return wanted

    async def _check_given(
        self, connection: Connection, scope: Scope, candidate: Candidate, id: int
    ) -> None:
        """Refuse the id of another registry if it is in use, or will be.

        Raises:
            ConfluentError: 42205.
        """
        groups = scope.contexts.visible_groups(self.subject.context)
        for home in groups:
            first, end = subjectwrites.range_of(home)
            is_others = home.is_home and home.authority != scope.contexts.authority
            if is_others and first <= id < end:
                raise errors.not_permitted(f"The id {id} is in the range of {home.authority}")
        found = read_versions(
            await schemaids.find_by_id(connection, [each.xid for each in groups], id)
        )
        for one in found:
            if not await is_same(connection, one, candidate):
                raise errors.not_permitted(
                    f"Overwrite new schema with id {id} in context {self.subject.context} is not "
                    "permitted."
                )

    async def _answer(self, connection: Connection, version: SubjectVersion) -> web.Response:
        return self._shown(version, await load_text(connection, version))

    def _shown(self, version: SubjectVersion, text: str) -> web.Response:
        """The ids of a version, and the rest of it only if it is not what the client has sent.

        Clients keep a text in the answer as the text that they would read, although Python's wants
        to read Protobuf in another format.
        """
        shown = version.shown(self.subject, text)
        sent = Candidate.of(self.body)
        if not sent.is_empty and (version.metadata, version.rules) == (sent.metadata, sent.rules):
            names: Collection[str] = ("id", "version", "guid")
        else:
            names = shown.keys() - {"subject", "deleted"}
        return confluent_json({name: shown[name] for name in shown if name in names})


def _next_number(stored: StoredSubject) -> int:
    return stored.versions[-1].number + 1 if stored.versions else 1


def _format_of(version: SubjectVersion) -> Any:
    return version.entity.attributes.get("format")


def format_of(schema_type: str, text: str) -> str:
    """The format of a version by itself."""
    if schema_type == PROTOBUF and 'syntax = "proto3"' not in text:
        return "Protobuf/2"
    return _FORMATS[schema_type]


def _format(stored: StoredSubject, candidate: Candidate) -> str:
    """The format of all versions of a subject with a new one: the standard wants it to be equal."""
    own = format_of(candidate.schema_type, candidate.text)
    if not stored.versions:
        return own
    held = str(_format_of(stored.versions[-1]))
    is_same = held.partition("/")[0].lower() == own.partition("/")[0].lower()
    return held if is_same else MIXED


def _resource(stored: StoredSubject, read: RegistrationRow) -> Xid:
    """The resource of a subject: of a new one, an id that no other resource has in any case."""
    resource = stored.resource
    if stored.versions or read.held_id in (None, resource.rid):
        return resource
    return resource.group.child(resource.resources, derived_id(stored.subject.name))


def _of_context(scope: Scope, same: Sequence[SubjectVersion]) -> list[SubjectVersion]:
    """The versions with the same text, those of the subject's own group first."""
    own = scope.stored.context.xid
    return sorted(same, key=lambda one: (str(one.xid.group) != own, one.id))


async def check_against_all(request: web.Request) -> web.Response:
    """Whether a schema is compatible with the versions that a registration compares it with."""
    return await _check(request, None)


async def check_against_version(request: web.Request) -> web.Response:
    """Whether a schema is compatible with one version of a subject."""
    return await _check(request, read_version(request.match_info["version"]))


async def _check(request: web.Request, number: int | None) -> web.Response:
    subject, candidate = subject_in(request), Candidate.of(await read_schema(request))
    checks = SchemaChecks.of(node_of(request))
    async with reading(request) as (connection, contexts):
        scope = Scope.of(contexts, await load_subject(connection, contexts, subject))
        versions = _compared(scope, number)
        try:
            if candidate.is_empty:
                raise errors.invalid_schema("Empty schema")
            candidate, schema = await scope.completed(
                request, connection, candidate, checks, is_new=True
            )
        except ConfluentError as error:
            if not is_set(request, "verbose"):
                raise
            return confluent_json({"is_compatible": False, "messages": [error.message]})
        older = await load_older(connection, scope, candidate.metadata, versions)
    faults = await find_faults(scope, candidate, schema, checks, older)
    shown = {"is_compatible": not faults}
    return confluent_json({**shown, "messages": faults} if is_set(request, "verbose") else shown)


def _compared(scope: Scope, number: int | None) -> Sequence[SubjectVersion]:
    """The versions to compare with: the version of a number, or every live version.

    Raises:
        ConfluentError: 40402 for a version that is not there.
    """
    live = scope.stored.live
    if number is None:
        return live
    if number == LATEST:
        return live[-1:]
    found = [one for one in live if one.number == number]
    if not found:
        raise errors.version_not_found(number)
    return found
