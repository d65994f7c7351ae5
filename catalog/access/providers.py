"""OpenID Connect providers: documents, keys, and the verification of signed tokens.

Tokens are verified by RFC 9068 and RFC 8725."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import structlog
from joserfc import jws
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from catalog.access.identity import Identity
from catalog.access.rolerules import SettingRoles
from catalog.client.connection import read_limited
from catalog.client.errors import ResponseTooLarge
from catalog.http.allowedaddresses import why_endpoint_refused
from catalog.http.outboundconnections import open_session
from catalog.model.concorderrors import IssuerAway
from catalog.model.masking import described
from catalog.settings import Settings

_DISCOVERY = "/.well-known/openid-configuration"
_LARGEST_ANSWER = 256 * 1024
_log = structlog.get_logger()
_MOST_KEYS = 100
_FETCH_SECONDS = 5.0
# Older keys are refreshed in the background; requests are meanwhile verified by the known keys.
_FRESH_SECONDS = 600.0
# Older keys are not used: the unreachable provider may have withdrawn them.
_LONGEST_SECONDS = 24 * 3600.0
# The least time between two reads, so that invented key ids do not make the node flood a provider.
_PAUSE_SECONDS = 30.0
_LEAST_RSA_BITS = 2048
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "Ed25519": "Ed25519"}
SigningKey = RSAKey | ECKey | OKPKey
Begin = Callable[[Coroutine[Any, Any, None]], None]
# The types of access tokens: RFC 9068, and the types that older providers write.
_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt", "application/jwt"})
_LONGEST_NAME = 512
_A_DAY = 24 * 3600


class IssuerUnusable(Exception):
    """An answer of a provider cannot be used; the text gives the reason."""


async def read_discovery(
    session: aiohttp.ClientSession, issuer: str, settings: Settings
) -> Mapping[str, Any]:
    """Read the metadata of a provider (OpenID Connect Discovery, section 4).

    Raises:
        IssuerUnusable: the metadata cannot be used; and the errors of aiohttp.
    """
    found = await read_document(session, issuer.rstrip("/") + _DISCOVERY, settings)
    # Section 4.3: otherwise a provider could impersonate this provider.
    if found.get("issuer") != issuer:
        raise IssuerUnusable("its discovery document is another issuer's")
    return found


async def read_document(
    session: aiohttp.ClientSession, url: str, settings: Settings
) -> Mapping[str, Any]:
    """Read a JSON object; the errors are those of `read_discovery`."""
    if refusal := why_endpoint_refused(url, settings):
        raise IssuerUnusable(f"{url}: {refusal}")
    async with session.get(url, headers={"Accept": "application/json"}) as response:
        response.raise_for_status()
        return await object_in(response)


async def object_in(response: aiohttp.ClientResponse) -> Mapping[str, Any]:
    """The JSON object that a response has.

    Raises:
        IssuerUnusable: the response is too large, or has no JSON object.
    """
    try:
        document = orjson.loads(await read_limited(response, _LARGEST_ANSWER))
    except ResponseTooLarge as error:
        raise IssuerUnusable(f"{response.url} has more than {_LARGEST_ANSWER} bytes") from error
    except orjson.JSONDecodeError as error:
        raise IssuerUnusable(f"{response.url} is no JSON") from error
    if not isinstance(document, dict):
        raise IssuerUnusable(f"{response.url} is no JSON object")
    return document


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of a provider, with the algorithm that the provider names for it."""

    id: str | None
    algorithm: str | None
    key: SigningKey

    def fits(self, id: str | None, algorithm: str) -> bool:
        """Whether the key may verify a token with a key id and an algorithm."""
        if id not in (None, self.id) or self.algorithm not in (None, algorithm):
            return False
        if algorithm in _CURVES:
            is_kind = isinstance(self.key, ECKey | OKPKey)
            return is_kind and self.key.get("crv") == _CURVES[algorithm]
        return isinstance(self.key, RSAKey)


