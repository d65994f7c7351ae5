"""The current rights of the creators of subscriptions."""

from __future__ import annotations

from dataclasses import replace

from aiohttp import web

from catalog.access.authentication import AUTHENTICATION
from catalog.access.identity import EVERYBODY, Identity, identity_of
from catalog.access.rolerules import KnownRules, SettingRoles
from catalog.model.roles import Creator, Grant
from catalog.settings import Settings


def creator_of(request: web.Request) -> Creator | None:
    """The caller as the creator of a subscription; `None` if the node is open."""
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
    """The rights of creators by the current settings and rules.

    Does not check that the token of a creator is still valid: the end of a token suspends the
    subscriptions of its creator.
    """

    def __init__(self, settings: Settings, rules: KnownRules) -> None:
        self._settings = settings
        self._rules = rules
        self._roles = SettingRoles(settings)

    def in_all(self, creator: Creator | None) -> Identity:
        """The rights of a creator in the whole catalog; constant as long as the node runs.

        A subscription without a creator was made while the node was open, by everybody.
        """
        settings = self._settings
        if creator is None or settings.is_open:
            return EVERYBODY
        match creator.kind:
            case "token":
                grants = tuple(map(Grant, creator.roles))
            case "jwt" if creator.issuer not in settings.oidc_issuers:
                return Identity("jwt", creator.name, creator.issuer)
            case "certificate" if settings.tls_client_ca is None:
                return Identity("certificate", creator.name, creator.issuer)
            case kind:
                grants = self._roles.of(kind, creator.claims)
        return Identity(creator.kind, creator.name, creator.issuer, grants, creator.claims)

    async def now(self, creator: Creator | None) -> Identity:
        """The rights of a creator, with the current roles of the creator in groups."""
        identity = self.in_all(creator)
        if identity is EVERYBODY:
            return identity
        return replace(identity, rules=await self._rules.of(identity.kind, identity.claims))
