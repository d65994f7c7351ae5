"""The key histories of authorities, which catalogs exchange, and the keys that operators trust.

A catalog that trusts one key of a history can verify the whole, so relays may pass histories on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

import structlog
from aiohttp import web

from catalog.client import Client, ClientError, Refused
from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.model.authoritykey import KeyHistory, PublicKey, read_history
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.linkterms import RELAY, TRUST_FIRST
from catalog.operations import peers, signing
from catalog.operations.signing import Reason
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from replication.deciding.copychecks import Incoming, MalformedCopy
from replication.deciding.trust import Trust, is_consistent, is_endorsed
from replication.peers.handshake import accepting_link
from replication.store import trustedkeys as store
from replication.store.trustedkeys import MOST_HISTORIES, TrustedKey

_log = structlog.get_logger(__name__)

_MOST_SHOWN = 1000
_TOLD_AT_ONCE = 10
# Seconds between two requests to a source for the same unknown key.
_ASKED_AGAIN_SECONDS = 5.0


class _Asked(dict[tuple[str, str, str], float]):
    """The times of the last requests for keys, by the URL of the source, authority and key id."""


async def get_keys(request: web.Request, query: peers.KeysQuery) -> peers.KnownKeys:
    """List the known key histories.

    The history of the node's own authority comes first, if the node has keys.
    """
    context, named = request[CONTEXT], query.authority
    async with context.database.acquire() as connection:
        found = await store.load_histories(connection, named or None, _MOST_SHOWN)
        own = context.database.node.authority
        if not named and own not in found:
            found |= await store.load_histories(connection, [own])
    shown = sorted(
        found.values(), key=lambda history: (history.authority != own, history.authority)
    )
    return peers.KnownKeys(keys=_show_all(shown))


async def post_keys(request: web.Request, told: peers.ToldKeys) -> peers.LearntKeys:
    """Learn keys from a catalog whose pushes are accepted, before its copies arrive.

    Raises:
        PushNotAccepted
    """
    link = await accepting_link(request)
    listed = link.definition.authorities or (link.authority,)
    histories = [
        history
        for history in _read_all(told.keys)
        if listed == ("*",) or history.authority in listed
    ]
    number = await learn(request[CONTEXT], histories, sender=link.authority or "")
    return peers.LearntKeys(learnt=number)


async def ensure_keys(
    context: Context, peer: Client, copies: Sequence[Incoming], *, sender: str
) -> None:
    """Ask a source for the keys of signed copies, as far as the keys are unknown.

    An error of the source is ignored: the copies are refused later if their keys matter.
    """
    own, now = context.database.node.authority, asyncio.get_running_loop().time()
    signed = {
        (copy.authority, copy.signedby)
        for copy in copies
        if not isinstance(copy, MalformedCopy) and copy.signature and copy.authority != own
    }
    if not signed:
        return
    async with context.database.acquire() as connection:
        known = await store.load_histories(connection, {authority for authority, _ in signed})
    asked = context.database.shared.part(_Asked, _Asked)
    wanted = {
        (peer.url, authority, id)
        for authority, id in signed
        if (authority not in known or id not in known[authority].ids)
        and now - asked.get((peer.url, authority, id), float("-inf")) >= _ASKED_AGAIN_SECONDS
    }
    if wanted:
        if len(asked) > MOST_HISTORIES:
            asked.clear()
        asked.update(dict.fromkeys(wanted, now))
        await ask_for_keys(context, peer, {each[1] for each in wanted}, sender=sender)


async def ask_for_keys(
    context: Context, peer: Client, authorities: Collection[str] | None, *, sender: str
) -> None:
    """Ask a source for the key histories of authorities, or for every history, and keep them."""
    named = None if authorities is None else sorted(authorities)[: peers.MOST_NAMED]
    try:
        histories = await fetch_histories(peer, named)
    except ClientError as error:
        _log.info("keys were not told", source=peer.url, cause=error.message)
        return
    await learn(context, histories, sender=sender)


async def fetch_histories(peer: Client, authorities: Sequence[str] | None) -> list[KeyHistory]:
    """Ask a catalog for the key histories of authorities; `None` stands for every authority.

    Raises:
        ClientError
    """
    try:
        found = _read_all((await peer.keys(authorities or ()))[:_MOST_SHOWN])
    except Refused as error:
        if error.problem.status in (404, 405):  # A peer of an older version has no route for keys.
            return []
        raise
    return [each for each in found if authorities is None or each.authority in authorities]


async def tell_histories(context: Context, peer: Client, authorities: Collection[str]) -> None:
    """Send a target the key histories of authorities, before the copies of the authorities.

    Raises:
        ClientError
    """
    async with context.database.acquire() as connection:
        found = await store.load_histories(connection, authorities)
    node, shown = context.database.node, _show_all(found.values())
    for start in range(0, len(shown), _TOLD_AT_ONCE):
        part = shown[start : start + _TOLD_AT_ONCE]
        try:
            named = {"authority": node.authority, "instance": str(node.instance)}
            told = await peer.tell_keys(part, **named)
            _log.debug("keys were told", target=peer.url, learnt=told.learnt)
        except Refused as error:
            # As in `fetch_histories`: an older version learns no keys.
            if error.problem.status not in (404, 405):
                raise


async def learn(context: Context, histories: Iterable[KeyHistory], *, sender: str) -> int:
    """Check the histories of another catalog, keep the valid ones, and return the number kept.

    For an authority with trusted keys, a history counts only if a trusted key endorses it. For
    other authorities, a history counts if the authority itself sent it, or if a relay sent a later
    history; it is then only passed on.

    Args:
        sender: the authority of the other catalog.
    """
    own, number = context.database.node.authority, 0
    others = [history for history in histories if history.authority != own]
    if not others:
        return 0
    authorities = {history.authority for history in others}
    async with context.database.transaction() as connection:
        # Two requests must not compare with the same earlier history, nor exceed the limit
        # together.
        await store.lock_histories(connection)
        known = await store.load_histories(connection, authorities)
        trusted = await store.load_trusted(connection, authorities)
        room = MOST_HISTORIES - await store.count_histories(connection)
        for history in others:
            earlier = known.get(history.authority)
            keys = [each for each in trusted if each.authority == history.authority]
            is_valid = (
                await _endorsed(connection, history, keys) if keys else is_consistent(history)
            )
            if not is_valid:
                continue
            is_later = earlier is None or history.order > earlier.order
            if (is_later or (history.authority == sender and not keys)) and (earlier or room > 0):
                await store.save_history(connection, history)
                number += 1
    return number


async def _endorsed(
    connection: Connection, history: KeyHistory, keys: Sequence[TrustedKey]
) -> bool:
    """Trust the entries of a history if a trusted key endorses them; say whether a key does."""
    if not is_endorsed(history, Trust.of(keys).keys.get(history.authority, {})):
        return False
    await _trust_entries(connection, history, "endorsed")
    return True


async def _trust_entries(connection: Connection, history: KeyHistory, reason: Reason) -> None:
    now, authority = datetime.now(UTC), history.authority
    for entry in history.keys:
        await store.trust(connection, authority, entry.public, now, reason)
        if entry.revokedat is not None:
            await store.revoke_trusted(connection, authority, entry.public, now)


def _read_all(keys: Iterable[object]) -> list[KeyHistory]:
    """The well-formed histories."""
    found = []
    for each in keys:
        try:
            found.append(read_history(each))
        except ValueError as error:
            _log.info("a history of keys is malformed", cause=str(error))
    return found


def _show_all(histories: Iterable[KeyHistory]) -> list[peers.KeyHistoryAnswer]:
    return [peers.KeyHistoryAnswer.model_validate(each.as_json()) for each in histories]


async def list_trust(request: web.Request) -> signing.TrustedAuthorities:
    """List the trusted keys by authority."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await store.load_trusted(connection, None)
    return signing.TrustedAuthorities(trusted=_show(found))


