"""Stores links: definitions, state, progress and conflicts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

import orjson

from catalog.model.entity import Origin
from catalog.model.linkterms import MODE_TERMS, Dialect, LinkTraffic, Mode, ModeTerms, State
from catalog.model.timestamps import format_time
from catalog.store.database import Connection
from catalog.store.entities import columns_of
from catalog.store.queries import Queries

LINK_CHANNEL = "links"
"""Announces the id of a link to wake, or an empty id when links were changed."""
_HISTORY = timedelta(days=90)
_queries = Queries("links")


class LinkReplaced(Exception):
    """The link was deleted or replaced while it ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkDefinition:
    """The definition of a link by an operator.

    `authorities` are the authorities of the entities that the link brings: empty stands for the
    authority that the source is pinned to, `("*",)` for all authorities: the source is believed
    about each of them. `scope` are the xids of the entities that the link brings, each with
    everything below it, and `types` the types of groups (`endpoints`) or resources
    (`messagegroups/messages`); empty stands for all. Within the selection, the link brings groups
    and resources with all `labels`, as `name=value` or `name`. `prefix` comes before the ids of
    groups in this catalog, unless a pair of `map`, as `messagegroups/shop=messagegroups/eu-shop`,
    renames the group. `addresses` has pairs as `amqp://broker.a:5672=amqp://bridge.b:5673`, by
    which addresses of endpoints are rewritten. `trust` has keys that were trusted with the link.

    A link has the members of its mode (`MODE_TERMS`); the other members are empty, and are not
    stored. A link that sends has a `target`, and no `source`: its source is this node. A link of
    mode `accept` has neither URL, since the source sends by itself. `kafka` follows a topic that
    another node publishes to, `walk` and `write` lead to servers of other software. `dialect` is
    the API that a link reads or writes there; without a dialect, the link detects the API.
    `eventtopic` is the topic whose events wake a link of mode `events`; without a topic, the source
    posts the events.
    """

    source: str = ""
    target: str = ""
    mode: Mode = "pull"
    authorities: tuple[str, ...] = ()
    scope: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    prefix: str = ""
    map: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    dialect: Dialect | None = None
    trust: tuple[str, ...] = ()
    eventtopic: str = ""

    @property
    def peer(self) -> str:
        """The URL of the other catalog; empty for a link without a URL."""
        return self.target or self.source

    @property
    def terms(self) -> ModeTerms:
        """The facts about links of the same mode."""
        return MODE_TERMS[self.mode]

    @property
    def sends(self) -> bool:
        """Whether the link sends entities of this node; other links bring entities here."""
        return self.terms.sends


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerSelection:
    """The entities that a link selected until a change; `("*",)` stands for all authorities."""

    authorities: tuple[str, ...]
    scope: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A link with the identity of the source, the state and the progress.

    The defaults are those of a link that has not begun, and of a link that is not stored.

    `authority` is the authority that the source is pinned to, `None` before the first contact. The
    next copy first drops the replicas of `drops`, and if the link `doubts`, the next copy replaces
    the copies of `authority` here whatever their epochs; digests are compared first unless the link
    `copiesall`. A link that `ends` is deleted after the replicas are dropped. `cursor` is `None`
    until a copy was applied. `currentat` is the last time at which the link had applied everything
    of the source. `history` has the newest event first. `paused` is the reason of a pause,
    `nextattemptat` the time of the next attempt after a failure. `question` has to be answered
    before the link goes on, `errors` has the numbers of errors by class. `former` has the previous
    selections until the replicas are reconsidered: deselected replicas leave, groups get new names
    and endpoints new addresses. `sealed` is the credential that the link shows to its peer,
    encrypted, and `credential` the public part. `loss` is the reason why the source may lack or
    delete entities that the link has brought, until the link has caught up with the source.
    `comparedat` is the time of the last comparison of digests, which found `differing` origins.

    Of a link that pushes, the target takes the place of the source: `authority` and `instance` are
    the target's, `cursor` is a position in this node's own log, and `applied` counts copies at the
    target.
    """

    id: str
    definition: LinkDefinition
    authority: str | None
    revision: int = -1
    instance: uuid.UUID | None = None
    cursor: str | None = None
    subscription: str | None = None
    state: State = "new"
    paused: str | None = None
    failures: int = 0
    nextattemptat: datetime | None = None
    applied: int = 0
    appliedat: datetime | None = None
    currentat: datetime | None = None
    error: str | None = None
    history: tuple[Mapping[str, str], ...] = ()
    conflicts: int = 0
    doubts: bool = True
    drops: tuple[str, ...] = ()
    ends: bool = False
    copiesall: bool = False
    question: Mapping[str, Any] | None = None
    former: tuple[FormerSelection, ...] | None = None
    errors: Mapping[str, int] = field(default_factory=dict)
    traffic: LinkTraffic = field(default_factory=LinkTraffic)
    sealed: bytes | None = field(default=None, repr=False)
    credential: Mapping[str, Any] | None = None
    loss: str | None = None
    comparedat: datetime | None = None
    differing: int | None = None


async def create(
    connection: Connection, id: str, definition: LinkDefinition, authority: str | None = None
) -> Link | None:
    """Add a link; `None` if the id is taken.

    Without an authority, the first contact pins the source.
    """
    is_mapped = bool(definition.prefix or definition.map or definition.addresses)
    arguments = id, _text(definition), authority, is_mapped
    return await _announced(connection, _queries.create, *arguments)


async def replace(
    connection: Connection,
    before: Link,
    definition: LinkDefinition,
    authority: str | None,
    *,
    is_moved: bool = False,
) -> Link | None:
    """Replace the definition of a link and its pin; `None` if the link does not exist.

    A link with a different source or different authorities begins anew. A link with a different
    selection compares with the source again. After a change of selection, names or addresses, a
    link that brings entities reconsiders the replicas. A link whose catalog `is_moved` to a new URL
    continues from the cursor.
    """
    is_other = _flow(before.definition) != _flow(definition) or before.authority != authority
    leads_elsewhere = is_other and not is_moved
    selects_otherwise = _selection(before.definition) != _selection(definition)
    names_otherwise = _names(before.definition) != _names(definition)
    former = None
    if (selects_otherwise or names_otherwise) and not definition.sends:
        former = _former_text(before) if selects_otherwise else "[]"
    return await _announced(
        connection,
        _queries.replace,
        before.id,
        _text(definition),
        leads_elsewhere,
        authority,
        selects_otherwise,
        former,
    )


async def restart(
    connection: Connection,
    before: Link,
    *,
    authority: str | None,
    drops: Sequence[str] = (),
    ends: bool = False,
    copiesall: bool = False,
) -> Link | None:
    """Let a link begin anew; `None` if the link does not exist.

    `drops`, `ends` and `copiesall` are as in `Link`.
    """
    arguments = before.id, authority, list(drops), ends, copiesall
    return await _announced(connection, _queries.restart, *arguments)


async def note_reconsidered(connection: Connection, link: Link) -> None:
    """Note that the replicas of the link's former selections are reconsidered."""
    await connection.execute(_queries.has_reconsidered, link.id, link.revision)


