"""Handlers and rules for trusted keys: the authorities that need signatures, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import groupby
from operator import attrgetter

from aiohttp import web

from catalog.client import Client, ClientError
from catalog.context import CONTEXT, Context
from catalog.http.route import Route
from catalog.model.authoritykey import KeyHistory, PublicKey
from catalog.model.errors import InvalidAttribute, NotFound
from catalog.model.linkterms import RELAY, TRUST_FIRST
from catalog.operations import signing
from catalog.operations.signing import (
    AuthorityQuery,
    NewTrust,
    TrustedAuthorities,
    TrustedAuthority,
    TrustedKeyAnswer,
)
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from replication.deciding.keytrust import is_consistent
from replication.peers.keyhistories import fetch_histories, trust_by
from replication.store import trustedkeys as store
from replication.store.trustedkeys import TrustedKey


async def list_trust(request: web.Request) -> TrustedAuthorities:
    """List the trusted keys by authority."""
    async with request[CONTEXT].database.acquire() as connection:
        found = await store.load_trusted(connection, None)
    return TrustedAuthorities(trusted=_show(found))


async def add_trust(request: web.Request, wanted: NewTrust) -> TrustedAuthority:
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


async def remove_trust(request: web.Request, query: AuthorityQuery) -> None:
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
            "Sign there with `concord signing on`, or follow it without --trust.",
        )
    async with context.database.transaction() as connection:
        await store.lock_histories(connection)
        # An operator may have named a key while the source was asked.
        if not await store.load_trusted(connection, [authority]):
            await _trust_all(connection, shown[0])


async def _trust_all(connection: Connection, history: KeyHistory) -> None:
    now = datetime.now(UTC)
    for entry in history.keys:
        await store.trust(connection, history.authority, entry.public, now, "first")
        if entry.revokedat is not None:
            await store.revoke_trusted(connection, history.authority, entry.public, now)
    await store.save_history(connection, history)


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
        await trust_by(connection, known[authority], trusted)


def _show(trusted: Sequence[TrustedKey]) -> list[TrustedAuthority]:
    return [
        TrustedAuthority(authority=authority, keys=[_show_key(each) for each in keys])
        for authority, keys in groupby(trusted, key=attrgetter("authority"))
    ]


def _show_key(trusted: TrustedKey) -> TrustedKeyAnswer:
    return TrustedKeyAnswer(
        key=str(trusted.public),
        id=trusted.public.id,
        reason=trusted.reason,
        trustedat=trusted.trustedat,
        revokedat=trusted.revokedat,
    )


routes: Sequence[Route] = (
    Route(signing.LIST_TRUST, list_trust),
    Route(signing.ADD_TRUST, add_trust),
    Route(signing.REMOVE_TRUST, remove_trust),
)
