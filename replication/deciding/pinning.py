"""The authorities to which the sources of links are pinned, and the copies that links may bring."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Collection
from dataclasses import replace

from catalog.client import ClientError
from catalog.model.linkterms import RELAY
from catalog.store import linkauthorities
from catalog.store.database import Connection
from catalog.store.links import Link, LinkDefinition
from replication.deciding.provenance import CopyFilter, Policy


def policy_of(definition: LinkDefinition, *, own: str, source: str) -> Policy:
    """The policy for the copies of a link.

    A source sends entities of the pinned authority only, unless the link lists authorities.

    Args:
        definition: the definition of the link.
        own: the node's authority.
        source: the authority to which the source is pinned.
    """
    return Policy(
        own=own,
        sender=source,
        authorities=admitted(definition, source),
        scope=definition.scope,
        types=definition.types,
        labels=definition.labels,
    )


def filter_of(definition: LinkDefinition, source: str) -> CopyFilter:
    """The copies that a link admits, given the authority to which the source is pinned."""
    return CopyFilter(
        authorities=admitted(definition, source), scope=definition.scope, types=definition.types
    )


async def policy_within(
    connection: Connection, policy: Policy, authorities: Collection[str] | None
) -> Policy:
    """The policy of a link, narrowed by what other links of the node bring.

    A copy whose authority is not the peer of the link itself is refused where another link brings
    the copy from its authority.

    Args:
        policy: the policy by the definition of the link alone.
        authorities: the authorities of the copies that the policy will be asked about; `None` for
            every authority.
    """
    wanted = None if authorities is None else {*authorities} - {policy.sender}
    if wanted is not None and not wanted:
        return policy
    filters = [
        replace(filter_of(definition, authority), authorities=frozenset({authority}))
        for authority, definition in await linkauthorities.pinned_to(connection, wanted)
        if (brought := admitted(definition, authority)) is None or authority in brought
    ]
    return replace(policy, direct=tuple(filters))


async def meet_claim(connection: Connection, link: Link, claimed: str) -> None:
    """Check that the source of a link may be, or stay, pinned to the claimed authority.

    Raises:
        ClientError: an operator has to decide.
    """
    check_claim(link, claimed)
    source, is_named = link.definition.source, link.authority is not None
    fault, advice = await why_not_pinned(connection, link.id, source, claimed, is_named=is_named)
    if fault:
        advice = advice or _advice(link.id, claimed)
        raise ClientError(f"{source} cannot be followed: {fault}.", advice)


def met(link: Link, instance: uuid.UUID, authority: str, loss: str) -> Link:
    """The link after the first contact with the source.

    Args:
        loss: why the source has lost data; "" if it has not.
    """
    pinned = link.authority or authority
    return replace(link, instance=instance, authority=pinned, loss=loss or None)


def check_claim(link: Link, claimed: str) -> None:
    """Check that a source claims the authority to which it is pinned.

    Raises:
        ClientError: the source claims a different authority.
    """
    if link.authority not in (None, claimed):
        raise ClientError(
            f"The source is pinned to the authority {link.authority}, and claims to be {claimed}.",
            _advice(link.id, claimed),
        )


async def why_not_pinned(
    connection: Connection, link: str, source: str, authority: str, *, is_named: bool
) -> tuple[str, str]:
    """The reason why a source's claim to an authority is refused; "" if the claim is accepted.

    A node has one source per authority. The operator has to name an authority that the node knows
    already, unless the authority is the URL of the source, since the source gets control of the
    stored copies of the authority.

    Args:
        link: the id of the link.
        source: the URL of the source.
        is_named: the operator has named the authority.

    Returns:
        the reason, and advice; without advice, the operator may name the authority.
    """
    claim = await linkauthorities.read_claim(connection, link, authority, source)
    if claim.rival is not None:
        fault = f'link "{claim.rival}" follows the authority {authority} from another source'
        return fault, f"Remove the wrong one: `concord link remove {claim.rival}`."
    if claim.is_known and not (is_named or claim.is_shared or authority.rstrip("/") == source):
        return f"it claims to be {authority}, an authority that is known here already", ""
    return "", ""


def admitted(definition: LinkDefinition, source: str) -> frozenset[str] | None:
    """The authorities of the copies that a link may bring; `None` for every authority.

    Args:
        source: the authority to which the source is pinned.
    """
    if definition.authorities == RELAY:
        return None
    return frozenset(definition.authorities or (source,))


def _advice(link: str, authority: str) -> str:
    # The authority is a text from a remote party, and operators copy commands into shells.
    return f"If it is, run `concord link set {link} --pin {shlex.quote(authority)}`."
