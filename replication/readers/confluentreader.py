"""Reads the subjects of a registry of the Confluent API, whoever made it.

Each context of the registry is a schema group, that of the default context `default`. Groups,
resources and versions are as this node's own Confluent API has them. A registry has no list of what
has changed, but texts never change, so that a subject is read again only if its list of versions
differs from the list of the last walk.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

import orjson

from catalog.client import JsonObject
from catalog.dialects.confluent.contexts import DEFAULT_CONTEXT, SubjectName, read_subject
from catalog.dialects.confluent.errors import ConfluentError
from catalog.dialects.confluent.register import CONTENT_TYPES
from catalog.dialects.confluent.schemachecks import SchemaChecks, SchemaText
from catalog.dialects.confluent.subjectversions import DEEPEST_REFERENCES, MOST_REFERENCED
from catalog.model.attributes import MAX_ENTITY_BYTES
from catalog.model.confluentattribute import CONFLUENT, SCHEMA_GROUPS, SCHEMAS
from catalog.model.masking import counted, printable
from catalog.model.schema import Model
from catalog.model.xid import Xid
from catalog.operations.schemacontracts import AVRO
from replication.readers import reader
from replication.readers.draftreaders import DraftReader, first_listed
from replication.readers.walkedserver import (
    GONE,
    AnswerMalformed,
    AnswerTooLarge,
    IgnoredRefusals,
    WalkedServer,
)
from replication.readers.walkedsubjects import (
    WalkedSubjects,
    WalkedVersion,
    common_format,
    is_version_number,
    key_of,
    number_of,
    readable_settings,
    tells_deletions,
)

_DELETED = [("deleted", "true")]
# The sizes of pages of names and of schemas, and what smaller pages are divided by.
_NAMED, _LISTED, _FEWER = 5000, 500, 8
_AT_ONCE = 8
# Registries do not list settings, so that each walk asks for those of some subjects again.
_SETTINGS_AGAIN = 200
_MOST_SETTINGS_BYTES = MAX_ENTITY_BYTES * 3 // 4
_MOST_TEXTS = 10_000
# The statuses of a server that has no such list.
_ABSENT = GONE | {400, 405, 406, 501}
_Each = TypeVar("_Each")
_Found = TypeVar("_Found")


class ConfluentReader(DraftReader):
    """Reads the contexts, subjects and versions of a registry below a path of a server."""

    @classmethod
    async def find(cls, server: WalkedServer, model: Model, root: str) -> reader.WalkedCatalog:
        """The registry at a path, recognised by its list of schema types."""
        fault = f"{server.url}{root} is no registry of the Confluent API."
        types: list[Any] = []
        with IgnoredRefusals(_ABSENT):
            types = await first_listed(server, f"{root}/schemas/types", fault)
        if AVRO not in types:
            raise reader.NoCatalog(fault)
        told = await _optional_object(server, f"{root}/v1/metadata/version")
        version = printable(str(told.get("version") or ""))
        scope = (await _optional_object(server, f"{root}/v1/metadata/id")).get("scope")
        named = scope.get("clusters") if isinstance(scope, dict) else None
        return reader.WalkedCatalog(
            dialect="confluent",
            software=f"Confluent API {version}".strip()[:64],
            identity=printable(orjson.dumps(named).decode())[:128] if named else "Confluent",
            reader=partial(cls, root=root),
        )

    def __init__(self, reading: reader.Reading, root: str) -> None:
        kind = reading.model.resource_type(SCHEMA_GROUPS, SCHEMAS)
        super().__init__(reading, [SCHEMA_GROUPS] if kind and kind.hasdocument else [])
        self._root = root
        self._subjects: WalkedSubjects | None = None
        self._listed_again: WalkedSubjects | None = None
        self._texts: dict[SubjectName | tuple[SubjectName, int], WalkedVersion] = {}

    async def read_part(self, part: reader.WalkPart) -> AsyncIterator[list[reader.WalkedItem]]:
        if self._subjects is None:
            self._subjects = await self._list_subjects()
            selects = self.reading.selects
            await self._read_settings(
                [each for each, xid in self._subjects.xids.items() if selects(str(xid))]
            )
        subjects = self._subjects
        wanted = [
            subject
            for subject, xid in subjects.xids.items()
            if part.covers(str(xid)) and self.reading.selects(str(xid))
        ]
        for gid, context in subjects.contexts.items():
            xid = f"/{SCHEMA_GROUPS}/{gid}"
            if part.covers(xid) and self.reading.selects(xid):
                yield await self._group(Xid(SCHEMA_GROUPS, gid), context)
        for subject in subjects.illegal:
            yield [self.malformed(str(subject), "its subject has no legal name")]
        left = set(wanted)
        if left:
            # A server without such a list, or with a list that is of no use, is asked for each.
            with IgnoredRefusals(_ABSENT), suppress(AnswerTooLarge, AnswerMalformed):
                async for each in self._from_list(left):
                    yield each
        for chunk in _chunks([subject for subject in wanted if subject in left]):
            for found in await _together(chunk, self._one_by_one):
                yield found

    # Subjects and contexts.

    async def _list_subjects(self) -> WalkedSubjects:
        names: list[str] = []
        async for page in self._pages("/subjects", _DELETED, _NAMED):
            names += (name for name in page if isinstance(name, str))
        contexts: list[Any] = []
        with IgnoredRefusals(_ABSENT):
            contexts = await self._list("/contexts")
        return WalkedSubjects.of(
            map(read_subject, names), (c for c in contexts if isinstance(c, str))
        )

    async def _group(self, xid: Xid, context: str) -> list[reader.WalkedItem]:
        self.count()
        told = await self._settings_of(SubjectName(context, ""))
        source = {"registry": self.reading.authority, "context": context}
        kept: JsonObject = {"source": source} | readable_settings(told)
        assert self._subjects is not None, "they were listed before"
        subjects: dict[str, JsonObject] = {}
        size, left = len(orjson.dumps(kept)), int(kept.keys() != told.keys() | {"source"})
        for subject, place in self._subjects.xids.items():
            own = self.reading.settings.get(str(subject))
            if not own or place.gid != xid.gid:
                continue
            held = readable_settings(own)
            more = len(orjson.dumps({subject.name: held}))
            if held.keys() != own.keys() or size + more > _MOST_SETTINGS_BYTES:
                left += 1
            else:
                subjects[subject.name] = held
                size += more
        if subjects:
            kept["subjects"] = subjects
        read = partial(self.entity, attributes={CONFLUENT: kept})
        items = [self.item(f"/{SCHEMA_GROUPS}", xid.gid, read)]
        if left:
            reason = f"{counted(left, 'settings')} are unknown here, or more than a group can have"
            items.append(self.malformed(f"{xid}/settings", reason))
        return items

    async def _read_settings(self, subjects: Collection[SubjectName]) -> None:
        """Read the settings of new subjects, and of those that were asked for longest ago."""
        held = self.reading.settings
        wanted = {str(subject): subject for subject in subjects}
        for name in held.keys() - wanted.keys():
            del held[name]
        again = [wanted[name] for name in [*held][:_SETTINGS_AGAIN]]
        new = [subject for name, subject in wanted.items() if name not in held]
        for chunk in _chunks([*again, *new]):
            found = await _together(chunk, self._settings_of)
            for subject, settings in zip(chunk, found, strict=True):
                held.pop(str(subject), None)
                held[str(subject)] = settings

    async def _settings_of(self, subject: SubjectName) -> JsonObject:
        """The settings of a subject itself, or those that hold in a context."""
        name = "" if subject == (DEFAULT_CONTEXT, "") else f"/{quote(str(subject), safe='')}"
        params = [] if subject.name else [("defaultToGlobal", "true")]
        settings: JsonObject = {}
        config = await _optional_object(self.server, f"{self._root}/config{name}", params)
        if config:
            settings["config"] = config
        mode = (await _optional_object(self.server, f"{self._root}/mode{name}", params)).get("mode")
        if isinstance(mode, str) and (subject.name or mode != "READWRITE"):
            settings["mode"] = mode[:64]
        self.count_bytes()
        return settings

    # Versions.

    async def _from_list(self, left: set[SubjectName]) -> AsyncIterator[list[reader.WalkedItem]]:
        """The subjects from the list of all versions, which has the versions of each together.

        Args:
            left: the wanted subjects; those that the list has are removed.
        """
        tells_deleted: bool | None = None
        live: set[int] | None = None
        open: SubjectName | None = None
        entries: list[JsonObject] = []
        async for page in self._pages("/schemas", _DELETED, _LISTED):
            if tells_deleted is None:
                tells_deleted = tells_deletions(page)
                # Hashes of the versions that are not deleted, if the server marks no deleted ones.
                if not tells_deleted:
                    parts = self._pages("/schemas", [], _LISTED)
                    live = {key_of(e) async for part in parts for e in part if isinstance(e, dict)}
            for shown in page:
                name = shown.get("subject") if isinstance(shown, dict) else None
                subject = read_subject(name) if isinstance(name, str) else None
                if subject is None or subject not in left:
                    continue
                if open is not None and subject != open:
                    yield await self._subject(open, entries, live)
                    left.discard(open)
                    entries = []
                open = subject
                entries.append(shown)
        if open is not None:
            yield await self._subject(open, entries, live)
            left.discard(open)

    async def _subject(
        self, subject: SubjectName, entries: Sequence[JsonObject], live: Collection[int] | None
    ) -> list[reader.WalkedItem]:
        """A subject from the entries of a list.

        Args:
            live: the versions that are not deleted; `None` if the entries tell it.
        """
        if len({number_of(each) for each in entries}) < len(entries):
            # Several catalogs behind the registry have the subject, and it shows one of them.
            return await self._one_by_one(subject)
        deleted = {number_of(each) for each in entries if each.get("deleted") is True}
        if live is not None and any(key_of(each) not in live for each in entries):
            # The two lists were not read at one moment.
            numbers = await self._numbers(subject)
            deleted = {number_of(each) for each in entries} - set(numbers)
        return await self._items(subject, entries, deleted, [entries, sorted(map(str, deleted))])

    async def _one_by_one(self, subject: SubjectName) -> list[reader.WalkedItem]:
        """A subject of a server that does not list all versions."""
        numbers = await self._numbers(subject, _DELETED)
        live = await self._numbers(subject)
        deleted = set(numbers) - set(live)
        latest = await self._shown(subject, "latest") if live else None
        stamp = [numbers, live, latest]
        if self._is_known(subject, numbers, stamp):
            return []
        entries = [await self._shown(subject, number) for number in numbers]
        return await self._items(subject, [e for e in entries if e], deleted, stamp)

    async def _items(
        self,
        subject: SubjectName,
        entries: Sequence[JsonObject],
        deleted: Collection[Any],
        stamp: Any,
    ) -> list[reader.WalkedItem]:
        """The resource of a subject with its versions; nothing if they are as in the last walk."""
        numbers = sorted(
            {number for number in map(number_of, entries) if is_version_number(number)}
        )
        if self._is_known(subject, numbers, stamp):
            return []
        assert self._subjects is not None, "they were listed before"
        xid = self._subjects.xids[subject]
        by_number = {number_of(each): each for each in entries}
        items: list[reader.WalkedItem] = []
        versions: list[WalkedVersion] = []
        for number in numbers:
            self.count()
            try:
                versions.append(WalkedVersion.read(by_number[number]))
            except ValueError as error:
                items.append(self.malformed(f"{xid}/versions/{number}", str(error)))
        format = common_format(versions)
        ancestor = ""
        for version in versions:
            vid = str(version.number)
            text, guid = await self._identified(subject, version)
            kept = version.kept(subject, xid.rid, guid, is_deleted=version.number in deleted)
            attributes = {
                "format": format,
                "contenttype": CONTENT_TYPES[version.schema_type],
                "ancestorid": ancestor or vid,
                CONFLUENT: kept,
            }
            read = partial(self._version, attributes, version.at, text.encode())
            items.append(self.item(f"{xid}/versions", vid, read))
            ancestor = vid
        return self.resource(xid, items)

    def _version(
        self, attributes: JsonObject, at: datetime | None, document: bytes, xid: Xid
    ) -> reader.WalkedEntity:
        time = at or reader.NO_TIME
        entity = reader.entity_at(self.reading.authority, xid, 0, attributes, time, time)
        return reader.WalkedEntity(
            entity=reader.with_document(entity, document), lacks_times=at is None
        )

    def _is_known(self, subject: SubjectName, numbers: Iterable[int], stamp: Any) -> bool:
        """Whether the last walk brought a subject as it is; remembers it for the next walk."""
        assert self._subjects is not None, "they were listed before"
        xid = str(self._subjects.xids[subject])
        digest = hashlib.sha256(orjson.dumps(stamp)).digest()
        self.known[xid] = digest
        if self.reading.known.get(xid) != digest:
            return False
        self.see(xid)
        for number in numbers:
            self.see(f"{xid}/versions/{number}")
        return True

    # Texts.

    async def _identified(self, subject: SubjectName, version: WalkedVersion) -> tuple[str, str]:
        """The canonical text of a version, and its GUID.

        A GUID of the registry that fits the text proves that the text is canonical. The GUID of a
        text that cannot be read is that of the text as it is.
        """
        guid = version.identified_by(version.text)
        if guid == version.guid or self.reading.checks is None:
            return version.text, guid
        checks = SchemaChecks(self.reading.checks())
        unreadable = suppress(ConfluentError, AnswerMalformed, ValueError)
        with IgnoredRefusals(_ABSENT), unreadable:
            texts: dict[str, str] = {}
            await self._add_references(version, subject.context, texts, 0)
            asked = SchemaText(version.schema_type, version.text, texts)
            text = await checks.canonical(asked, normalize=False)
            return text, version.identified_by(text)
        return version.text, guid

    async def _add_references(
        self, version: WalkedVersion, within: str, texts: dict[str, str], depth: int
    ) -> None:
        """Add the texts that a version refers to, dependencies first.

        Raises:
            ValueError: they are too many, or one is missing.
        """
        for reference in version.references:
            if depth > DEEPEST_REFERENCES or len(texts) >= MOST_REFERENCED:
                raise ValueError("the references are nested too deeply, or are too many")
            if reference.name in texts:
                continue
            subject = read_subject(reference.subject, within)
            found = await self._referenced(subject, reference.version)
            await self._add_references(found, subject.context, texts, depth + 1)
            texts[reference.name] = found.text

    async def _referenced(self, subject: SubjectName, number: int) -> WalkedVersion:
        key = (subject, number)
        if key not in self._texts:
            shown = await self._shown(subject, number if number > 0 else "latest")
            if shown is None:
                raise ValueError(f"{subject} has no version {number}")
            if len(self._texts) >= _MOST_TEXTS:
                self._texts.clear()
            self._texts[key] = WalkedVersion.read(shown)
        return self._texts[key]

    # Requests.

    async def is_gone(self, xid: str) -> bool:
        """Whether a second list of the subjects has no such entity, nor the server the entity."""
        path = Xid.parse(xid)
        if path.groups != SCHEMA_GROUPS or path.resources not in ("", SCHEMAS):
            return False
        if self._listed_again is None:
            self._listed_again = await self._list_subjects()
        listed = self._listed_again
        if not path.rid:
            return path.gid not in listed.contexts
        subject = next((s for s, each in listed.xids.items() if each == path.resource), None)
        if subject is None:
            context = listed.contexts.get(path.gid)
            if context is None:
                return True
            # The name behind a derived id is not known any more.
            subject = SubjectName(context, path.rid)
        end = f"/{path.vid}" if path.vid else ""
        return await self.server.is_gone(f"{self._versions(subject)}{end}?deleted=true")

    async def _numbers(
        self, subject: SubjectName, params: Sequence[tuple[str, str]] = ()
    ) -> list[int]:
        """The numbers of a subject's versions; none if there is no such subject."""
        found: list[Any] = []
        with IgnoredRefusals():
            found = await self._list(self._versions(subject).removeprefix(self._root), params)
        return sorted(number for number in found if is_version_number(number))

    async def _shown(self, subject: SubjectName, version: object) -> JsonObject | None:
        """A version as the server shows it; `None` if there is none."""
        path = f"{self._versions(subject)}/{version}"
        return await _optional_object(self.server, path, _DELETED) or None

    def _versions(self, subject: SubjectName) -> str:
        return f"{self._root}/subjects/{quote(str(subject), safe='')}/versions"

    async def _pages(
        self, path: str, params: Sequence[tuple[str, str]], limit: int
    ) -> AsyncIterator[list[Any]]:
        """The members of a list in pages, whether the server has pages or not."""
        first: list[Any] = []
        offset = 0
        while True:
            place = [("offset", str(offset)), ("limit", str(limit))]
            try:
                page = await self._list(path, [*params, *place])
            except AnswerTooLarge:
                if limit == 1:
                    raise
                limit = max(1, limit // _FEWER)
                continue
            # A server without pages answers every request with the whole list.
            if not page or page == first:
                return
            yield page
            if len(page) > limit:
                return
            first = first or page
            offset += len(page)

    async def _list(self, path: str, params: Sequence[tuple[str, str]] = ()) -> list[Any]:
        found: list[Any] = []
        async for page in self.server.lists(self._root + path, params):
            self.count_bytes()
            found += page.members
        return found


async def _optional_object(
    server: WalkedServer, path: str, params: Sequence[tuple[str, str]] = ()
) -> JsonObject:
    """The JSON object at a path; an empty one if the server has none there."""
    with IgnoredRefusals(_ABSENT), suppress(AnswerMalformed):
        return (await server.read(path, params)).members
    return {}


def _chunks(each: Sequence[_Each]) -> Iterable[Sequence[_Each]]:
    return (each[start : start + _AT_ONCE] for start in range(0, len(each), _AT_ONCE))


async def _together(
    each: Iterable[_Each], ask: Callable[[_Each], Awaitable[_Found]]
) -> list[_Found]:
    """What a few concurrent requests find, in order."""
    found = await asyncio.gather(*map(ask, each), return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]
