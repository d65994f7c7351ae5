"""The target of a request: the entity or collection at the path, and the allowed methods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from aiohttp import hdrs, web

from catalog.model.capabilities import Capabilities
from catalog.model.errors import (
    ActionNotSupported,
    ApiNotFound,
    BadDetails,
    DetailsRequired,
    MalformedId,
    UnknownGroupType,
    UnknownResourceType,
)
from catalog.model.schema import RESERVED_GROUP_NAMES, Model, ResourceType
from catalog.model.xid import Xid, is_valid_id
from catalog.operations.operation import READING

_DETAILS = "$details"

TargetKind = Literal["registry", "group", "resource", "meta", "version", "collection"]
_ENTITIES = {
    "registry": (*READING, "PATCH", "POST", "PUT"),
    "collection": ("DELETE", *READING, "PATCH", "POST"),
    "group": ("DELETE", *READING, "PATCH", "POST", "PUT"),
    "resource": ("DELETE", *READING, "PATCH", "POST", "PUT"),
    "meta": (*READING, "PATCH", "PUT"),
    "version": ("DELETE", *READING, "PATCH", "PUT"),
}
_DOCUMENTS = {
    kind: tuple(method for method in methods if method != hdrs.METH_PATCH)
    for kind, methods in _ENTITIES.items()
}


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The entity, meta entity or collection that a request addresses.

    For a collection, `xid` is the owner and `plural` the name. `details` addresses the metadata of
    a resource or version instead of the document.
    """

    kind: TargetKind
    xid: Xid
    plural: str = ""
    details: bool = False
    resource_type: ResourceType | None = None

    @property
    def path(self) -> str:
        """The path in the form of an xid: `/dirs/d1/files` for a collection."""
        if self.kind == "meta":
            return f"{self.xid}/meta"
        return str(self.xid).rstrip("/") + (f"/{self.plural}" if self.plural else "") or "/"

    @property
    def place(self) -> str:
        """The place of answers in the cache: the path of the resource, or else of the target."""
        return str(self.xid.resource) if self.xid.rid else self.path

    @property
    def is_document(self) -> bool:
        """Whether the path addresses the domain-specific document instead of metadata."""
        kind = self.resource_type
        return (
            self.kind in ("resource", "version")
            and kind is not None
            and kind.hasdocument
            and not self.details
        )


def parse_path(raw_path: str, model: Model) -> RequestTarget:
    """Parse a path, without a check that the entity exists.

    Args:
        raw_path: the path of the URL, still percent-encoded.

    Raises:
        UnknownGroupType, UnknownResourceType, MalformedId, BadDetails, ApiNotFound
    """
    subject, segments = raw_path, segments_of(raw_path)
    # Decoded after the split, so that an encoded slash does not separate segments.
    if "%" in raw_path:
        subject = unquote(raw_path)
        segments = [_decode(segment, subject) for segment in segments]
    if not segments:
        return RequestTarget("registry", Xid())
    details = segments[-1].endswith(_DETAILS)
    if details:
        segments[-1] = segments[-1].removesuffix(_DETAILS)
        if not segments[-1]:
            raise BadDetails(subject)
    target = _target(segments, model, subject, details)
    if details and target.kind not in ("resource", "version"):
        raise BadDetails(subject)
    return target


def segments_of(raw_path: str) -> list[str]:
    """The segments of a path, still percent-encoded, without an empty segment at the end."""
    inner = raw_path.removeprefix("/")
    return inner.removesuffix("/").split("/") if inner else []


def _decode(segment: str, subject: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedId(subject, id=segment, error_detail="it is not UTF-8") from error


def _target(segments: list[str], model: Model, subject: str, details: bool) -> RequestTarget:
    groups, *below = segments
    if groups in RESERVED_GROUP_NAMES:
        raise ApiNotFound(subject)
    group_type = model.group_type(groups)
    if group_type is None:
        raise UnknownGroupType(subject, name=groups)
    if not below:
        return RequestTarget("collection", Xid(), plural=groups)
    group = Xid(groups, _id(below[0], subject))
    if len(below) == 1:
        return RequestTarget("group", group, details=details)
    kind = group_type.resources.get(below[1])
    if kind is None:
        raise UnknownResourceType(subject, group=groups, name=below[1])
    if len(below) == 2:
        return RequestTarget("collection", group, plural=below[1], resource_type=kind)
    resource = Xid(groups, group.gid, below[1], _id(below[2], subject))
    match below[3:]:
        case []:
            return RequestTarget("resource", resource, details=details, resource_type=kind)
        case ["meta"]:
            return RequestTarget("meta", resource, resource_type=kind)
        case ["versions"]:
            return RequestTarget("collection", resource, plural="versions", resource_type=kind)
        case ["versions", vid]:
            version = resource.version(_id(vid, subject))
            return RequestTarget("version", version, details=details, resource_type=kind)
        case _:
            raise ApiNotFound(subject)


def _id(segment: str, subject: str) -> str:
    if not is_valid_id(segment):
        characters = "A-Z a-z 0-9 - . _ ~ : @ and a letter, digit or _ at its start"
        raise MalformedId(subject, id=segment, error_detail=f"it needs 1 to 128 of {characters}")
    return segment


def methods_of(target: RequestTarget, capabilities: Capabilities) -> tuple[str, ...]:
    """The methods that an entity or collection allows, in alphabetical order."""
    if not capabilities.is_mutable("entities"):
        return READING
    return (_DOCUMENTS if target.is_document else _ENTITIES)[target.kind]


def methods_of_route(
    capability: str | None, defined: Iterable[str], capabilities: Capabilities
) -> tuple[str, ...]:
    """The methods that a fixed path allows, among the defined methods.

    Args:
        capability: the name of the path in the capabilities, if the capabilities name the path.
    """
    if capability is None:
        return tuple(sorted({*defined, hdrs.METH_OPTIONS}))
    if capability not in capabilities.available:
        return (hdrs.METH_OPTIONS,)
    allowed = {*defined} if capabilities.is_mutable(capability) else {*defined} & {*READING}
    return tuple(sorted({*allowed, hdrs.METH_OPTIONS}))


def check_method(request: web.Request, target: RequestTarget, allow: tuple[str, ...]) -> None:
    """Refuse a method that an entity or collection does not allow.

    Raises:
        ActionNotSupported
        DetailsRequired: the path addresses a document, but only metadata can be patched.
    """
    if request.method in allow:
        return
    if request.method == hdrs.METH_PATCH and target.is_document and allow != READING:
        raise DetailsRequired(str(target.xid), allow=allow)
    raise ActionNotSupported(request.path, action=request.method, allow=allow)


def answer_options(allow: tuple[str, ...]) -> web.Response:
    """Answer OPTIONS (core/http.md, "HTTP OPTIONS Method")."""
    methods = ", ".join(allow)
    return web.Response(headers={"Allow": methods, "Access-Control-Allow-Methods": methods})
