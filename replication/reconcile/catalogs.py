"""The catalogs under comparison: what each says of itself, of its links and of its buckets."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from typing import Any
from urllib.parse import urlsplit

import orjson

from catalog.model.digest import DIGEST_VERSION
from replication.reconcile.errors import ReconcileError
from replication.reconcile.ranges import Fingerprints
from replication.reconcile.remote import Remote

MOST_CATALOGS = 62
"""A row's mask of the catalogs that should carry it is one signed 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogInput:
    """One catalog as the operator names it.

    `token` is sent as a bearer token; it needs the role replicator.
    """

    name: str
    url: str
    token: str | None = field(default=None, repr=False)

    @classmethod
    def parse(cls, text: str) -> CatalogInput:
        """Read `NAME=URL`.

        Raises:
            ReconcileError: there is no name, or the URL is not one of HTTP.
        """
        name, _, url = text.partition("=")
        if not name or urlsplit(url).scheme not in ("http", "https"):
            raise ReconcileError(
                f"{text!r} does not name a catalog.",
                "Write NAME=URL, for instance eu=https://eu.example.com.",
            )
        return cls(name=name, url=url)

    @property
    def remote(self) -> Remote:
        return Remote(name=self.name, url=self.url.rstrip("/"), token=self.token)


def parse_inputs(catalogs: Iterable[str], tokens: Iterable[str]) -> list[CatalogInput]:
    """Read each `NAME=URL`, and the token of each catalog that a `NAME=VARIABLE` names.

    Raises:
        ReconcileError: a text is malformed, or the environment lacks a variable.
    """
    inputs = [CatalogInput.parse(text) for text in catalogs]
    variables = dict(text.partition("=")[::2] for text in tokens)
    if unknown := variables.keys() - {given.name for given in inputs}:
        raise ReconcileError(
            f"There is a token for {min(unknown)!r}, and no catalog of that name.",
            "Write NAME=VARIABLE, with the name of a given catalog.",
        )
    return [
        replace(given, token=_token(variables[given.name])) if given.name in variables else given
        for given in inputs
    ]


def _token(variable: str) -> str:
    if variable not in os.environ:
        raise ReconcileError(
            f"There is no environment variable {variable!r}.", "Set it to the catalog's token."
        )
    return os.environ[variable]


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLink:
    """A flow into the catalog `target`, or out of `source`, as one of the two reports it."""

    source: str
    target: str
    authorities: tuple[str, ...]
    scope: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """One catalog at the time it was first asked. `as_of` is its cursor then, if it told."""

    name: str
    url: str
    token: str | None = field(default=None, repr=False)
    authority: str
    instance: str
    links: tuple[CatalogLink, ...]
    fingerprints: Fingerprints = field(repr=False)
    as_of: str | None = None

    @property
    def remote(self) -> Remote:
        return Remote(name=self.name, url=self.url, token=self.token)

    @property
    def entities(self) -> int:
        """How many live entities it holds by its own count."""
        return sum(count for count, _ in self.fingerprints.values())


def survey(inputs: Sequence[CatalogInput]) -> list[Catalog]:
    """Ask every catalog who it is and what it holds, all at once, in the given order.

    Raises:
        ReconcileError: a catalog can't be read, or they can't be compared with each other.
    """
    _check_inputs(inputs)
    with ThreadPoolExecutor(max_workers=min(16, len(inputs))) as pool:
        catalogs = list(pool.map(_ask, inputs))
    _check_identities(catalogs)
    return catalogs


def _ask(given: CatalogInput) -> Catalog:
    remote = given.remote
    handshake = remote.get_json("/replication")
    links = remote.get_json("/replication/links")
    as_of, buckets = remote.get("/replication/digests", {}, _with_cursor)
    try:
        _check_version(given.name, handshake["digestversion"], buckets["digestversion"])
        return Catalog(
            name=given.name,
            url=given.url.rstrip("/"),
            token=given.token,
            authority=handshake["authority"],
            instance=handshake["instance"],
            links=tuple(_link(link, given.url) for link in links["links"]),
            fingerprints={bucket: (count, xor) for bucket, count, xor in buckets["buckets"]},
            as_of=as_of,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ReconcileError(
            f"Catalog {given.name} describes itself in a way that this job can't read: {error!r}.",
            "Check that both run versions of Concord that belong together.",
        ) from error


def _with_cursor(response: HTTPResponse) -> tuple[str | None, Any]:
    return response.headers.get("Concord-Cursor"), orjson.loads(response.read())


def _link(link: Mapping[str, Any], listed_by: str) -> CatalogLink:
    return CatalogLink(
        source=link.get("source") or listed_by,
        target=link.get("target") or listed_by,
        authorities=tuple(link.get("authorities") or ()),
        scope=tuple(link.get("scope") or ()),
    )


def _check_inputs(inputs: Sequence[CatalogInput]) -> None:
    names = [given.name for given in inputs]
    if len(set(names)) < len(names):
        raise ReconcileError(
            f"Two catalogs have the same name: {', '.join(names)}.", "Give each its own name."
        )
    if not 2 <= len(inputs) <= MOST_CATALOGS:
        raise ReconcileError(
            f"{len(inputs)} catalogs were given.",
            f"Give at least two and at most {MOST_CATALOGS}.",
        )


def _check_version(name: str, *versions: int) -> None:
    for version in versions:
        if version != DIGEST_VERSION:
            raise ReconcileError(
                f"Catalog {name} computes digests of version {version}, "
                f"this job compares version {DIGEST_VERSION}.",
                "Bring both to the same version of Concord first.",
            )


def _check_identities(catalogs: Sequence[Catalog]) -> None:
    seen: dict[str, Catalog] = {}
    for catalog in catalogs:
        for identity in {catalog.authority, catalog.instance}:
            if identity in seen:
                raise ReconcileError(
                    f"Catalogs {seen[identity].name} and {catalog.name} are both {identity}.",
                    "Give every catalog once, and every catalog its own public URL.",
                )
            seen[identity] = catalog
