"""Paths and URIs of groups, definitions and versions (message catalog, 2.2.2 and 4.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from aiohttp import web

from catalog.dialects.versionnumbers import is_number
from catalog.model.errors import ApiNotFound, MalformedId
from catalog.model.schema import Model
from catalog.model.xid import Xid, is_valid_id

CATALOG_ROOT = "/messagecatalog"
MESSAGE_GROUPS = "messagegroups"
GROUP_MESSAGES = "messages"
_VERSION = re.compile(r"versions?/([0-9]{1,15})")
_BELOW_GROUP = "/messagedefinitions/"


def path_of(xid: Xid) -> str | None:
    """The path of a group, message or version in the Message Catalog API.

    `None` is for entities that the API does not show: versions with ids that are no integers, and
    resources of a replaced model that are no messages.
    """
    if xid.resources not in ("", GROUP_MESSAGES) or not (is_number(xid.vid) or not xid.vid):
        return None
    path = f"{CATALOG_ROOT}/{xid.gid}"
    if xid.rid:
        path += f"{_BELOW_GROUP}{xid.rid}"
    return f"{path}/versions/{xid.vid}" if xid.vid else path


def catalog_root(authority: str) -> str:
    """The root of the Message Catalog API at an authority, or an authority that is no URL."""
    return f"{authority.rstrip('/')}{CATALOG_ROOT}" if "://" in authority else authority


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionUri:
    """The parts of a URI: an authority, and the id or path of a definition at the authority.

    `group` is empty if the URI has the definition's id only, `vid` if the URI has no version.
    """

    authority: str
    group: str = ""
    definition: str
    vid: str = ""


def parse_uri(uri: str) -> DefinitionUri | None:
    """Parse an authority followed by a definition's id or path; `None` for a malformed URI."""
    head, below, tail = uri.partition(_BELOW_GROUP)
    authority, _, last = head.rpartition("/" if "://" in head else ":")
    group, definition, vid = "", last, ""
    if below:
        group, (definition, slash, version) = last, tail.partition("/")
        number = _VERSION.fullmatch(version)
        if slash and number is None:
            return None
        vid = number[1] if number else ""
    group, definition = unquote(group), unquote(definition)
    if not authority or not is_valid_id(definition) or not is_valid_id(group or "g"):
        return None
    return DefinitionUri(
        authority=authority.rstrip("/"), group=group, definition=definition, vid=vid
    )


def has_definitions(model: Model) -> bool:
    """Whether a model has definitions: a client can set a model without messages."""
    return model.resource_type(MESSAGE_GROUPS, GROUP_MESSAGES) is not None


def check_has_definitions(request: web.Request, model: Model) -> None:
    """Raise `ApiNotFound` for a request where the model has no definitions."""
    if not has_definitions(model):
        detail = f'The model of this registry has no "/{MESSAGE_GROUPS}/{GROUP_MESSAGES}".'
        raise ApiNotFound(request.path, detail=detail)


def group_in(request: web.Request, model: Model) -> Xid:
    """The group that a path names; raises `ApiNotFound` or `MalformedId`."""
    check_has_definitions(request, model)
    return Xid(MESSAGE_GROUPS, _id(request, "group"))


def definition_in(request: web.Request, model: Model) -> Xid:
    """The definition that a path names; raises as `group_in`."""
    return group_in(request, model).child(GROUP_MESSAGES, _id(request, "definition"))


def version_in(request: web.Request, model: Model) -> Xid:
    """The version that a path names; raises as `group_in`."""
    return definition_in(request, model).version(_id(request, "version"))


def check_new_id(id: object, subject: str) -> str:
    """The id of an entity to be created (message catalog, 2.1.1 and 2.2.4).

    Raises:
        MalformedId: the id is no `segment-nz-nc` of RFC 3986, or no valid native id.
    """
    if not isinstance(id, str) or not is_valid_id(id) or ":" in id:
        detail = "it needs 1 to 128 of A-Z a-z 0-9 - . _ ~ @ and a letter, digit or _ at its start"
        raise MalformedId(subject, id=str(id)[:128], error_detail=detail)
    return id


def _id(request: web.Request, name: str) -> str:
    id = request.match_info[name]
    if not is_valid_id(id):
        detail = "nothing can be called so in a catalog"
        raise MalformedId(request.path, id=id[:128], error_detail=detail)
    return id
