"""Verifies JSON Web Tokens of OpenID Connect providers (RFC 9068, RFC 8725)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from joserfc import jws
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jws import JWSRegistry
from joserfc.jwt import JWTClaimsRegistry

from catalog.access.identity import Identity
from catalog.access.issuerkeys import Begin, IssuerKeys
from catalog.config import Settings
from catalog.model.rolerules import RoleRule, grants_from

# The types of access tokens: RFC 9068, and the types that older providers write.
_TYPES = frozenset({"at+jwt", "application/at+jwt", "jwt", "application/jwt"})
_LONGEST_NAME = 512


class TokenInvalid(Exception):
    """A token is not valid; the text gives the reason."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """The caller whom a token identifies, and the end of the token in seconds since 1970."""

    identity: Identity
    expiresat: float


class JwtVerifier:
    """Verifies tokens by the keys of the issuers in the settings."""

    def __init__(self, settings: Settings, begin: Begin) -> None:
        self._issuers = {
            issuer: IssuerKeys(issuer, settings, begin) for issuer in settings.oidc_issuers
        }
        self._rules = tuple(map(RoleRule.parse, settings.oidc_roles))
        self._algorithms = settings.token_algorithms
        # RFC 7515, 4: unknown members are ignored, except for members in `crit`.
        self._registry = JWSRegistry(algorithms=self._algorithms, strict_check_header=False)
        self._claims = JWTClaimsRegistry(
            leeway=int(settings.oidc_leeway_seconds),
            exp={"essential": True},
            sub={"essential": True},
            aud={"essential": True, "values": [*settings.oidc_audiences]},
        )

    async def verify(self, text: str) -> VerifiedToken:
        """Verify a token.

        Raises:
            TokenInvalid
            IssuerAway: the keys of the issuer are not known.
        """
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
        return self._verified(claims)

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

    def _verified(self, claims: dict[str, Any]) -> VerifiedToken:
        """The caller, from the claims of a token whose signature is valid.

        Only the errors of a signed token name the faulty claim.
        """
        try:
            self._claims.validate(claims)
        except ExpiredTokenError as error:
            raise TokenInvalid("the token has expired") from error
        except (JoseError, TypeError, OverflowError) as error:
            claim = getattr(error, "claim", "") or "a claim"
            raise TokenInvalid(f"{claim} of the token is missing or not accepted here") from error
        # RFC 7800: the sender of a bound token has to prove possession of a key, which the node
        # does not check.
        if "cnf" in claims:
            raise TokenInvalid("the token is bound to a key (cnf), which is not supported")
        subject = str(claims["sub"])
        if not 0 < len(subject) <= _LONGEST_NAME:
            raise TokenInvalid("the subject of the token is too long")
        grants = grants_from(self._rules, claims)
        identity = Identity("jwt", subject, str(claims["iss"]), grants, claims)
        return VerifiedToken(identity, float(min(claims["exp"], time.time() + _A_DAY)))


_A_DAY = 24 * 3600
