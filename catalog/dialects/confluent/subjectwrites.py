"""Writes subjects and settings: each decision is taken and written under the locks of its group."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import orjson
from aiohttp import web

from catalog.api.writeanswer import notes_on
from catalog.context import CONTEXT
from catalog.context import Context as NodeContext
from catalog.dialects.confluent.contexts import Contexts, SchemaContext
from catalog.dialects.confluent.errors import ConfluentError, not_permitted
from catalog.dialects.confluent.subjectversions import StoredSubject, SubjectVersion
from catalog.http.responses import MORE_HEADERS, interaction_headers
from catalog.model.caller import Caller
from catalog.model.interaction import (
    Delete,
    GroupUpsert,
    Interaction,
    ResourceUpsert,
    VersionUpsert,
)
from catalog.model.xid import Xid
from catalog.store import schemaids
from catalog.store.database import Connection
from catalog.store.locks import Touched
from catalog.store.schemaids import RegistrationRow
from catalog.writing.outcome import Outcome
from catalog.writing.writetransaction import Composer

# As entities have, with room for their other attributes.
MOST_BYTES = 192 * 1024
# Each authority has a slot of ids in the default context, by the hash of its name.
SLOT = 2**20
MOST_SLOTS = 2047
_END = 2**31
# The group names the ids that may be in use beyond those that it shows, so that a node that is made
# from its replicas does not give them out again.
_BLOCK = 1000
# A node that was restored from a backup skips the ids that it may have given out since the backup.
_LEAP = 2**16


@dataclass(slots=True, kw_only=True)
class SubjectWrite(Composer):
    """The composer of a write of one group and one of its subjects.

    Args:
        make: puts the upserts and deletes into the interaction, under the locks.
    """

    caller: Caller
    path: str
    group: str
    resource: Xid | None
    make: Callable[[Connection, Interaction], Awaitable[None]]
    interaction: Interaction = field(init=False)

    def locks(self) -> Touched:
        return Touched(
            groups=frozenset((self.group,)),
            resources=frozenset((str(self.resource),) if self.resource is not None else ()),
            # A group counts the ids of its context: two registrations must not read one counter.
            groups_exclusive=True,
        )

    async def compose(self, connection: Connection) -> Interaction:
        at = self.resource or Xid.parse(self.group)
        self.interaction = Interaction(caller=self.caller, at=at, path=self.path)
        await self.make(connection, self.interaction)
        return self.interaction


async def apply(
    request: web.Request,
    group: str,
    resource: Xid | None,
    make: Callable[[Connection, Interaction], Awaitable[None]],
) -> Outcome:
    """Write under the locks of a group and of a resource in it; see `SubjectWrite`."""
    node = request[CONTEXT]
    write = SubjectWrite(
        caller=node.caller, path=request.path, group=group, resource=resource, make=make
    )
    outcome = await node.writer.apply_composed(node.configuration, write)
    notes = await notes_on(request, node.model, write.interaction, outcome)
    request[MORE_HEADERS] = {**notes, **interaction_headers(outcome)}
    return outcome


def put_group(interaction: Interaction, context: SchemaContext, /, **changed: Any) -> None:
    """Put the settings of a context into an interaction; a member of `None` is removed.

    Raises:
        ConfluentError: 422 if the settings are too large.
    """
    kept = {**context.kept, **changed}
    if len(orjson.dumps(kept)) > MOST_BYTES:
        message = f"The settings of a context and its subjects have {MOST_BYTES} bytes at most"
        raise ConfluentError(422, f"{message}. Set the context's instead of each subject's")
    interaction.groups.append(
        GroupUpsert(
            xid=context.group,
            body={},
            patch=True,
            confluent={name: value for name, value in kept.items() if value is not None},
        )
    )


def put_versions(
    interaction: Interaction, resource: Xid, versions: Sequence[VersionUpsert]
) -> None:
    if not interaction.groups:
        # Without a body, the upsert only makes a missing group.
        interaction.groups.append(GroupUpsert(xid=resource.group, body=None))
    interaction.resources.append(ResourceUpsert(xid=resource, patch=True, versions=tuple(versions)))


def marked_deleted(version: SubjectVersion) -> VersionUpsert:
    """The upsert that deletes a version softly."""
    return VersionUpsert(
        vid=str(version.number), body={}, patch=True, confluent={**version.kept, "deleted": True}
    )


def delete_for_good(
    interaction: Interaction, stored: StoredSubject, versions: Sequence[SubjectVersion]
) -> None:
    """Delete versions, and with the last one the resource."""
    if len(versions) == len(stored.versions):
        interaction.deletes.append(Delete(xid=stored.resource))
    else:
        interaction.deletes += [Delete(xid=one.xid) for one in versions]


def check_own(contexts: Contexts, context: SchemaContext, subject: object) -> None:
    """Refuse to write a group of another authority.

    Raises:
        ConfluentError: 42205.
    """
    if context.authority != contexts.authority:
        raise not_permitted(
            f"Subject {subject} is in read-only mode: it belongs to {context.authority}, where new "
            "versions are registered"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NextIds:
    """The ids that a context gives out next.

    Args:
        instance: the instance of the node.
        kept: the attribute of the group, with the range of the ids.
        read: what the registration depends on, read under the exclusive lock of the group.
    """

    contexts: Contexts
    context: SchemaContext
    instance: UUID
    kept: Mapping[str, Any]
    read: RegistrationRow

    @classmethod
    async def read_for(
        cls,
        connection: Connection,
        contexts: Contexts,
        stored: StoredSubject,
        guid: str,
        node: NodeContext,
        *,
        is_given: bool = False,
    ) -> NextIds:
        """Read what the registration of a schema depends on, under the locks of its group.

        Args:
            is_given: whether the schema comes with an id.
        """
        context, instance = stored.context, node.database.node.instance
        kept = dict(context.kept)
        if context.is_home and "ids" not in kept:
            kept["ids"] = {"first": node.settings.confluent_first_id or free_slot(contexts)}
        if _gives_way(contexts, context, kept):
            kept |= {"ids": {"first": free_slot(contexts)}, "reserved": None}
        return cls(
            contexts=contexts,
            context=context,
            instance=instance,
            kept=kept,
            read=await schemaids.read_registration(
                connection,
                stored.resource,
                contexts.resources_of(stored.subject),
                guid,
                range_of(context, kept),
                None if is_given else instance,
            ),
        )

    async def take(self, connection: Connection, interaction: Interaction) -> int:
        """Take the next id, and let the group note which ids may be in use."""
        kept, context, highest = dict(self.kept), self.context, self.read.highest
        first, end = range_of(context, kept)
        counter = self.read.counter or schemaids.Counter(self.instance, first)
        reserved = kept.get("reserved")
        reserved = reserved if type(reserved) is int else first - 1
        counted = counter.next if first <= counter.next <= end else first
        next = max(counted, (highest or 0) + 1)
        is_taken = next == self.read.taken
        if counter.instance != self.instance:
            next = max(next, reserved + 1) // _LEAP * _LEAP + _LEAP
        elif counted == first and highest is None and reserved >= first:
            # The group came from elsewhere, and its ids were counted there.
            next = max(next, reserved + 1)
        if next >= end:
            raise ConfluentError(50001, f"The ids of the context {context.name} are used up")
        if next > reserved:
            kept["reserved"] = next + _BLOCK - 1
        if not is_taken:
            await schemaids.save_counter(connection, context.xid, self.instance, next + 1)
        if kept != context.kept or not self.contexts.exists(context):
            put_group(interaction, context, **kept)
        return next


def _gives_way(contexts: Contexts, context: SchemaContext, kept: Mapping[str, Any]) -> bool:
    """Whether a known authority that comes first by its name gives out ids of the same range.

    Two authorities that did not know each other may have taken the same range. Once the authorities
    know each other, the second by name goes on in a different range. The order of names needs no
    common clock.
    """
    own = range_of(context, kept)[0] // SLOT
    return context.is_home and any(
        range_of(home)[0] // SLOT == own and home.authority < context.authority
        for home in contexts.homes
        if "ids" in home.kept
    )


def range_of(context: SchemaContext, kept: Mapping[str, Any] | None = None) -> tuple[int, int]:
    """The first id that the authority of a context may give out in it, and the end of its range."""
    if not context.is_home:
        return 1, _END
    ids = (context.kept if kept is None else kept).get("ids")
    first = ids.get("first") if isinstance(ids, Mapping) else None
    if type(first) is not int or not 0 < first < _END:
        return 1, _END
    return first, (first // SLOT + 1) * SLOT


def free_slot(contexts: Contexts) -> int:
    """The first id of the node's slot: by its hash, or the next one that no known node has."""
    hashed = int.from_bytes(hashlib.sha256(contexts.authority.encode()).digest()[:8])
    taken = {range_of(home)[0] // SLOT for home in contexts.homes}
    for step in range(MOST_SLOTS):
        slot = 1 + (hashed + step) % MOST_SLOTS
        if slot not in taken:
            return slot * SLOT
    raise ConfluentError(50001, "No range of schema ids is free")
