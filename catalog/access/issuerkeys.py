"""The keys of an OpenID Connect provider, found by discovery, cached and refreshed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from catalog.access.issuerdocuments import IssuerUnusable, read_discovery, read_document
from catalog.http.outbound import open_session
from catalog.model.concorderrors import IssuerAway
from catalog.model.masking import described
from catalog.settings import Settings

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
