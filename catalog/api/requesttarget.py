"""What a request's path addresses: an entity, a meta entity or a collection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal
from urllib.parse import unquote

from catalog.http.segments import segments_of
from catalog.model.errors import (
    ApiNotFound,
    BadDetails,
    MalformedId,
    UnknownGroupType,
    UnknownResourceType,
)
from catalog.model.schema import RESERVED_GROUP_NAMES, Model, ResourceType
from catalog.model.xid import Xid, is_valid_id

_DETAILS = "$details"

TargetKind = Literal["registry", "group", "resource", "meta", "version", "collection"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTarget:
    """The addressee of a request.

    For a collection, `xid` is its owner and `plural` its name. `details` says that the
    metadata of a resource or version is meant, not its document.
    """

    kind: TargetKind
    xid: Xid
    plural: str = ""
    details: bool = False
    resource_type: ResourceType | None = None

    @property
    def path(self) -> str:
        """The path as xids are written: `/dirs/d1/files` for a collection."""
        if self.kind == "meta":
            return f"{self.xid}/meta"
        return str(self.xid).rstrip("/") + (f"/{self.plural}" if self.plural else "") or "/"

    @property
    def place(self) -> str:
        """Where its answers change: the resource that it is part of, else itself."""
        return str(self.xid.resource) if self.xid.rid else self.path

    @property
    def is_document(self) -> bool:
        """Whether the domain-specific document is addressed, not metadata."""
        kind = self.resource_type
        return (
            self.kind in ("resource", "version")
            and kind is not None
            and kind.hasdocument
            and not self.details
        )


def parse_path(raw_path: str, model: Model) -> RequestTarget:
    """Find out what a path addresses; whether that exists is not looked at.

    Args:
        raw_path: the path of the URL, still percent-encoded.

    Raises:
        UnknownGroupType, UnknownResourceType, MalformedId, BadDetails, ApiNotFound
    """
    subject = unquote(raw_path)
    segments = [_decode(segment, subject) for segment in segments_of(raw_path)]
    details = bool(segments) and segments[-1].endswith(_DETAILS)
    if details:
        segments[-1] = segments[-1].removesuffix(_DETAILS)
        if not segments[-1]:
            raise BadDetails(subject)
    target = _target(segments, model, subject, details)
    if details and target.kind not in ("resource", "version"):
        raise BadDetails(subject)
    return target


def _decode(segment: str, subject: str) -> str:
    try:
        return unquote(segment, errors="strict")
    except UnicodeDecodeError as error:
        raise MalformedId(subject, id=segment, error_detail="it is not UTF-8") from error


def _target(segments: list[str], model: Model, subject: str, details: bool) -> RequestTarget:
    if not segments:
        return RequestTarget(kind="registry", xid=Xid())
    group_type = model.group_type(segments[0])
    if segments[0] in RESERVED_GROUP_NAMES:
        raise ApiNotFound(subject)
    if group_type is None:
        raise UnknownGroupType(subject, name=segments[0])
    if len(segments) == 1:
        return RequestTarget(kind="collection", xid=Xid(), plural=segments[0])
    group = Xid(segments[0], _id(segments[1], subject))
    if len(segments) == 2:
        return RequestTarget(kind="group", xid=group, details=details)
    resource_type = group_type.resources.get(segments[2])
    if resource_type is None:
        raise UnknownResourceType(subject, group=segments[0], name=segments[2])
    if len(segments) == 3:
        return RequestTarget(
            kind="collection", xid=group, plural=segments[2], resource_type=resource_type
        )
    resource = group.child(segments[2], _id(segments[3], subject))
    return _below_resource(segments[4:], resource, resource_type, subject, details)


def _below_resource(
    segments: list[str], resource: Xid, resource_type: ResourceType, subject: str, details: bool
) -> RequestTarget:
    match segments:
        case []:
            return RequestTarget(
                kind="resource", xid=resource, details=details, resource_type=resource_type
            )
        case ["meta"]:
            return RequestTarget(kind="meta", xid=resource, resource_type=resource_type)
        case ["versions"]:
            return RequestTarget(
                kind="collection", xid=resource, plural="versions", resource_type=resource_type
            )
        case ["versions", vid]:
            return RequestTarget(
                kind="version",
                xid=resource.version(_id(vid, subject)),
                details=details,
                resource_type=resource_type,
            )
        case _:
            raise ApiNotFound(subject)


def _id(segment: str, subject: str) -> str:
    if not is_valid_id(segment):
        raise MalformedId(
            subject,
            id=segment,
            error_detail="it needs 1 to 128 of A-Z a-z 0-9 - . _ ~ : @ and a letter, digit or _ "
            "at its start",
        )
    return segment