async def bringing_beside(connection: Connection, link: Link) -> list[tuple[str, LinkDefinition]]:
    """Read the authorities and definitions of further links that bring entities."""
    rows = await connection.fetch(_queries.bringing_beside, link.id)
    return [(row["authority"], definition_from(row)) for row in rows]


async def note_dropped(connection: Connection, link: Link) -> None:
    """Note that the replicas in the link's `drops` are gone."""
    await connection.execute(_queries.has_dropped, link.id, link.revision)


async def delete(connection: Connection, id: str) -> Link | None:
    """Delete a link, and return its last state; `None` if the link does not exist."""
    return await _announced(connection, _queries.delete, id)


async def get(connection: Connection, id: str) -> Link | None:
    row = await connection.fetchrow(_queries.get, id)
    return None if row is None else link_from(row)


async def page(connection: Connection, after: str, limit: int) -> list[Link]:
    """Read up to `limit` links whose ids come after `after`, in the order of ids."""
    return [link_from(row) for row in await connection.fetch(_queries.page, after, limit)]


async def get_acceptance(connection: Connection, authority: str) -> Link | None:
    """Read the link that accepts the pushes of an authority, without the number of conflicts."""
    row = await connection.fetchrow(_queries.accepting, authority)
    return None if row is None else link_from(row)


async def find_pushing(connection: Connection, instance: uuid.UUID, link: Link) -> str | None:
    """Find an earlier link that pushes to the same target."""
    return await connection.fetchval(_queries.pushing_to, instance, link.revision)


async def count(connection: Connection) -> int:
    """Count all links."""
    return await connection.fetchval(_queries.count)


async def read_revisions(connection: Connection) -> dict[str, int]:
    """Read the revision of every link that is not paused, by id."""
    return {row["id"]: row["revision"] for row in await connection.fetch(_queries.revisions)}


async def meet(
    connection: Connection,
    link: Link,
    instance: uuid.UUID,
    authority: str,
    base: str | None,
    *,
    loss: str = "",
) -> str | None:
    """Store the identity of the source; return the cursor if it belongs to the instance.

    At the first contact, the source is pinned to its authority. `base` is the base of the URLs that
    the source gives out; `loss` is as in `Link`.

    Raises:
        LinkReplaced: no link has this revision.
    """
    row = await connection.fetchrow(
        _queries.meet, link.id, link.revision, instance, authority, base, loss or None
    )
    if row is None:
        raise LinkReplaced(link.id)
    cursor: str | None = row["cursor"]
    return cursor


async def forget_cursor(
    connection: Connection, link: Link, error: str | None = None, *, loss: str = ""
) -> None:
    """Let a link read everything again; `error` is the class of the error to count, if any."""
    await connection.execute(_queries.forget_cursor, link.id, link.revision, error, loss or None)


