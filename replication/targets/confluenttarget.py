"""Writes to a registry of the Confluent API by its mode IMPORT, which keeps ids and versions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from catalog.client import BadAnswer, Client, JsonObject, Params
from catalog.context import Context
from catalog.dialects.confluent.contexts import (
    DEFAULT_CONTEXT,
    SchemaContext,
    SubjectName,
    read_subject,
)
from catalog.dialects.confluent.subjectversions import SubjectVersion, shown_contract
from catalog.model.confluentattribute import CONFLUENT, SCHEMA_GROUPS, SCHEMAS
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.operations.schemacontracts import AVRO
from catalog.store import entities as store
from catalog.store.database import Connection
from replication.deciding.copychecks import Copy
from replication.readers.walkedserver import GONE, IgnoredRefusals
from replication.readers.walkedsubjects import WalkedVersion, is_version_number
from replication.store.writtenentities import WrittenEntity
from replication.targets.target import (
    Answered,
    Found,
    Item,
    Target,
    Translation,
    Unwritable,
    shape_of,
)

_DELETED = [("deleted", "true")]
_PERMANENT = [("permanent", "true")]
_FORCE = [("force", "true")]
_MOST_LISTED = 1_000_000
_LISTED = 1000


class ConfluentTarget(Target):
    """A registry that takes the subjects of this node, each put into the mode IMPORT.

    The node's home group is the default context there, another group the context of its name. A
    subject stays in the mode IMPORT, so that nobody else registers schemas under it.
    """

    def __init__(self, context: Context, client: Client, software: str) -> None:
        super().__init__(client, client.url, software)
        self._context = context
        self._importing: set[SubjectName] = set()
        self._subjects: dict[str, SubjectName] = {}

    @classmethod
    async def open(cls, context: Context, client: Client, mark: str) -> ConfluentTarget | None:
        """Look whether a server has the types of schemas."""
        types = None
        with IgnoredRefusals({400, *GONE}):
            types = await _json(client, "/schemas/types")
        is_registry = isinstance(types, list) and AVRO in types
        return cls(context, client, "Confluent API") if is_registry else None

    async def plan(self, connection: Connection, copies: Sequence[Copy]) -> Translation:
        plan = Translation()
        groups = {str(Xid.parse(copy.xid).group) for copy in copies}
        contexts = {
            xid: SchemaContext(xid=xid, authority=group.authority, kept=kept)
            for xid, group in (await store.load(connection, groups)).items()
            if isinstance(kept := group.attributes.get(CONFLUENT), dict)
        }
        for copy in copies:
            xid = Xid.parse(copy.xid)
            if xid.groups != SCHEMA_GROUPS or xid.resources not in ("", SCHEMAS):
                continue
            if not isinstance(copy, Entity):
                plan.gone.append(copy)
            elif (context := contexts.get(str(xid.group))) is not None:
                self._add(plan, copy, context)
        # What a schema refers to was registered before, and has a lower id.
        plan.items.sort(key=lambda item: (item.xid.kind != "group", item.content.get("id", 0)))
        return plan

    def _add(self, plan: Translation, entity: Entity, context: SchemaContext) -> None:
        is_default = context.is_home and context.authority == self._context.database.node.authority
        name = DEFAULT_CONTEXT if is_default else context.name
        if entity.kind == "group" and (settings := _settings_of(context, name)):
            plan.items.append(Item(entity=entity, content={"settings": settings}))
        if entity.kind != "version":
            return
        version = SubjectVersion.of(entity)
        if version is None:
            plan.faults.append((entity, "it has no schema id, or no number"))
            return
        content = {
            "id": version.id,
            "schemaType": version.schema_type,
            **shown_contract(version.references, version.metadata, version.rules),
        }
        if version.is_deleted:
            content["deleted"] = True
        self._subjects[str(entity.path.resource)] = SubjectName(name, version.name)
        plan.items.append(Item(entity=entity, content=content))

    def path_of(self, item: Item) -> str:
        if item.xid.kind == "group":
            return f"/contexts/{quote(item.xid.gid)}"
        return f"{_versions_of(self._subjects[str(item.xid.resource)])}/{item.xid.vid}"

    async def find(self, holder: Xid) -> Mapping[str, Found]:
        if not holder.rid:
            # A context has nothing of its own but settings, which are written anyway.
            return {}
        subject = self._subjects.get(str(holder))
        return {} if subject is None else await self._find(subject)

    async def _find(self, subject: SubjectName) -> dict[str, Found]:
        path = _versions_of(subject)
        live = set(await self._list(path))
        found = {}
        for number in await self._list(path, _DELETED):
            shown = await self._shown(f"{path}/{number}") if is_version_number(number) else None
            if shown is not None:
                content = _content(shown, subject, is_deleted=number not in live)
                found[f"{path}/{number}"] = Found(shape=shape_of(content), is_version=True)
        return found

    async def find_below(self, group: Xid) -> Mapping[str, Mapping[str, Found]]:
        wanted = {s: xid for xid, s in self._subjects.items() if Xid.parse(xid).group == group}
        there: set[SubjectName] = set()
        for offset in range(0, _MOST_LISTED, _LISTED):
            place = [("offset", str(offset)), ("limit", str(_LISTED))]
            page = {
                read_subject(str(name)) for name in await self._list("/subjects", _DELETED + place)
            }
            if page <= there:
                break
            there |= page
        return {
            wanted[subject]: await self._find(subject) for subject in wanted if subject in there
        }

    async def read_document(self, path: str) -> bytes:
        shown = await self._shown(path) or {}
        return str(shown.get("schema", "")).encode()

    async def write(
        self, item: Item, document: bytes | None, written: WrittenEntity, *, is_new: bool
    ) -> Answered:
        if item.xid.kind == "group":
            for name, config in item.content["settings"].items():
                level = config.get("compatibilityLevel")
                body = {**config, "compatibility": level} if level else config
                await self.client.put(f"/config/{quote(name, safe='')}", body)
            return Answered(path=written.path)
        subject, path = self._subjects[str(item.xid.resource)], self.path_of(item)
        wanted = {name: value for name, value in item.content.items() if name != "deleted"}
        text = (document or b"").decode(errors="replace")
        shown = await self._shown(path)
        if shown is None:
            await self._import(subject, {**wanted, "version": int(item.xid.vid), "schema": text})
        elif not (
            _value(str(shown.get("schema", ""))) == _value(text)
            and _content(shown, subject, is_deleted=False) == wanted
        ):
            raise Unwritable("the registry has another schema under this version, or another id")
        is_live = int(item.xid.vid) in await self._list(_versions_of(subject))
        if item.content.get("deleted") and is_live:
            await self.delete(path)
        elif not item.content.get("deleted") and not is_live:
            raise Unwritable("the registry has deleted this version, and takes it no more")
        return Answered(path=path)

    async def _import(self, subject: SubjectName, body: JsonObject) -> None:
        """Register a version under its id and number."""
        if subject not in self._importing:
            mode = f"/mode/{quote(str(subject), safe='')}"
            await self.client.request("PUT", mode, params=_FORCE, body={"mode": "IMPORT"})
            self._importing.add(subject)
        answer = await self.client.request("POST", _versions_of(subject), body=body)
        try:
            id = orjson.loads(answer.body)["id"]
        except (orjson.JSONDecodeError, KeyError, TypeError):
            id = None
        if id != body["id"]:
            raise Unwritable(f"the registry gave it the id {str(id)[:20]}, as it cannot import")

    async def remove(
        self, holder: Xid, paths: Collection[str], adopted: Collection[str], *, is_whole: bool
    ) -> bool:
        for path in sorted(paths) if holder.rid else ():
            versions = path.rpartition("/")[0]
            if int(path.rpartition("/")[2]) in await self._list(versions):
                await self.delete(path)
            await self.delete(path, _PERMANENT)
        return is_whole and not adopted

    async def _shown(self, path: str) -> JsonObject | None:
        """A version there, deleted or not; `None` if there is none."""
        shown = None
        with IgnoredRefusals():
            shown = await _json(self.client, path, _DELETED)
        return shown if isinstance(shown, dict) else None

    async def _list(self, path: str, params: Params = ()) -> list[Any]:
        """The members of a list; none if it does not exist."""
        found: Any = []
        with IgnoredRefusals():
            found = await _json(self.client, path, params)
        if not isinstance(found, list):
            raise BadAnswer(self.root + path, "something else than a list")
        return found


def _versions_of(subject: SubjectName) -> str:
    return f"/subjects/{quote(str(subject), safe='')}/versions"


def _settings_of(context: SchemaContext, name: str) -> dict[str, JsonObject]:
    """The settings of subjects, and of a context that is not the default one of the registry."""
    subjects = context.kept.get("subjects")
    names = [*subjects] if isinstance(subjects, Mapping) else []
    settings = {str(SubjectName(name, each)): context.config_of(each) for each in names}
    if name != DEFAULT_CONTEXT:
        settings[str(SubjectName(name, ""))] = context.config_of()
    return {each: config.shown() for each, config in settings.items() if config is not None}


def _content(shown: JsonObject, subject: SubjectName, *, is_deleted: bool) -> JsonObject:
    """A version there in the form of an item's content."""
    try:
        kept = WalkedVersion.read(shown).kept(subject, subject.name, "", is_deleted=is_deleted)
    except ValueError:
        return {}
    return {name: value for name, value in kept.items() if name != "guid"}


def _value(text: str) -> Any:
    """The JSON value of a text; for Protobuf, its words."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text.split()


async def _json(client: Client, path: str, params: Params = ()) -> Any:
    answer = await client.request("GET", path, params=params)
    try:
        return orjson.loads(answer.body)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(client.url + path, "no JSON") from error
