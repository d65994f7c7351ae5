"""Finds schemas by the ids and GUIDs that Kafka messages carry, and counts the ids of a group."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

import orjson

from catalog.load.workthread import aside
from catalog.model.confluentattribute import CONFLUENT, SchemaIdConflict
from catalog.model.entity import Entity
from catalog.model.xid import Xid
from catalog.store.database import Connection
from catalog.store.entities import entities_from
from catalog.store.queries import Queries

MOST_CONFLICTS = 100
_queries = Queries("schemaids")


class ContextRow(NamedTuple):
    """A schema group that is a context, with a hash of its settings."""

    xid: str
    authority: str
    hash: bytes

    @property
    def state(self) -> str:
        """The row as text, to be compared."""
        return f"{self.xid} {self.authority} {self.hash.hex()}"


class SubjectRow(NamedTuple):
    """A resource with versions for the Confluent API, and the name of its subject."""

    xid: str
    group: str
    name: str
    is_deleted: bool


class Counter(NamedTuple):
    """The counter of a group: the instance of the node that set it, and the next id."""

    instance: UUID
    next: int


class RegistrationRow(NamedTuple):
    """What a registration depends on.

    Args:
        contexts: the states of the contexts, as `ContextRow.state`.
        versions: the digests of the versions that the subject may mean, in order.
        has_guid: whether a version of any group has the GUID of the schema.
        taken: the next id by the counter, which has advanced already; `None` if `counter` and
            `highest` have to decide.
        held_id: the id of a resource that equals the subject's in any case.
        counter: the counter of the group; `None` if the group has none yet.
        highest: the highest schema id of the group within its range.
    """

    contexts: Sequence[str]
    versions: Sequence[bytes]
    has_guid: bool
    taken: int | None
    held_id: str | None
    counter: Counter | None
    highest: int | None


async def load_contexts(connection: Connection) -> list[ContextRow]:
    rows = await connection.fetch(_queries.load_contexts)
    return [ContextRow(row["xid"], row["authority"], row["hash"]) for row in rows]


async def load_settings(connection: Connection, groups: Iterable[str]) -> dict[bytes, Any]:
    """Read the settings of contexts, given by their xids, by the hash of the settings."""
    rows = await connection.fetch(_queries.load_settings, list(groups))
    entities = await entities_from(rows)
    return {
        row["hash"]: entity.attributes.get(CONFLUENT)
        for row, entity in zip(rows, entities, strict=True)
    }


async def load_versions(connection: Connection, resources: Iterable[str]) -> list[Entity]:
    """Read the versions of resources, given by their xids."""
    collections = [f"{xid}/versions" for xid in resources]
    return await entities_from(await connection.fetch(_queries.load_versions, collections))


async def find_by_id(connection: Connection, groups: Iterable[str], id: int) -> list[Entity]:
    """Find the versions with a schema id in groups, given by their xids."""
    wanted = [xid.lower() for xid in groups]
    return await entities_from(await connection.fetch(_queries.find_by_id, wanted, id))


async def find_by_guid(connection: Connection, guid: str) -> list[Entity]:
    return await entities_from(await connection.fetch(_queries.find_by_guid, guid))


async def find_conflicts(connection: Connection) -> list[SchemaIdConflict]:
    """Find the first `MOST_CONFLICTS` schema ids that name several schemas within one context."""
    return _conflicts_in(await connection.fetch(_queries.find_conflicts, MOST_CONFLICTS))


async def find_conflicts_of(
    connection: Connection, versions: Sequence[str]
) -> list[SchemaIdConflict]:
    """Find the conflicts of the schema ids of some versions, given by their xids."""
    rows = await connection.fetch(_queries.find_conflicts_of, versions, MOST_CONFLICTS)
    return _conflicts_in(rows)


def _conflicts_in(rows: Sequence[Mapping[str, Any]]) -> list[SchemaIdConflict]:
    # A number that another authority has written may have a fraction.
    ids = (orjson.loads(row["id"]) for row in rows)
    return [
        SchemaIdConflict(id=id, versions=dict(zip(row["xids"], row["subjects"], strict=True)))
        for id, row in zip(ids, rows, strict=True)
        if type(id) is int
    ]


async def find_referring(
    connection: Connection, groups: Iterable[str], subjects: Collection[str], version: int
) -> list[Entity]:
    """Find the versions in groups that refer to a version of a subject.

    Args:
        subjects: the names by which references may name the subject.
    """
    wanted = [orjson.dumps([{"subject": name, "version": version}]).decode() for name in subjects]
    within = [xid.lower() for xid in groups]
    return await entities_from(await connection.fetch(_queries.find_referring, wanted, within))


async def find_without_id(
    connection: Connection,
    authority: str,
    formats: Iterable[str],
    except_for: Iterable[bytes],
    limit: int,
) -> list[Entity]:
    """Find versions in the contexts of an authority that have a document and no schema id.

    Args:
        formats: the wanted formats in lower case, without their versions.
        except_for: the digests of versions to leave out.
    """
    rows = await connection.fetch(
        _queries.find_without_id, authority, list(except_for), limit, list(formats)
    )
    return await entities_from(rows)


async def list_subjects(connection: Connection, groups: Iterable[str]) -> list[SubjectRow]:
    rows = await connection.fetch(_queries.list_subjects, [xid.lower() for xid in groups])
    return await aside(len(rows), lambda: [_subject_from(row) for row in rows])


def _subject_from(row: Mapping[str, Any]) -> SubjectRow:
    xid = str(row["collection"]).removesuffix("/versions")
    group, _, id = xid.rsplit("/", 2)
    return SubjectRow(xid, group, row["name"] or id, row["is_deleted"])


async def read_registration(
    connection: Connection,
    resource: Xid,
    may_be: Iterable[str],
    guid: str,
    ids: tuple[int, int],
    instance: UUID | None,
) -> RegistrationRow:
    """Read what a registration depends on, under the exclusive lock of its group.

    Args:
        resource: the resource that is to get a version.
        may_be: the xids of the resources that the name of the subject may mean.
        ids: the first id that the group may give out, and the end of its range.
        instance: the instance of the node, to take an id for a new schema; `None` takes none.
    """
    row = await connection.fetchrow(
        _queries.read_registration,
        [f"{xid}/versions" for xid in may_be],
        guid,
        f"{resource.group}/{resource.resources}",
        resource.rid,
        str(resource.group),
        *ids,
        instance,
    )
    assert row is not None, "it has no condition"
    highest: Any = None if row["highest"] is None else orjson.loads(row["highest"])
    return RegistrationRow(
        contexts=row["contexts"],
        versions=row["versions"],
        has_guid=row["has_guid"],
        taken=row["taken"],
        held_id=row["held_id"],
        counter=None if row["next"] is None else Counter(row["instance"], row["next"]),
        highest=highest if type(highest) is int else None,
    )


async def save_counter(connection: Connection, group: str, instance: UUID, next: int) -> None:
    """Save the next id of a group, whose exclusive lock the caller has."""
    await connection.execute(_queries.save_counter, group, instance, next)
