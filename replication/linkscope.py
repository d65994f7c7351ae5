"""What a link may bring, and what it asks its source for."""

from __future__ import annotations

from catalog.model.entity import Origin
from catalog.store.links import RELAY, LinkDefinition
from replication.decide import Policy, is_in_scope


def policy_of(definition: LinkDefinition, *, own: str, source: str) -> Policy:
    """What the link lets in.

    A source speaks for itself unless the link says that it relays for others.

    Args:
        definition: the link's.
        own: this node's authority.
        source: the authority of the source, as it said itself.
    """
    return Policy(
        own=own,
        sender=source,
        authorities=_authorities(definition, source),
        scope=definition.scope,
    )


def filters_of(definition: LinkDefinition, source: str) -> list[tuple[str, str]]:
    """The query parameters that keep a source from sending what would be refused."""
    authorities = _authorities(definition, source)
    named = [] if authorities is None else sorted(authorities)
    return [("authority", a) for a in named] + [("scope", path) for path in definition.scope]


def may_bring(definition: LinkDefinition, source: str | None, origin: Origin) -> bool:
    """Whether an origin can come by this link; `source` is `None` if it was never met."""
    authorities = _authorities(definition, source or definition.source)
    by_authority = authorities is None or origin.authority in authorities
    return by_authority and is_in_scope(origin.xid, definition.scope)


def _authorities(definition: LinkDefinition, source: str) -> frozenset[str] | None:
    if definition.authorities == RELAY:
        return None
    return frozenset(definition.authorities or (source,))