async def save_subscription(connection: Connection, link: Link, subscription: str | None) -> None:
    await connection.execute(_queries.save_subscription, link.id, link.revision, subscription)


async def save_progress(
    connection: Connection,
    link: Link,
    *,
    cursor: str | None,
    applied: int,
    at: datetime,
    copies: int = 0,
    size: int = 0,
    behind: int | None = None,
    settled: Sequence[Origin] = (),
) -> None:
    """Store the progress of the link; the caller commits it with the applied entities.

    Args:
        applied: the number of received `copies`, of `size` bytes together, that changed an entity.
        behind: the number of changes still to come, `None` if unknown; with a cursor, the link is
            current if the number is 0.
        settled: the origins that are no longer in conflict, here or at the link's target.

    Raises:
        LinkReplaced: roll back, as the entities were meant for a link that is gone.
    """
    found = await connection.fetchval(
        _queries.save_progress,
        link.id,
        link.revision,
        cursor,
        applied,
        at,
        copies,
        size,
        behind,
        *columns_of(settled),
    )
    if found is None:
        raise LinkReplaced(link.id)


async def save_state(
    connection: Connection,
    link: Link,
    state: State,
    *,
    failures: int = 0,
    error: str | None = None,
    currentat: datetime | None = None,
    nextattemptat: datetime | None = None,
    error_class: str | None = None,
    copies: int | None = None,
    too_many: int = 0,
) -> None:
    """Store the state of a link.

    The error is counted under `error_class`. `copies` is the number of copies that a link expects
    at the beginning of a copy, `too_many` how often the peer asked for fewer requests.
    """
    await connection.execute(
        _queries.save_state,
        link.id,
        link.revision,
        state,
        failures,
        error,
        currentat,
        nextattemptat,
        error_class,
        copies,
        too_many,
    )


async def expect(connection: Connection, link: Link, copies: int) -> None:
    """Store the number of copies that a copying link expects."""
    await connection.execute(_queries.expect, link.id, link.revision, copies)


async def save_comparison(connection: Connection, link: Link, at: datetime, differing: int) -> int:
    """Store the number of differing origins; return the number of the comparison before, or 0."""
    before = await connection.fetchval(
        _queries.save_comparison, link.id, link.revision, at, differing
    )
    return before or 0


async def remember(
    connection: Connection, link: Link, at: datetime, event: str, detail: str
) -> None:
    """Add an event to the link's history, and drop old events."""
    since = format_time(at - _HISTORY)
    await connection.execute(
        _queries.remember, link.id, link.revision, format_time(at), event, detail, since
    )


async def wake(connection: Connection, id: str) -> None:
    """Have the process of the link read the source now."""
    await connection.execute(_queries.announce, id)


async def _announced(connection: Connection, statement: str, *arguments: object) -> Link | None:
    row = await connection.fetchrow(statement, *arguments)
    # The notification leaves with the commit: no process looks for the link before it is visible.
    await connection.execute(_queries.announce, "")
    return None if row is None else link_from(row)


def _flow(definition: LinkDefinition) -> tuple[Any, ...]:
    return definition.source, definition.target, sorted(definition.authorities), definition.dialect


def _selection(definition: LinkDefinition) -> tuple[Any, ...]:
    lists = definition.authorities, definition.scope, definition.types, definition.labels
    return tuple(sorted(each) for each in lists)


def _names(definition: LinkDefinition) -> tuple[Any, ...]:
    return definition.prefix, sorted(definition.map), sorted(definition.addresses)


def _former_text(before: Link) -> str:
    """A list of the selection; empty without an authority, since the link brought no entities."""
    definition = before.definition
    own = () if before.authority is None else (before.authority,)
    authorities = definition.authorities or own
    selection = FormerSelection(
        authorities=authorities, scope=definition.scope, types=definition.types
    )
    return orjson.dumps([asdict(selection)] if authorities else []).decode()


def _former_from(text: str) -> tuple[FormerSelection, ...]:
    return tuple(FormerSelection(**_with_tuples(each)) for each in orjson.loads(text))


def _with_tuples(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}


def _text(definition: LinkDefinition) -> str:
    members = asdict(definition).items()
    stored = {name: value for name, value in members if definition.terms.has(name)}
    return orjson.dumps(stored).decode()


def definition_from(row: Mapping[str, Any]) -> LinkDefinition:
    return LinkDefinition(**_with_tuples(orjson.loads(row["definition"])))


def link_from(row: Mapping[str, Any]) -> Link:
    values = {field.name: row[field.name] for field in fields(Link) if field.name != "traffic"}
    parsed: dict[str, Callable[[str], Any]] = {
        "question": orjson.loads,
        "errors": orjson.loads,
        "former": _former_from,
        "credential": orjson.loads,
    }
    values |= {name: row[name] and parse(row[name]) for name, parse in parsed.items()}
    values["definition"] = definition_from(row)
    values["history"] = tuple(orjson.loads(row["history"]))
    values["drops"] = tuple(row["drops"])
    return Link(**values, traffic=LinkTraffic.of(row))
