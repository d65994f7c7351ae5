"""The followers of this node: their reports, their lag, and the arrivals of a change."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from aiohttp import web

from catalog.access.identity import Identity, identity_of
from catalog.context import CONTEXT, Context
from catalog.http.background import BACKGROUND_TASKS
from catalog.http.route import Route
from catalog.http.stream import in_search_time
from catalog.model.caller import node_caller
from catalog.model.entity import Entity, Origin
from catalog.model.errors import BadRequest, InvalidAttribute, NotFound, ServerBusy
from catalog.model.masking import printable
from catalog.model.timestamps import format_time
from catalog.model.xid import Xid
from catalog.operations.authoritycards import Card
from catalog.operations.followers import (
    FOLLOWER,
    LIST_FOLLOWERS,
    READ_ARRIVALS,
    Arrival,
    Arrivals,
    ArrivalsQuery,
    FollowedSelection,
    Follower,
    FollowerName,
    Followers,
)
from catalog.store import entities, linksources
from catalog.store.changes import MOST_DISORDER, LogCursor, Position, find_position, read_head
from catalog.store.database import Connection, Database, SharedDatabase
from catalog.store.links import Link
from replication.deciding.provenance import CopyFilter, filter_of
from replication.feed.cards import read_cards
from replication.store import followers
from replication.store.followers import Place

_SAVE_SECONDS = 1.0
_LONGEST_IDENTITY = 300
_ADVICE = "Ask for the arrivals of a position instead."


class FollowerReports:
    """The reports of followers that this process has not stored yet."""

    def __init__(self, database: SharedDatabase) -> None:
        self._database = Database(database, node_caller())
        self._due: dict[str, Place] = {}
        self._is_saving = False

    def note(self, request: web.Request, selection: CopyFilter, position: Position) -> None:
        """Note that the sender of a request has everything of a selection up to a position.

        Nothing is noted for a sender without a name, or by the name of this node itself.
        """
        name = FollowerName.read(request.headers.get(FOLLOWER))
        if name is None or name.authority == self._database.node.authority:
            return
        report = Follower(
            authority=name.authority,
            identity=_in_words(identity_of(request)),
            card=name.card,
            selection=_selection_of(selection),
            seenat=datetime.now(UTC),
        )
        self._due[followers.id_of(report)] = report, position
        if not self._is_saving:
            self._is_saving = True
            request.app[BACKGROUND_TASKS].begin(self._save())

    async def _save(self) -> None:
        """Store reports, once a second while reports come."""
        try:
            while self._due:
                await asyncio.sleep(_SAVE_SECONDS)
                due, self._due = self._due, {}
                # A lost report needs no retry: the follower reports again with its next request.
                with contextlib.suppress(ServerBusy, TimeoutError):
                    async with self._database.acquire() as connection:
                        await followers.save(connection, due)
        finally:
            self._is_saving = False


def reports_of(database: SharedDatabase) -> FollowerReports:
    """The reports of the followers of a node."""
    return database.part(FollowerReports, lambda: FollowerReports(database))


def _selection_of(wanted: CopyFilter) -> FollowedSelection:
    return FollowedSelection(
        authorities=sorted(wanted.authorities or ()),
        scope=sorted(wanted.scope),
        types=sorted(wanted.types),
    )


def _in_words(identity: Identity) -> str:
    """The caller as known to this node, in a line of at most 300 characters."""
    issuer = f" of {identity.issuer}" if identity.issuer else ""
    return printable(f"{identity.kind} {identity.name or ''}{issuer}").strip()[:_LONGEST_IDENTITY]


async def list_followers(request: web.Request) -> Followers:
    """List the catalogs that have copies from this node, and how far each of them is."""
    context = request[CONTEXT]
    async with context.database.acquire() as connection:
        places = await _places(context, connection, with_lag=True)
    return Followers(followers=sorted((each for each, _ in places), key=lambda e: -(e.lag or 0.0)))


async def _places(
    context: Context, connection: Connection, *, with_lag: bool = False
) -> list[Place]:
    """The followers that report, and the catalogs that links send to, each with its position."""
    reports = await followers.load(connection, with_lag=with_lag)
    sending = await linksources.sending(connection)
    cards = await read_cards(connection, {link.authority or "" for link in sending})
    own = context.database.node.authority
    return reports + [_sent_to(link, cards, own) for link in sending]


def _sent_to(link: Link, cards: dict[str, Card], own: str) -> Place:
    """The catalog that a link sends to; by default, a link sends entities of this node alone.

    Args:
        own: the authority of this node.
    """
    assert link.authority is not None, "the link has met its target"
    cursor, lag = _cursor_of(link), None
    if link.currentat is not None:
        age = (datetime.now(UTC) - link.currentat).total_seconds()
        lag = 0.0 if link.state == "current" else round(age, 1)
    follower = Follower(
        authority=link.authority,
        card=cards.get(link.authority),
        link=link.id,
        selection=_selection_of(filter_of(link.definition, own)),
        position=None if cursor is None else f"{cursor.instance}.{cursor.position}",
        lag=lag,
        seenat=link.currentat,
    )
    return follower, Position(0, 0) if cursor is None else cursor.position


def _cursor_of(link: Link) -> LogCursor | None:
    """The position in this node's log up to which a link has sent."""
    # The target of a push keeps a cursor with the whole instance id, and with the link's id.
    instance, _, place = (link.cursor or "").partition("@")[0].partition(".")
    try:
        return LogCursor.parse(f"{instance[:8]}.{place}")
    except ValueError:
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class _AskedChange:
    """The change that a request is about; `entity` is the changed one, `None` for a position."""

    position: Position
    entity: Entity | None = None
    epoch: int | None = None


