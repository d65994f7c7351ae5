"""Reads the description of an xRegistry server: edition, capabilities and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from catalog.client import ClientError, JsonObject, Refused
from catalog.model.capabilities import SPECVERSION
from catalog.model.schema import STRICT_NAME, Model, ResourceType
from replication.peers.linkerrors import may_pass
from replication.readers.reader import NoCatalog, UnreadableType
from replication.readers.walkedserver import AnswerMalformed, WalkedServer

EDITIONS = (SPECVERSION, "1.0")
"""The editions of the standard whose servers can be walked."""
# Statuses of a server that does not offer a path.
_NOT_OFFERED = frozenset({400, 401, 403, 404, 405, 406, 410, 501})
_MOST_TYPES = 1000


class OtherEdition(ClientError):
    """The edition of an xRegistry server is not readable for this node."""


@dataclass(frozen=True, slots=True)
class ServerResourceType:
    """A type of resources at a server."""

    singular: str
    has_document: bool


@dataclass(frozen=True, slots=True)
class ServerGroupType:
    """A type of groups at a server, with its types of resources by their plural names."""

    singular: str
    resources: Mapping[str, ServerResourceType]


@dataclass(frozen=True, slots=True, kw_only=True)
class WalkedRegistry:
    """A registry as its server describes it.

    `counts` has the number of groups by type, as far as the server states the number. `types` has
    every type of groups. `readable` has the types of groups that this node can take over, each with
    its readable types of resources; `faults` has the unreadable types.
    """

    registryid: str
    edition: str
    epoch: int | None
    counts: Mapping[str, int]
    inlines: bool
    has_binary: bool
    has_doc: bool
    has_pages: bool
    has_export: bool
    types: Mapping[str, ServerGroupType]
    readable: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: tuple[UnreadableType, ...] = ()


async def describe_registry(server: WalkedServer, model: Model) -> WalkedRegistry:
    """Ask a server for its description, and compare its types with the model of this node.

    If the server has several editions, later requests ask for an edition that this node can read.

    Raises:
        NoCatalog
        OtherEdition
        ClientError: the server does not answer.
    """
    root = await _read_root(server)
    capabilities = await _optional(server, "/capabilities") or {}
    edition = _choose_edition(server, root, capabilities)
    if server.flags:
        root = await _read_root(server)
    flags = {each.lower() for each in _texts(capabilities.get("flags"))}
    server.has_pages = capabilities.get("pagination") is True
    types = _types_in(await _optional(server, "/model"), root, model)
    faults = list(_faults_of(types, model))
    epoch = root.get("epoch")
    faulty = {fault.path for fault in faults}
    return WalkedRegistry(
        registryid=str(root["registryid"])[:128],
        edition=edition,
        epoch=epoch if type(epoch) is int else None,
        counts={name: count for name in types if type(count := root.get(f"{name}count")) is int},
        inlines="inline" in flags,
        has_binary="binary" in flags,
        has_doc="doc" in flags,
        has_pages=server.has_pages,
        has_export=_offers_export(capabilities),
        types=types,
        readable={
            plural: tuple(each for each in kind.resources if f"/{plural}/*/{each}" not in faulty)
            for plural, kind in types.items()
            if f"/{plural}" not in faulty
        },
        faults=tuple(faults),
    )


async def _read_root(server: WalkedServer) -> JsonObject:
    try:
        root = (await server.read("/")).members
    except AnswerMalformed as error:
        raise NoCatalog(f"{server.url} is no xRegistry server.", error.message) from error
    except Refused as error:
        if may_pass(error):
            raise
        status = error.problem.status
        raise NoCatalog(f"{server.url} answered {status}: {error.message[:300]}") from error
    if not isinstance(root.get("specversion"), str) or not isinstance(root.get("registryid"), str):
        raise NoCatalog(f"{server.url} is no xRegistry server.", "Name the URL of its root.")
    return root


async def _optional(server: WalkedServer, path: str) -> JsonObject | None:
    """The answer at a path that a server need not offer."""
    try:
        page = await server.read(path)
    except AnswerMalformed:
        return None
    except Refused as error:
        if error.problem.status in _NOT_OFFERED:
            return None
        raise
    return page.members


def _choose_edition(server: WalkedServer, root: JsonObject, capabilities: JsonObject) -> str:
    """The edition to read; an edition that is not the server's default is requested by a flag."""
    stated = str(root["specversion"])[:32]
    if stated.lower() in EDITIONS:
        return stated
    offered = {each.lower(): each for each in _texts(capabilities.get("specversions"))}
    flags = {each.lower() for each in _texts(capabilities.get("flags"))}
    known = next((offered[edition] for edition in EDITIONS if edition in offered), None)
    if known is None or "specversion" not in flags:
        raise OtherEdition(
            f"{server.url} is a server of xRegistry {stated}, and this node reads those of "
            f"{SPECVERSION}.",
            "Update the server, or let it speak that edition, too.",
        )
    server.flags = [("specversion", known)]
    return known


