"""The bodies of replication's HTTP API, and their checks."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
)

from catalog.http.body import read_json
from catalog.model.authoritykey import PublicKey
from catalog.model.errors import (
    InvalidAttribute,
    RequiredAttributeMissing,
    UnknownAttribute,
    XRegistryError,
    with_violations,
)
from catalog.model.linkterms import is_authority, is_label, is_scope, is_type
from catalog.model.peercredential import PeerCredential
from catalog.model.xid import is_valid_id
from catalog.store.links import RELAY, TRUST_FIRST, Dialect, LinkDefinition
from replication.addresses import why_no_rules
from replication.credentials.wire import CredentialBody, Token
from replication.mapping import why_no_names, write_names
from replication.topicaddress import SCHEMES

_MOST_NAMED = 100
_ID = re.compile(r"[A-Za-z0-9_][A-Za-z0-9\-._~]{0,127}")


def _check_source(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme in SCHEMES:
        return url
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("it needs to be the http or https URL of a catalog")
    if parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError("it must have no query, fragment or user")
    return url.rstrip("/")


def _check_scope(path: str) -> str:
    if not is_scope(path):
        raise ValueError("it needs to be the path of an entity or collection, as /messagegroups/g")
    return path


def _check_label(text: str) -> str:
    if not is_label(text):
        raise ValueError("it needs to be a label, as name or name=value")
    return text


def _check_type(text: str) -> str:
    if not is_type(text):
        raise ValueError("it needs to be a type, as endpoints or messagegroups/messages")
    return text


def _check_prefix(text: str) -> str:
    if text and not is_valid_id(text):
        raise ValueError("it needs to be the beginning of an id, as eu-")
    return text


def _check_names(names: dict[str, str]) -> dict[str, str]:
    if fault := why_no_names(names):
        raise ValueError(fault)
    return names


def _check_addresses(rules: dict[str, str]) -> dict[str, str]:
    if fault := why_no_rules(rules):
        raise ValueError(fault)
    return rules


def _check_id(id: str) -> str:
    if not _ID.fullmatch(id):
        raise ValueError("it needs to be 1 to 128 letters, digits or - . _ ~")
    return id


def _check_authority(authority: str) -> str:
    if not is_authority(authority):
        raise ValueError("it needs to be an absolute URI")
    return authority


def _check_key(text: str) -> str:
    return str(PublicKey.parse(text))


def _check_trust(text: str) -> str:
    return text if text == TRUST_FIRST else _check_key(text)


def _check_authorities(authorities: list[str]) -> list[str]:
    if "*" in authorities and authorities != list(RELAY):
        raise ValueError('"*" means all authorities, so it has to be alone')
    return authorities


_Text = Annotated[str, Field(min_length=1, max_length=1024)]
_Url = Annotated[_Text, AfterValidator(_check_source)]
_Authority = Annotated[str, AfterValidator(_check_authority)]
_Scope = Annotated[
    list[Annotated[_Text, AfterValidator(_check_scope)]], Field(max_length=_MOST_NAMED)
]


class _ClosedBody(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SelectionBody(_ClosedBody):
    """The selection of a link, with the names and addresses of what it brings.

    `LinkDefinition` explains the members; `map` and `addresses` are objects.
    """

    scope: _Scope = Field(default_factory=list)
    types: Annotated[
        list[Annotated[_Text, AfterValidator(_check_type)]], Field(max_length=_MOST_NAMED)
    ] = Field(default_factory=list)
    labels: Annotated[
        list[Annotated[_Text, AfterValidator(_check_label)]], Field(max_length=_MOST_NAMED)
    ] = Field(default_factory=list)
    prefix: Annotated[str, Field(max_length=64), AfterValidator(_check_prefix)] = ""
    names: Annotated[
        dict[str, str], Field(max_length=_MOST_NAMED, alias="map"), AfterValidator(_check_names)
    ] = Field(default_factory=dict)
    addresses: Annotated[
        dict[str, str], Field(max_length=_MOST_NAMED), AfterValidator(_check_addresses)
    ] = Field(default_factory=dict)

    @property
    def selection(self) -> dict[str, Any]:
        """The members of a definition."""
        return {
            "scope": tuple(self.scope),
            "types": tuple(self.types),
            "labels": tuple(self.labels),
            "prefix": self.prefix,
            "names": write_names(self.names),
            "addresses": write_names(self.addresses),
        }

    @property
    def given(self) -> dict[str, Any]:
        """Those of them that are in the body."""
        return {
            name: self.selection[name] for name in self.selection.keys() & self.model_fields_set
        }


class ChangeBody(SelectionBody):
    """`PATCH /replication/links/{id}`: also the credential that a link shows its peer, and the
    `source`, or of a link that pushes the `target`, that the same catalog has moved to.

    A `token` is short for a `credential` that is one; an empty one is none.
    """

    source: _Url | None = None
    target: _Url | None = None
    token: Token | None = None
    credential: CredentialBody | None = None

    def to_credential(self) -> PeerCredential | None:
        """The credential in the body, which may be empty; `None` if the body is not about it."""
        if self.credential is not None:
            return self.credential.to_credential()
        if self.token is None:
            return None
        return PeerCredential(token=self.token.get_secret_value())


class LinkBody(ChangeBody):
    """`POST /replication/links` and `PUT /replication/links/{id}`.

    A link of mode `push`, `publish` or `write` has a `target`, the others have a `source`; for
    `publish` and `kafka`, it is a topic, `kafka://HOST:PORT/TOPIC`. Without a mode, a new link
    walks a source that offers no replication. A link of mode `events` may be woken by a topic of
    events, `eventtopic`. `authority` is the one that this other catalog is
    pinned to; without it, a new link is pinned to the one that the catalog names first, and another
    one stays pinned as it is. `dialect` is for links that write. `trust` has keys of the authority
    that the link brings, or `first` for those that its source shows at the first contact.
    """

    id: Annotated[str, AfterValidator(_check_id)] | None = None
    mode: Literal["pull", "events", "push", "kafka", "publish", "walk", "write"] = "events"
    authority: _Authority | None = None
    authorities: Annotated[
        list[_Text], Field(max_length=_MOST_NAMED), AfterValidator(_check_authorities)
    ] = Field(default_factory=list)
    dialect: Dialect | None = None
    trust: Annotated[
        list[Annotated[_Text, AfterValidator(_check_trust)]], Field(max_length=_MOST_NAMED)
    ] = Field(default_factory=list)
    eventtopic: _Url | None = None

    def to_definition(self) -> LinkDefinition:
        return LinkDefinition(
            trust=tuple(self.trust),
            source=self.source or "",
            target=self.target or "",
            mode=self.mode,
            authorities=tuple(self.authorities),
            **self.selection,
            dialect=self.dialect,
            eventtopic=self.eventtopic or "",
        )


class AcceptanceBody(SelectionBody):
    """`POST /replication/acceptances`.

    `relays` are the authorities whose entities the pusher may bring besides its own.
    """

    id: Annotated[str, AfterValidator(_check_id)] | None = None
    authority: _Authority
    relays: Annotated[
        list[_Text], Field(max_length=_MOST_NAMED), AfterValidator(_check_authorities)
    ] = Field(default_factory=list)

    def to_definition(self) -> LinkDefinition:
        relays = tuple(self.relays)
        authorities = relays if relays in ((), RELAY) else (self.authority, *relays)
        return LinkDefinition(mode="accept", authorities=authorities, **self.selection)


class PinBody(_ClosedBody):
    """`POST /replication/links/{id}/pin`."""

    authority: _Authority


class AllowBody(_ClosedBody):
    """`POST /replication/links/{id}/allow`."""

    digest: str = Field(min_length=1, max_length=64)


class PauseBody(_ClosedBody):
    """`POST /replication/links/{id}/pause`."""

    reason: Annotated[str, Field(min_length=1, max_length=256)] | None = None


class ResetBody(_ClosedBody):
    """`POST /replication/links/{id}/reset`."""

    drop: bool = False
    full: bool = False
    authorities: list[_Text] = Field(default_factory=list, max_length=_MOST_NAMED)


# Every fault of a body is found at once.
_MOST_VALUES = 10_000

_Read = TypeVar("_Read", bound=BaseModel)


async def read_request(request: web.Request, body: type[_Read]) -> _Read:
    """Read and check the body of a request.

    Raises:
        XRegistryError: the first violation, with all of them in it; the errors of `read_json`.
    """
    data = await read_json(request, most_values=_MOST_VALUES)
    try:
        return body.model_validate(data)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False, include_context=False)
        found = [_violation(request.path, d["type"], d["loc"], d["msg"]) for d in details]
        raise with_violations(found) from error


def _violation(
    subject: str, kind: str, location: tuple[int | str, ...], message: str
) -> XRegistryError:
    name = ".".join(map(str, location)) or "body"
    if kind == "missing":
        return RequiredAttributeMissing(subject, list=name)
    if kind == "extra_forbidden":
        return UnknownAttribute(subject, name=name[:128])
    detail = message.removeprefix("Value error, ").rstrip(".")
    return InvalidAttribute(subject, name=name, error_detail=detail)