async def add_trust(request: web.Request, wanted: signing.NewTrust) -> signing.TrustedAuthority:
    """Trust a key of an authority, and refuse copies of the authority without its signature."""
    context = request[CONTEXT]
    if wanted.authority == context.database.node.authority:
        fault = "it is the authority of this node"
        raise InvalidAttribute(request.path, name="authority", error_detail=fault)
    async with context.database.transaction() as connection:
        await _trust_named(connection, wanted.authority, PublicKey.parse(wanted.key), request.path)
        found = await store.load_trusted(connection, [wanted.authority])
        context.caller.author.name_target(wanted.authority)
    return _show(found)[0]


async def remove_trust(request: web.Request, query: signing.AuthorityQuery) -> None:
    """Accept every copy of an authority again, signed or not."""
    context, authority = request[CONTEXT], query.authority
    async with context.database.transaction() as connection:
        await store.lock_histories(connection)
        if not await store.load_trusted(connection, [authority]):
            raise NotFound(request.path)
        await store.distrust(connection, authority)
        context.caller.author.name_target(authority)


async def trust_with_link(
    connection: Connection, definition: LinkDefinition, authority: str | None, subject: str
) -> None:
    """Trust the keys that the definition of a link names.

    Args:
        authority: the authority that the source is pinned to, if known.

    Raises:
        InvalidAttribute: the link brings nothing, or the authority of the keys is not clear.
    """
    if definition.trust and definition.sends:
        raise InvalidAttribute(subject, name="trust", error_detail="the link brings nothing here")
    keys = [PublicKey.parse(text) for text in definition.trust if text != TRUST_FIRST]
    if not keys:
        return
    brought = definition.authorities or ((authority,) if authority else ())
    if len(brought) != 1 or brought == RELAY:
        fault = "it is not clear whose keys they are: name each by `concord trust add`"
        raise InvalidAttribute(subject, name="trust", error_detail=fault)
    for key in keys:
        await _trust_named(connection, brought[0], key, subject)


