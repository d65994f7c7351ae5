"""The keys of an OpenID Connect provider: found by discovery, kept, and read again in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from catalog.client.connection import read_limited
from catalog.client.errors import ResponseTooLarge
from catalog.config import Settings
from catalog.http.outbound import open_session
from catalog.http.outboundaddress import why_endpoint_refused
from catalog.model.concorderrors import IssuerAway
from catalog.model.masking import described

_log = structlog.get_logger()

_DISCOVERY = "/.well-known/openid-configuration"
_LARGEST_ANSWER = 256 * 1024
_MOST_KEYS = 100
_FETCH_SECONDS = 5.0
# After so long, the keys are read again beside the requests, which go on with those that are known.
_FRESH_SECONDS = 600.0
# A provider that cannot be reached for so long may have withdrawn any of them.
_LONGEST_SECONDS = 24 * 3600.0
# Whoever invents key ids has the keys read no more often.
_PAUSE_SECONDS = 30.0
_LEAST_RSA_BITS = 2048
_CURVES = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521", "Ed25519": "Ed25519"}

SigningKey = RSAKey | ECKey | OKPKey
Begin = Callable[[Coroutine[Any, Any, None]], None]


class _Unusable(Exception):
    """An answer of the provider cannot be used, for the reason that the text gives."""


@dataclass(frozen=True, slots=True)
class IssuerKey:
    """A public key of a provider, with what the provider says it is for."""

    id: str | None
    algorithm: str | None
    key: SigningKey

    def fits(self, id: str | None, algorithm: str) -> bool:
        """Whether a token with this key id may be signed by this key in this way."""
        if id not in (None, self.id) or self.algorithm not in (None, algorithm):
            return False
        if algorithm in _CURVES:
            is_kind = isinstance(self.key, ECKey | OKPKey)
            return is_kind and self.key.get("crv") == _CURVES[algorithm]
        return isinstance(self.key, RSAKey)


class IssuerKeys:
    """The keys of one provider.

    They are read when the first token comes, in the background when they are old, and at once when
    a token names a key that is not known: at most once in half a minute.

    Args:
        issuer: as the claim `iss` names it.
        begin: runs a task beside the requests.
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
        """The key with an id, for an algorithm; `None` if the provider has none, or several.

        Raises:
            IssuerAway: no keys of the provider are known that are not too old.
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
        """Read the keys, unless another request has just tried; a failure leaves those before."""
        async with self._turn:
            if not self._may_try():
                return
            self._tried_at = self._clock()
            try:
                keys = await self._fetch()
            except (_Unusable, aiohttp.ClientError, OSError, ValueError) as error:
                _log.warning("keys not read", issuer=self.issuer, cause=described(error))
                return
            self._keys, self._read_at = keys, self._clock()
            _log.info("keys read", issuer=self.issuer, keys=[each.id for each in keys])

    async def _fetch(self) -> tuple[IssuerKey, ...]:
        async with open_session(self._settings, total_seconds=_FETCH_SECONDS) as session:
            found = await self._document(session, self.issuer.rstrip("/") + _DISCOVERY)
            # OpenID Connect Discovery, 4.3: else another provider could speak for this one.
            if found.get("issuer") != self.issuer:
                raise _Unusable("its discovery document is another issuer's")
            address = found.get("jwks_uri")
            if not isinstance(address, str):
                raise _Unusable("its discovery document names no keys")
            document = await self._document(session, address)
        listed = document.get("keys")
        if not isinstance(listed, list):
            raise _Unusable("its keys are no list")
        keys = tuple(_usable(listed[:_MOST_KEYS]))
        if not keys:
            raise _Unusable("none of its keys can verify a token")
        return keys

    async def _document(self, session: aiohttp.ClientSession, url: str) -> Mapping[str, Any]:
        if refusal := why_endpoint_refused(url, self._settings):
            raise _Unusable(f"{url}: {refusal}")
        async with session.get(url, headers={"Accept": "application/json"}) as response:
            response.raise_for_status()
            try:
                document = orjson.loads(await read_limited(response, _LARGEST_ANSWER))
            except ResponseTooLarge as error:
                raise _Unusable(f"{url} has more than {_LARGEST_ANSWER} bytes") from error
        if not isinstance(document, dict):
            raise _Unusable(f"{url} is no JSON object")
        return document


def _usable(listed: Iterable[Any]) -> Iterator[IssuerKey]:
    """The public keys for signatures; others, and those of a kind not known here, are left out."""
    for given in listed:
        if not isinstance(given, dict) or given.get("use", "sig") != "sig":
            continue
        # Symmetric keys, of all things, must never verify what the public ones stand for.
        if given.get("kty") not in ("RSA", "EC", "OKP"):
            continue
        id, algorithm = given.get("kid"), given.get("alg")
        if not (isinstance(id, str | None) and isinstance(algorithm, str | None)):
            continue
        try:
            key = JWKRegistry.import_key({**given})
            # The key is made of its numbers when it is first used.
            public = key.public_key
        except (JoseError, ValueError, TypeError, KeyError):
            continue
        if isinstance(key, RSAKey) and key.public_key.key_size < _LEAST_RSA_BITS:
            continue
        if isinstance(key, SigningKey) and public is not None:
            yield IssuerKey(id, algorithm, key)
