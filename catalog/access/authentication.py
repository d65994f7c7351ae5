"""Identifies the caller of a request, by a token or by the certificate of the connection.

JSON Web Tokens of OpenID Connect providers are verified by RFC 9068 and RFC 8725.
"""

from __future__ import annotations

import math
import re
import time
from base64 import b64decode
from collections import OrderedDict
from dataclasses import dataclass, replace

import structlog
from aiohttp import hdrs, web

from catalog.access.certificates import caller_of
from catalog.access.identity import Identity, unauthenticated
from catalog.access.owntokens import caller_with, is_own
from catalog.access.providers import Begin, JwtVerifier, TokenInvalid
from catalog.access.rolerules import SettingRoles, known_rules
from catalog.http.clientconnections import client_address, source_of
from catalog.load.limiter import Rate
from catalog.model.caller import node_caller
from catalog.model.concorderrors import TooManyAttempts, Unauthenticated
from catalog.settings import Settings
from catalog.store.database import Database, SharedDatabase

_log = structlog.get_logger(__name__)

# RFC 6750, 2.1. The bound is the size of a header, which limits the tokens of providers, too.
_TOKEN = re.compile(r"[A-Za-z0-9\-._~+/]{1,8000}={0,2}", re.ASCII)
_MOST_REMEMBERED = 5_000
# A process accepts a token of the node for this time after a different process has revoked it.
_OWN_SECONDS = 2.0
# A token of a provider is accepted for this time after the provider has withdrawn the key.
_ISSUED_SECONDS = 60.0
# The wrong credentials that may come from an address at once.
_MOST_WRONG = 20
# The node forgives an address one wrong credential in this time. Many wrong credentials at once
# make the address wait longer, but a minute at most: innocent clients may share the address.
_FORGIVEN_SECONDS = 10.0
_LONGEST_PAUSE = 60.0
_PAUSED = (
    "Wrong credentials came from this address. Those that were right before are served meanwhile."
)
_INVALID = "the token is unknown, was revoked, or has expired"


@dataclass(frozen=True, slots=True)
class _Remembered:
    identity: Identity
    until: float


class RememberedCallers:
    """The callers whose credentials were verified lately, bounded in number.

    A credential whose verification has expired stays known as a credential that was valid.

    The keys are the credentials: a digest would cost more than the rest of the work for a known
    caller. The time of a search reveals no credential, since texts are compared only if their
    hashes are equal, and a client cannot choose a hash.
    """

    def __init__(self, most: int = _MOST_REMEMBERED) -> None:
        self._most = most
        self._found: OrderedDict[str, _Remembered] = OrderedDict()

    def find(self, credential: str) -> Identity | None:
        found = self._found.get(credential)
        if found is None or found.until <= time.monotonic():
            return None
        return found.identity

    def was_right(self, credential: str) -> bool:
        """Whether a credential was verified before, which shows that the bearer does not guess."""
        return credential in self._found

    def keep(self, credential: str, identity: Identity, seconds: float) -> None:
        self.drop(credential)
        if seconds > 0:
            self._found[credential] = _Remembered(identity, time.monotonic() + seconds)
            if len(self._found) > self._most:
                self._found.popitem(last=False)

    def forget(self) -> None:
        """Verify every credential anew."""
        # Expired entries stay: `was_right` exempts the bearers from the pause of an address.
        for credential, found in self._found.items():
            self._found[credential] = _Remembered(found.identity, 0.0)

    def drop(self, credential: str) -> None:
        self._found.pop(credential, None)


class Authentication:
    """Identifies the callers of a node by the settings and by the tokens of the node."""

    def __init__(self, settings: Settings, database: SharedDatabase, begin: Begin) -> None:
        self.is_open = settings.is_open
        self.remembered = RememberedCallers()
        self.rules = known_rules(database)
        # The rate of wrong credentials of each address. While an address waits, credentials that
        # were valid before are served: many clients may share the address, of whom one guesses.
        self.wrong = Rate(1 / _FORGIVEN_SECONDS, _MOST_WRONG, longest_delay=_LONGEST_PAUSE)
        self._database = Database(database, node_caller())
        self._knows_certificates = settings.tls_client_ca is not None
        self._roles = SettingRoles(settings)
        self.jwts = JwtVerifier(settings, self._roles, begin)
        self._anonymous = Identity("anonymous", grants=self._roles.of("anonymous", {}))

    async def identify(self, request: web.Request) -> Identity:
        """The caller of a request.

        A token takes precedence over a certificate, since a client sends a token on purpose.

        Raises:
            Unauthenticated: the credential of the request is not valid.
            TooManyAttempts: too many wrong credentials came from the address of the request.
            IssuerAway: the keys of the provider cannot be read at the moment.
        """
        shown = request.headers.getall(hdrs.AUTHORIZATION, None)
        if shown is None:
            return self._without_token(request)
        if len(shown) == 1 and (known := self.remembered.find(shown[0])):
            return known
        token = _token_in(shown[0]) if len(shown) == 1 else None
        if token is None:
            raise unauthenticated(
                request,
                "its header Authorization is neither of the form Bearer TOKEN, nor Basic with a "
                "token as the password",
            )
        return await self._verify_anew(request, shown[0], token)

    async def _verify_anew(self, request: web.Request, shown: str, token: str) -> Identity:
        # Before the verification, so that guesses from a paused address cost no query.
        address = source_of(client_address(request))
        delay = self.wrong.delay(address)
        if delay > 0 and not self.remembered.was_right(shown):
            raise TooManyAttempts(request.path, seconds=math.ceil(delay), detail=_PAUSED)
        try:
            caller, seconds = await self._verify(request, token)
        except Unauthenticated:
            self.remembered.drop(shown)
            self.wrong.spend(address)
            if (delay := self.wrong.delay(address)) > 0:
                _log.warning("wrong_credentials", address=address, pause_seconds=math.ceil(delay))
            raise
        self.remembered.keep(shown, caller, seconds)
        return caller

    async def with_rules(self, identity: Identity) -> Identity:
        """The caller, with the current roles of the caller in groups."""
        return replace(identity, rules=await self.rules.of(identity.kind, identity.claims))

    def _without_token(self, request: web.Request) -> Identity:
        if self._knows_certificates and request.transport is not None:
            certificate = request.transport.get_extra_info("peercert")
            if certificate and (caller := caller_of(certificate, self._roles.rules["certificate"])):
                return caller
        return self._anonymous

    async def _verify(self, request: web.Request, token: str) -> tuple[Identity, float]:
        """The holder of a token, and the seconds until the token has to be verified again."""
        if is_own(token):
            holder = await caller_with(self._database, token)
            if holder is None:
                raise unauthenticated(request, _INVALID, token=True)
            return holder, _OWN_SECONDS
        try:
            caller, expiresat = await self.jwts.verify(token)
        except TokenInvalid as error:
            raise unauthenticated(request, str(error), token=True) from error
        return caller, min(expiresat - time.time(), _ISSUED_SECONDS)


def _token_in(header: str) -> str | None:
    """The token in a header `Authorization`, which may be the password of any user (RFC 7617).

    Many clients of schema registries know no other form.
    """
    scheme, _, token = header.partition(" ")
    if scheme.lower() == "basic":
        try:
            token = b64decode(token, validate=True).decode().partition(":")[2]
        except ValueError:
            return None
    elif scheme.lower() != "bearer":
        return None
    return token if _TOKEN.fullmatch(token) else None


AUTHENTICATION: web.AppKey[Authentication] = web.AppKey("authentication", Authentication)
