"""URIs of message definition versions (message catalog, 2.2.2), made and taken apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from catalog.dialects.messagecatalog.events import CATALOG_ROOT
from catalog.model.xid import is_valid_id

_VERSION = re.compile(r"versions?/([0-9]{1,15})")
_BELOW_GROUP = "/messagedefinitions/"


@dataclass(frozen=True, slots=True, kw_only=True)
class DefinitionUri:
    """What a URI points to: an authority's definition, by its id or by where it is there.

    `group` is empty where only the definition's id is told, `vid` where no version is.
    """

    authority: str
    group: str = ""
    definition: str
    vid: str = ""


def version_uri(authority: str, id: str) -> str:
    """The URI of what an authority calls `id`, which may be a path or even a URI itself."""
    if "://" in id:
        id = urlsplit(id).path
    if "://" in authority:
        return f"{authority.rstrip('/')}/{id.lstrip('/')}"
    return f"{authority.rstrip(':')}:{id.lstrip('/')}"


def catalog_root(authority: str) -> str:
    """The root of this API at a catalog; an authority that is no URL stands for itself."""
    return f"{authority.rstrip('/')}{CATALOG_ROOT}" if "://" in authority else authority


def parse_uri(uri: str) -> DefinitionUri | None:
    """Take apart what `version_uri` made; `None` where that is not possible."""
    head, found, tail = uri.partition(_BELOW_GROUP)
    authority, last = _split(head)
    if not found:
        return _reference(authority, "", last, "")
    definition, slash, version = tail.partition("/")
    number = _VERSION.fullmatch(version)
    if slash and number is None:
        return None
    return _reference(authority, last, definition, number[1] if number else "")


def _reference(authority: str, group: str, definition: str, vid: str) -> DefinitionUri | None:
    group, definition = unquote(group), unquote(definition)
    if not authority or not is_valid_id(definition) or not is_valid_id(group or "g"):
        return None
    return DefinitionUri(
        authority=authority.rstrip("/"), group=group, definition=definition, vid=vid
    )


def _split(text: str) -> tuple[str, str]:
    """The last segment, and what it is a segment of: a URN has colons where a URL has slashes."""
    separator = "/" if "://" in text else ":"
    head, _, last = text.rpartition(separator)
    return head, last