async def list_arrivals(request: web.Request, query: ArrivalsQuery) -> Arrivals:
    """List the followers of this node, and whether each has a change."""
    context = request[CONTEXT]
    if (query.of is None) == (query.position is None):
        raise BadRequest(request.path, error_detail='it needs either "of" or "position"')
    async with in_search_time(request, _ADVICE):
        async with context.database.snapshot() as connection:
            if query.position is not None:
                asked = _AskedChange(position=_position_in(request, context, query.position))
            else:
                asked = await _change_of(request, connection, query)
        async with context.shared.for_node().database.acquire() as connection:
            places = await _places(context, connection)
            found = await _arrivals_at(connection, places, asked)
    # The position of an entity's change would tell how much is written that is hidden.
    return Arrivals(
        of=None if asked.entity is None else str(Xid.parse(query.of or "")),
        epoch=asked.epoch,
        position=query.position,
        followers=_best_of_each(found),
    )


async def _arrivals_at(
    connection: Connection, places: Sequence[Place], asked: _AskedChange
) -> list[Arrival]:
    """The arrival of a change at each place."""
    found = [_arrival(*place, asked) for place in places]
    awaiting = [number for number, each in enumerate(found) if each.state == "awaited"]
    if asked.entity is None or not awaiting:
        return found
    positions = [places[number][1] for number in awaiting]
    missing = await followers.first_missing(connection, asked.entity.xid, positions)
    for number, lack in zip(awaiting, missing, strict=True):
        if lack is not None:
            found[number] = found[number].model_copy(update={"epoch": lack[0], "since": lack[1]})
    return found


def _arrival(follower: Follower, confirmed: Position, asked: _AskedChange) -> Arrival:
    entity, selection = asked.entity, follower.selection
    selected = CopyFilter(
        authorities=frozenset(selection.authorities) or None,
        scope=tuple(selection.scope),
        types=tuple(selection.types),
    )
    has_come = confirmed >= asked.position
    is_selected = entity is None or selected.admits(Origin(entity.authority, entity.origin))
    return Arrival(
        authority=follower.authority,
        card=follower.card,
        state="unselected" if not is_selected else "arrived" if has_come else "awaited",
        epoch=asked.epoch if is_selected and has_come else None,
        seenat=follower.seenat,
    )


def _position_in(request: web.Request, context: Context, text: str) -> Position:
    try:
        cursor = LogCursor.parse(text)
    except ValueError as error:
        raise BadRequest(request.path, error_detail='"position" is no position') from error
    if not cursor.is_of(context.database.node.instance):
        fault = '"position" is of the log of another instance'
        raise BadRequest(request.path, error_detail=fault)
    return cursor.position


async def _change_of(
    request: web.Request, connection: Connection, query: ArrivalsQuery
) -> _AskedChange:
    """The change of an entity that the caller sees."""
    assert query.of is not None, "the query was checked"
    entity = await asked_entity(connection, query.of, request.path)
    xid = entity.xid
    shown = await _shown_with(connection, entity)
    asked = query.epoch or 0
    since = format_time(min(each.modifiedat for each in shown) - MOST_DISORDER)
    try:
        begin = await find_position(connection, since, subject=xid)
    except InvalidAttribute:
        # The log no longer has the time of the change.
        begin = (await read_head(connection)).dropped
    xids = [xid] if asked else [each.xid for each in shown]
    position = await followers.find_change(connection, xids, asked, begin)
    return _AskedChange(
        # What the log no longer has, every follower that goes on has received.
        position=position or begin,
        entity=entity if asked else shown[-1],
        epoch=asked or shown[-1].epoch,
    )


async def asked_entity(connection: Connection, of: str, subject: str) -> Entity:
    """The entity that a query names, if the caller of the connection sees the entity.

    Raises:
        BadRequest: the text is no xid.
        NotFound
    """
    try:
        xid = str(Xid.parse(of))
    except ValueError as error:
        fault = '"of" needs to be an xid, as /schemagroups/g/schemas/s'
        raise BadRequest(subject, error_detail=fault) from error
    entity = (await entities.load(connection, [xid])).get(xid)
    if entity is None:
        raise NotFound(xid)
    return entity


async def _shown_with(connection: Connection, entity: Entity) -> list[Entity]:
    """An entity and, after a resource, the default version that the resource shows."""
    default = entity.attributes.get("defaultversionid") if entity.kind == "resource" else None
    if default is None:
        return [entity]
    version = f"{entity.xid}/versions/{default}"
    return [entity, *(await entities.load(connection, [version])).values()]


def _best_of_each(found: Iterable[Arrival]) -> list[Arrival]:
    """One arrival of each follower: several reports of a follower are of its several links."""
    rank = {"arrived": 0, "awaited": 1, "unselected": 2}
    best: dict[str, Arrival] = {}
    for each in found:
        held = best.setdefault(each.authority, each)
        if (rank[each.state], -_seconds(each)) < (rank[held.state], -_seconds(held)):
            best[each.authority] = each
    order = {"awaited": 0, "arrived": 1, "unselected": 2}
    return sorted(best.values(), key=lambda each: (order[each.state], each.authority))


def _seconds(arrival: Arrival) -> float:
    return 0.0 if arrival.seenat is None else arrival.seenat.timestamp()


routes: Sequence[Route] = (
    Route(LIST_FOLLOWERS, list_followers),
    Route(READ_ARRIVALS, list_arrivals),
)
