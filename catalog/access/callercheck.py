"""The check that a node knows a caller before it serves, and the ways in that it tells."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlsplit

from catalog.config import Settings, is_loopback
from catalog.rolerules import ANONYMOUS
from catalog.store.accessrules import read_grants_for
from catalog.store.accesstokens import count_tokens
from catalog.store.database import Database


class NoCallerKnown(Exception):
    """A node would refuse every request: it knows no caller, and is not open."""


async def check_callers(settings: Settings, database: Database) -> None:
    """Refuse to serve what nobody could use.

    Raises:
        NoCallerKnown
    """
    is_known = settings.oidc_issuers or settings.tls_client_ca or settings.anonymous_role
    if settings.is_open or is_known:
        return
    async with database.pool.acquire() as connection:
        _, usable = await count_tokens(connection, datetime.now(UTC))
        # Rules for tokens of providers and certificates let nobody in who cannot show any.
        is_met = await read_grants_for(connection, [ANONYMOUS], 1)
    if not usable and not is_met:
        is_chosen = is_loopback(settings.host)
        reason = "CONCORD_OPEN is off" if is_chosen else f"{settings.host} is no loopback address"
        raise NoCallerKnown(reason)


def ways_in(settings: Settings) -> list[str]:
    """The ways in, as sentences for the operator."""
    if settings.is_open:
        public = urlsplit(settings.public_url or "").hostname
        is_local = is_loopback(settings.host) and (public is None or is_loopback(public))
        who = "everybody on this machine" if is_local else "all who reach it, or a proxy before it"
        return [f"It is open to {who}; CONCORD_OPEN=false asks who they are."]
    ways = ["its own tokens (`concord token create`)"]
    if settings.oidc_issuers:
        ways.append(f"tokens of {', '.join(settings.oidc_issuers)}")
    if settings.tls_client_ca is not None:
        ways.append("client certificates")
    role = settings.anonymous_role
    others = f"is {role}" if role else "is refused"
    return [f"It knows callers by {', '.join(ways)}. Everybody else {others}."]