async def trust_first(context: Context, peer: Client, authority: str) -> None:
    """Trust the keys that a source shows of its own authority, unless keys are trusted already.

    Raises:
        ClientError: the source shows no keys.
    """
    async with context.database.acquire() as connection:
        if await store.load_trusted(connection, [authority]):
            return
    shown = [each for each in await fetch_histories(peer, [authority]) if is_consistent(each)]
    if not shown:
        raise ClientError(
            f"{peer.url} has no keys, and is to be trusted by them only.",
            "Sign there with `concord signing set on`, or follow it without --trust.",
        )
    async with context.database.transaction() as connection:
        await store.lock_histories(connection)
        # An operator may have named a key while the source was asked.
        if await store.load_trusted(connection, [authority]):
            return
        await _trust_entries(connection, shown[0], "first")
        await store.save_history(connection, shown[0])


async def _trust_named(
    connection: Connection, authority: str, key: PublicKey, subject: str
) -> None:
    """Trust a key that an operator names, and the known keys that the key endorses."""
    await store.lock_histories(connection)
    await store.trust(connection, authority, key, datetime.now(UTC), "named")
    trusted = await store.load_trusted(connection, [authority])
    if any(each.public == key and each.revokedat is not None for each in trusted):
        fault = "its authority has revoked it; `concord trust remove` forgets that"
        raise InvalidAttribute(subject, name="key", error_detail=fault)
    known = await store.load_histories(connection, [authority])
    if authority in known:
        await _endorsed(connection, known[authority], trusted)


def _show(trusted: Sequence[TrustedKey]) -> list[signing.TrustedAuthority]:
    return [
        signing.TrustedAuthority(
            authority=authority,
            keys=[
                signing.TrustedKeyAnswer(
                    key=str(each.public),
                    id=each.public.id,
                    reason=each.reason,
                    trustedat=each.trustedat,
                    revokedat=each.revokedat,
                )
                for each in keys
            ],
        )
        for authority, keys in groupby(trusted, key=attrgetter("authority"))
    ]


routes: Sequence[Route] = (
    Route(peers.LIST_KEYS, get_keys),
    Route(peers.TELL_KEYS, post_keys),
    Route(signing.LIST_TRUST, list_trust),
    Route(signing.ADD_TRUST, add_trust),
    Route(signing.REMOVE_TRUST, remove_trust),
)
