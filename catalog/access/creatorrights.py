"""The rights of the creators of subscriptions, as they are now."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import EVERYBODY, Identity, identity_of
from catalog.access.knownrules import KnownRules
from catalog.config import Settings
from catalog.model.creator import Creator
from catalog.model.rolerules import RoleRule, grants_from
from catalog.model.roles import Grant


def creator_of(request: web.Request) -> Creator | None:
    """The caller as the creator of what its request makes; `None` if the node is open."""
    if request.app[AUTHENTICATION].is_open:
        return None
    identity = identity_of(request)
    return Creator(
        kind=identity.kind,
        name=identity.name,
        issuer=identity.issuer,
        claims=identity.claims,
        roles=identity.roles_in_all if identity.kind == "token" else (),
    )


class CreatorRights:
    """Knows what creators may do, by the settings and rules of now.

    That their tokens are still valid is not asked: their subscriptions are suspended if not.
    """

    def __init__(self, settings: Settings, rules: KnownRules) -> None:
        self._settings = settings
        self._rules = rules
        self._claimed = tuple(map(RoleRule.parse, settings.oidc_roles))
        self._certified = tuple(map(RoleRule.parse, settings.certificate_roles))

    def in_all(self, creator: Creator | None) -> Identity:
        """The rights of a creator in the whole catalog: the same as long as the node runs.

        What has none was made while the node was open, by everybody.
        """
        if creator is None or self._settings.is_open:
            return EVERYBODY
        known, grants = self._known(creator)
        claims = creator.claims if known else {}
        return Identity(creator.kind, creator.name, creator.issuer, grants, claims)

    async def now(self, creator: Creator | None) -> Identity:
        """The rights of a creator, with the roles that it has in groups now."""
        identity = self.in_all(creator)
        if identity is EVERYBODY:
            return identity
        return replace(identity, rules=await self._rules.of(identity.kind, identity.claims))

    def _known(self, creator: Creator) -> tuple[bool, tuple[Grant, ...]]:
        """Whether the node still knows callers of this kind, and what it grants this one."""
        settings = self._settings
        match creator.kind:
            case "anonymous":
                role = settings.anonymous_role
                return True, (Grant(role),) if role else ()
            case "token":
                return True, tuple(map(Grant, creator.roles))
            case "jwt" if creator.issuer in settings.oidc_issuers:
                return True, grants_from(self._claimed, creator.claims)
            case "certificate" if settings.tls_client_ca is not None:
                return True, grants_from(self._certified, creator.claims)
        return False, ()