def _offers_export(capabilities: JsonObject) -> bool:
    available = capabilities.get("available")
    if isinstance(available, dict):
        return "export" in {name.lower() for name in available}
    # The form in the examples of 1.0-rc3, which servers still use.
    return "/export" in _texts(available)


def _types_in(
    model: JsonObject | None, root: JsonObject, own: Model
) -> Mapping[str, ServerGroupType]:
    """The types in a server's model; without a model, the node's types with a collection there."""
    if model is None:
        return {
            plural: ServerGroupType(
                kind.singular,
                {
                    name: ServerResourceType(each.singular, each.hasdocument)
                    for name, each in kind.resources.items()
                },
            )
            for plural, kind in own.groups.items()
            if f"{plural}url" in root or plural in root
        }
    groups = _objects(model.get("groups"))
    found = {
        plural: ServerGroupType(
            str(kind.get("singular", ""))[:64], dict(_resource_types(kind, groups))
        )
        for plural, kind in groups.items()
    }
    if sum(1 + len(kind.resources) for kind in found.values()) > _MOST_TYPES:
        raise AnswerMalformed(f"Its model has more than {_MOST_TYPES} types.")
    return found


def _resource_types(
    kind: JsonObject, groups: Mapping[str, JsonObject]
) -> Iterator[tuple[str, ServerResourceType]]:
    """The types of resources in a type of groups, including imported types (`ximportresources`)."""
    own = _objects(kind.get("resources"))
    shared = {}
    for path in _texts(kind.get("ximportresources")):
        _, _, names = path.partition("/")
        group, _, plural = names.partition("/")
        elsewhere = _objects(groups.get(group, {}).get("resources"))
        if plural in elsewhere:
            shared[plural] = elsewhere[plural]
    for plural, each in {**shared, **own}.items():
        singular = str(each.get("singular", ""))[:64]
        yield plural, ServerResourceType(singular, each.get("hasdocument") is not False)


def _faults_of(types: Mapping[str, ServerGroupType], model: Model) -> Iterator[UnreadableType]:
    for plural, kind in types.items():
        own = model.group_type(plural)
        if own is None or own.singular != kind.singular:
            has = "has no such type" if own is None else f'calls one of them "{own.singular}"'
            yield UnreadableType(path=f"/{plural}", reason=f"the model here {has}")
            continue
        for name, resource in kind.resources.items():
            if fault := _fault_of(resource, own.resources.get(name)):
                yield UnreadableType(path=f"/{plural}/*/{name}", reason=f"the model here {fault}")


def _fault_of(there: ServerResourceType, here: ResourceType | None) -> str:
    if here is None:
        return "has no such type"
    if here.singular != there.singular:
        return f'calls one of them "{here.singular}"'
    if here.hasdocument != there.has_document:
        return "gives them documents" if here.hasdocument else "gives them no documents"
    return ""


def _objects(value: Any) -> dict[str, JsonObject]:
    """The objects among the members of an object, whose names are names of types."""
    if not isinstance(value, dict):
        return {}
    return {
        name: each
        for name, each in value.items()
        if isinstance(each, dict) and STRICT_NAME.fullmatch(name)
    }


def _texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