class IssuerKeys:
    """The keys of one provider.

    The keys are read when the first token comes, in the background when the keys are old, and at
    once when a token names an unknown key: at most once in half a minute.

    Args:
        issuer: the provider, as the claim `iss` names it.
        begin: runs a task in the background.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        issuer: str,
        settings: Settings,
        begin: Begin,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.issuer = issuer
        self._settings = settings
        self._begin = begin
        self._clock = clock
        self._keys: tuple[IssuerKey, ...] = ()
        self._read_at: float | None = None
        self._tried_at: float | None = None
        self._turn = asyncio.Lock()

    async def find(self, id: str | None, algorithm: str) -> SigningKey | None:
        """The key with an id, for an algorithm; `None` unless the provider has exactly one.

        Raises:
            IssuerAway: the known keys are too old, or no keys are known.
        """
        now = self._clock()
        if self._read_at is None or now - self._read_at > _LONGEST_SECONDS:
            await self._read()
            if self._read_at is None or self._clock() - self._read_at > _LONGEST_SECONDS:
                raise IssuerAway(issuer=self.issuer)
        elif now - self._read_at > _FRESH_SECONDS and self._may_try():
            self._begin(self._read())
        found = self._fitting(id, algorithm)
        if not found and self._may_try():
            await self._read()
            found = self._fitting(id, algorithm)
        return found[0].key if len(found) == 1 else None

    def _fitting(self, id: str | None, algorithm: str) -> list[IssuerKey]:
        return [each for each in self._keys if each.fits(id, algorithm)]

    def _may_try(self) -> bool:
        return self._tried_at is None or self._clock() - self._tried_at >= _PAUSE_SECONDS

    async def _read(self) -> None:
        """Read the keys, unless a concurrent request just tried; a failure keeps the old keys."""
        async with self._turn:
            if not self._may_try():
                return
            # Set before the fetch, since a failed fetch has to start the pause, too.
            self._tried_at = self._clock()
            try:
                keys = await self._fetch()
            except (IssuerUnusable, aiohttp.ClientError, OSError, ValueError) as error:
                _log.warning("keys not read", issuer=self.issuer, cause=described(error))
                return
            self._keys, self._read_at = keys, self._clock()
            _log.info("keys read", issuer=self.issuer, keys=[each.id for each in keys])

    async def _fetch(self) -> tuple[IssuerKey, ...]:
        async with open_session(self._settings, total_seconds=_FETCH_SECONDS) as session:
            found = await read_discovery(session, self.issuer, self._settings)
            address = found.get("jwks_uri")
            if not isinstance(address, str):
                raise IssuerUnusable("its discovery document names no keys")
            document = await read_document(session, address, self._settings)
        listed = document.get("keys")
        if not isinstance(listed, list):
            raise IssuerUnusable("its keys are no list")
        keys = tuple(_usable(listed[:_MOST_KEYS]))
        if not keys:
            raise IssuerUnusable("none of its keys can verify a token")
        return keys


def _usable(listed: Iterable[Any]) -> Iterator[IssuerKey]:
    """The usable public keys for signatures; skips keys for other uses and of unknown kinds."""
    for given in listed:
        if not isinstance(given, dict) or given.get("use", "sig") != "sig":
            continue
        # Symmetric keys must never verify a token: a published symmetric key lets everybody sign.
        if given.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        id, algorithm = given.get("kid"), given.get("alg")
        if not (isinstance(id, str | None) and isinstance(algorithm, str | None)):
            continue
        try:
            key = JWKRegistry.import_key({**given})
            # The library parses the numbers of a key at its first use: faulty numbers fail here.
            public = key.public_key
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_RSA_BITS:
            continue
        if isinstance(key, SigningKey) and public is not None:
            yield IssuerKey(id, algorithm, key)


class TokenInvalid(Exception):
    """A token is not valid; the text gives the reason."""


class JwtVerifier:
    """Verifies tokens by the keys of the issuers in the settings."""

    def __init__(self, settings: Settings, roles: SettingRoles, begin: Begin) -> None:
        self._issuers = {
            issuer: IssuerKeys(issuer, settings, begin) for issuer in settings.oidc_issuers
        }
        self._roles = roles
        self._algorithms = settings.token_algorithms
        # RFC 7515, 4: unknown members are ignored, except for members in `crit`.
        self._registry = JWSRegistry(algorithms=self._algorithms, strict_check_header=False)
        self._leeway = int(settings.oidc_leeway_seconds)
        self._claims = JWTClaimsRegistry(
            leeway=self._leeway,
            exp={"essential": True},
            sub={"essential": True},
            aud={"essential": True, "values": [*settings.oidc_audiences]},
        )

    async def verify(self, text: str) -> tuple[Identity, float]:
        """The caller whom a token identifies, and the end of the token in seconds since 1970.

        Raises:
            TokenInvalid
            IssuerAway: the keys of the issuer are not known.
        """
        return self._verified(await self._signed_claims(text))

    async def verify_id_token(self, text: str, *, issuer: str, client: str, nonce: str) -> None:
        """Verify the ID token of a log-in (OpenID Connect Core, 3.1.3.7).

        Args:
            issuer: the provider that was asked.
            client: the id of the node as a client of the provider.
            nonce: the value that the log-in began with.

        Raises:
            TokenInvalid
            IssuerAway: the keys of the issuer are not known.
        """
        claims = await self._signed_claims(text)
        wanted = JWTClaimsRegistry(
            leeway=self._leeway,
            iss={"essential": True, "value": issuer},
            sub={"essential": True},
            exp={"essential": True},
            aud={"essential": True, "value": client},
            nonce={"essential": True, "value": nonce},
        )
        self._check(wanted, claims)
        if claims.get("azp", client) != client:
            raise TokenInvalid("azp of the token is not accepted here")

    async def _signed_claims(self, text: str) -> dict[str, Any]:
        """The claims of a token that a known issuer has signed."""
        try:
            signed = jws.extract_compact(text.encode(), registry=self._registry)
            header, claims = signed.headers(), orjson.loads(signed.payload)
        # Deeply nested JSON exhausts the recursion of the parser.
        except (JoseError, ValueError, TypeError, AttributeError, RecursionError) as error:
            raise TokenInvalid("the token is malformed") from error
        if not isinstance(header, dict) or not isinstance(claims, dict):
            raise TokenInvalid("the token is malformed")
        algorithm, id = self._checked_header(header)
        issuer = claims.get("iss")
        keys = self._issuers.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise TokenInvalid("the token is of no issuer that is known here")
        key = await keys.find(id, algorithm)
        try:
            is_signed = key is not None and jws.validate_compact(
                signed, key, algorithms=self._algorithms, registry=self._registry
            )
        except (JoseError, ValueError, TypeError) as error:
            raise TokenInvalid("the signature of the token is not valid") from error
        if not is_signed:
            raise TokenInvalid("the signature of the token is not valid")
        return claims

    def _checked_header(self, header: Mapping[str, Any]) -> tuple[str, str | None]:
        """The algorithm and the id of the key."""
        algorithm, id, kind = header.get("alg"), header.get("kid"), header.get("typ", "JWT")
        if algorithm not in self._algorithms or "crit" in header:
            raise TokenInvalid("the token is signed in a way that is not accepted here")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise TokenInvalid("the token is of another type than one for access")
        if not isinstance(id, str | None):
            raise TokenInvalid("the token is malformed")
        return str(algorithm), id

    @staticmethod
    def _check(wanted: JWTClaimsRegistry, claims: dict[str, Any]) -> None:
        try:
            wanted.validate(claims)
        except ExpiredTokenError as error:
            raise TokenInvalid("the token has expired") from error
        except (JoseError, TypeError, OverflowError) as error:
            claim = getattr(error, "claim", "") or "a claim"
            raise TokenInvalid(f"{claim} of the token is missing or not accepted here") from error

    def _verified(self, claims: dict[str, Any]) -> tuple[Identity, float]:
        """The caller, from the claims of a token whose signature is valid.

        Only the errors of a signed token name the faulty claim.
        """
        self._check(self._claims, claims)
        # RFC 7800: the sender of a bound token has to prove possession of a key, which the node
        # does not check.
        if "cnf" in claims:
            raise TokenInvalid("the token is bound to a key (cnf), which is not supported")
        subject = str(claims["sub"])
        if not 0 < len(subject) <= _LONGEST_NAME:
            raise TokenInvalid("the subject of the token is too long")
        grants = self._roles.of("jwt", claims)
        identity = Identity("jwt", subject, str(claims["iss"]), grants, claims)
        return identity, float(min(claims["exp"], time.time() + _A_DAY))
