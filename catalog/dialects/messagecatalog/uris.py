"""Paths and URIs of groups, definitions and versions (message catalog, 2.2.2 and 4.1)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from catalog.dialects.versionnumbers import is_number
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
