"""The one table of what each path needs of its caller.

A path that it lacks is for administrators only; a test fails for every route without a line here.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from aiohttp import hdrs, web

from catalog.http.etag import READING
from catalog.roles import Permission


class Anyone(Enum):
    """The demand on callers that need no role."""

    UNASKED = "its answer is for everybody, or the request has a secret of its own"
    TOLD = "whoever it is, a credential that is shown has to be valid"


Need = Permission | Anyone


class PathNeeds(NamedTuple):
    """The need of the reading methods of a path (GET, HEAD), and that of all others.

    A path without others has the same need for them, so that its refusal of a method tells no more.
    """

    reads: Need
    writes: Need


def _same(need: Need) -> PathNeeds:
    return PathNeeds(need, need)


_READ = _same(Permission.READ)
_READ_WRITE = PathNeeds(Permission.READ, Permission.WRITE)
_CONFIGURE = PathNeeds(Permission.READ, Permission.ADMINISTER)
_SUBSCRIBE = _same(Permission.SUBSCRIBE)
_FOLLOW = _same(Permission.FOLLOW)
_PUSH = _same(Permission.PUSH)
_REPLICATE = _same(Permission.REPLICATE)
_GRANT = _same(Permission.GRANT)
_ADMINISTER = _same(Permission.ADMINISTER)
_REPLICATE_ADMINISTER = PathNeeds(Permission.REPLICATE, Permission.ADMINISTER)
_UNASKED = _same(Anyone.UNASKED)

_ENTITIES = "/{path}"
_SHORT = "/~{key}{below}"
_MESSAGE = "/validate/{groups}/{{{group}id}}/messages/{{messageid}}"
_OF_GROUPS = _MESSAGE.format(groups="messagegroups", group="messagegroup")
_OF_ENDPOINTS = _MESSAGE.format(groups="endpoints", group="endpoint")
_SUBSCRIPTION = "/subscriptions/{id}"
_GROUP = "/messagecatalog/{group}"
_DEFINITION = f"{_GROUP}/messagedefinitions/{{definition}}"
_GROUPS04 = "/registry/0.4/{groups}"
_RESOURCE04 = f"{_GROUPS04}/{{gid}}/{{resources}}/{{rid}}"

NEEDS: Mapping[str, PathNeeds] = {
    # The native API. A change of the configuration within a PUT of the registry is told by its
    # body only: `answer_write` asks for the permission itself.
    _ENTITIES: _READ_WRITE,
    # It redirects any method; the request that follows is decided about by itself.
    _SHORT: _READ,
    "/model": _READ,
    "/modelsource": _CONFIGURE,
    "/capabilities": _CONFIGURE,
    "/capabilitiesoffered": _READ,
    "/export": _READ,
    "/.well-known/xregistry": _READ,
    "/.xregistry": _READ,
    "/openapi.json": _READ,
    "/apply": _READ_WRITE,
    # These check what is sent to them, and write nothing.
    _OF_GROUPS: _READ,
    f"{_OF_GROUPS}/versions/{{versionid}}": _READ,
    _OF_ENDPOINTS: _READ,
    f"{_OF_ENDPOINTS}/versions/{{versionid}}": _READ,
    # The dialects.
    "/services": _READ_WRITE,
    "/services/{id}": _READ_WRITE,
    "/services/requests/{id}": _READ,
    "/messagecatalog": _READ,
    "/messagecatalog/": _READ,
    _GROUP: _READ_WRITE,
    f"{_GROUP}/messagedefinitions": _READ_WRITE,
    f"{_GROUP}/messagedefinitions/": _READ_WRITE,
    _DEFINITION: _READ_WRITE,
    f"{_DEFINITION}/versions": _READ_WRITE,
    f"{_DEFINITION}/versions/{{version}}": _READ_WRITE,
    "/messagedefinition": _READ,
    "/registry/0.4": _READ,
    "/registry/0.4/": _READ,
    _GROUPS04: _READ_WRITE,
    f"{_GROUPS04}/{{gid}}": _READ_WRITE,
    f"{_GROUPS04}/{{gid}}/{{resources}}": _READ_WRITE,
    _RESOURCE04: _READ_WRITE,
    f"{_RESOURCE04}/versions": _READ_WRITE,
    f"{_RESOURCE04}/versions/{{vid}}": _READ_WRITE,
    # Subscriptions.
    "/subscriptions": _SUBSCRIBE,
    _SUBSCRIPTION: _SUBSCRIBE,
    # The sink's answer to a request for its consent, with a secret that only the sink was told.
    f"{_SUBSCRIPTION}/consent": _UNASKED,
    f"{_SUBSCRIPTION}/signingkeys": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/signingkeys/{{key}}": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/pause": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/resume": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/replay": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/test": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/attempts": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/deadletters": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/deadletters/redeliver": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/deadletters/{{number}}": _SUBSCRIBE,
    f"{_SUBSCRIPTION}/deadletters/{{number}}/redeliver": _SUBSCRIBE,
    # Replication. Who may do so in some groups only reads the copies of these, and pushes only to
    # these. A repair has the node fetch again what its links bring anyway.
    "/replication": _FOLLOW,
    "/replication/changes": _FOLLOW,
    "/replication/snapshot": _FOLLOW,
    "/replication/digests": _FOLLOW,
    "/replication/fetch": _FOLLOW,
    "/replication/repair": _REPLICATE,
    "/replication/entities": _PUSH,
    "/replication/keys": PathNeeds(Permission.FOLLOW, Permission.PUSH),
    "/replication/signatures": _FOLLOW,
    # Whoever compares catalogs says what was found.
    "/replication/reconciliations": _REPLICATE,
    # A comparison of catalogs reads which links they have.
    "/replication/links": _REPLICATE_ADMINISTER,
    "/replication/links/{id}": _REPLICATE_ADMINISTER,
    "/replication/links/{id}/pin": _ADMINISTER,
    "/replication/links/{id}/reset": _ADMINISTER,
    "/replication/links/{id}/pause": _ADMINISTER,
    "/replication/links/{id}/resume": _ADMINISTER,
    "/replication/links/{id}/run": _ADMINISTER,
    "/replication/links/{id}/allow": _ADMINISTER,
    "/replication/links/{id}/conflicts": _ADMINISTER,
    "/replication/acceptances": _ADMINISTER,
    "/replication/acceptances/{id}": _ADMINISTER,
    "/replication/recovery": _ADMINISTER,
    "/replication/recovery/resume": _ADMINISTER,
    "/replication/recovery/bury": _ADMINISTER,
    "/replication/recovery/findings": _ADMINISTER,
    "/replication/handovers": _ADMINISTER,
    # The other side of a handover, which its operator has named, asks these. Nobody else but
    # administrators learns its id.
    "/replication/handovers/{id}": _REPLICATE,
    "/replication/handovers/consent": _REPLICATE,
    "/replication/handovers/offers": _REPLICATE,
    "/replication/handovers/{id}/copies": _REPLICATE,
    "/replication/signing": _REPLICATE_ADMINISTER,
    "/replication/signing/rotate": _ADMINISTER,
    "/replication/trust": _ADMINISTER,
    # Events of other catalogs are hints: they wake a link, and their content is not read.
    "/notifications": _UNASKED,
    # Watching. What probes are told, they may be told without a credential.
    "/metrics": _READ,
    "/health/live": _UNASKED,
    "/health/ready": _UNASKED,
    # Access itself.
    "/access/whoami": _same(Anyone.TOLD),
    "/access/tokens": _ADMINISTER,
    "/access/tokens/{id}": _ADMINISTER,
    "/access/rules": _GRANT,
    "/access/rules/{id}": _GRANT,
    "/audit": _ADMINISTER,
}


def need_of(request: web.Request) -> Need:
    """The need of a request.

    OPTIONS tells methods only, and browsers send it without a credential (Fetch, 4.8).
    """
    if request.method == hdrs.METH_OPTIONS:
        return Anyone.UNASKED
    resource = request.match_info.route.resource
    needs = _ADMINISTER if resource is None else NEEDS.get(resource.canonical, _ADMINISTER)
    return needs.reads if request.method in READING else needs.writes
