"""Checks that a node knows a caller before it serves, and lists how callers are known."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from catalog.model.roles import ISSUER, Who
from catalog.settings.settings import Settings
from catalog.settings.settingtypes import is_loopback
from catalog.store.accessrules import read_known_rules
from catalog.store.accesstokens import count_tokens
from catalog.store.database import Database


class NoCallerKnown(Exception):
    """A node would refuse every request, since it knows no caller and is not open."""


async def check_callers(settings: Settings, database: Database) -> None:
    """Refuse to serve if the node would refuse every request.

    Raises:
        NoCallerKnown
    """
    by_claims = settings.oidc_issuers and settings.oidc_roles
    by_names = settings.tls_client_ca and settings.certificate_roles
    if settings.is_open or by_claims or by_names or settings.anonymous_role:
        return
    async with database.acquire() as connection:
        _, usable = await count_tokens(connection, datetime.now(UTC))
        rules = await read_known_rules(connection)
    if not usable and not any(_can_be_met(Who.parse(text), settings) for text, _ in rules):
        is_chosen = is_loopback(settings.host)
        reason = "CONCORD_OPEN is off" if is_chosen else f"{settings.host} is no loopback address"
        raise NoCallerKnown(reason)


def _can_be_met(who: Who, settings: Settings) -> bool:
    """Whether a caller can meet the condition of a rule; tokens are counted by `check_callers`."""
    match who.kind:
        case "anonymous":
            return True
        case "token":
            return False
        case "jwt":
            named = {value for name, value in who.conditions if name == ISSUER}
            return len(named) == 1 and named <= {*settings.oidc_issuers}
        case "certificate":
            return settings.tls_client_ca is not None


def ways_in(settings: Settings) -> list[str]:
    """The ways in which the node knows callers, as sentences for the operator."""
    if settings.is_open:
        public = urlsplit(settings.public_url or "").hostname
        is_local = is_loopback(settings.host) and (public is None or is_loopback(public))
        who = "everybody on this machine" if is_local else "all who reach it, or a proxy before it"
        return [f"It is open to {who}; CONCORD_OPEN=false asks who they are."]
    ways = ["its own tokens (`concord token add`)"]
    if settings.oidc_issuers:
        ways.append(f"tokens of {', '.join(settings.oidc_issuers)}")
    if settings.tls_client_ca is not None:
        ways.append("client certificates")
    role = settings.anonymous_role
    others = f"is {role}" if role else "is refused"
    return [f"It knows callers by {', '.join(ways)}. Everybody else {others}."]
