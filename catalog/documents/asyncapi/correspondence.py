"""Pairs of members of AsyncAPI objects and attributes of entities.

An entity keeps the members of its AsyncAPI object that attributes do not express exactly. Such a
member is shown while it agrees with its attribute, and is replaced after a change of the attribute.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from catalog.documents.asyncapi.references import Members
from catalog.model.scalars import SCALAR_CHECKS

Path = tuple[str, ...]
_LONGEST_TEXT = 1000
_NOT_IN_LABEL = re.compile(r"[^a-z0-9_.:-]+")
_LONGEST_LABEL = 63
_LABEL = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,62}")


def _same(value: Any) -> Any:
    return value


def _replace(value: Any, _: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Correspondence:
    """A member of an AsyncAPI object, and the attribute that expresses the member.

    Args:
        member: the names on the path to the member.
        attribute: the names on the path to the attribute.
        to_attribute: the attribute of a member, or `None` if no attribute expresses the member.
        to_member: the member of an attribute, and of the former member or `None`.
        default: the value that a catalog gives to a missing attribute.
    """

    member: Path
    attribute: Path
    to_attribute: Callable[[Any], Any] = _same
    to_member: Callable[[Any, Any], Any] = _replace
    default: Any = None


def to_attributes(
    kept: Members, attributes: Members, correspondences: Iterable[Correspondence]
) -> None:
    """Set attributes from members, and remove the members that the attributes express exactly."""
    for each in correspondences:
        value = _get(kept, each.member)
        found = None if value is None else each.to_attribute(value)
        if found is None:
            continue
        put(attributes, each.attribute, found)
        is_exact = are_equal(each.to_member(found, None), value)
        if is_exact and not are_equal(found, each.default):
            _pop(kept, each.member)


def to_members(
    shown: Members, attributes: Members, correspondences: Iterable[Correspondence]
) -> None:
    """Set members from attributes, and remove the attributes that the members express."""
    for each in correspondences:
        found = _pop(attributes, each.attribute)
        found = each.default if found is None else found
        value = _get(shown, each.member)
        current = None if value is None else each.to_attribute(value)
        if current is None and are_equal(found, each.default):
            continue
        if current is not None and are_equal(current, found):
            continue
        if found is None:
            _pop(shown, each.member)
        else:
            put(shown, each.member, each.to_member(found, value))


def are_equal(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal; 1 and true differ."""
    options = orjson.OPT_SORT_KEYS
    return orjson.dumps(value, option=options) == orjson.dumps(other, option=options)


def put(members: Members, path: Path, value: Any) -> None:
    """Set the member at a path, in new objects if needed."""
    *outer, name = path
    for step in outer:
        if not isinstance(members.get(step), dict):
            members[step] = {}
        members = members[step]
    members[name] = value


def _get(members: Any, path: Path) -> Any:
    for step in path:
        members = members.get(step) if isinstance(members, dict) else None
    return members


def _pop(members: Any, path: Path) -> Any:
    holder = _get(members, path[:-1])
    return holder.pop(path[-1], None) if isinstance(holder, dict) else None


def constant(value: Any) -> str | None:
    """The only text that a member allows: a text, or a schema with one value."""
    if isinstance(value, dict):
        listed = value.get("enum")
        value = value.get(
            "const", listed[0] if isinstance(listed, list) and listed[1:] == [] else 0
        )
    return value if isinstance(value, str) and value else None


def constant_schema(value: Any, former: Any) -> Any:
    """A schema that allows one text, or the text if the former member was a text."""
    return value if isinstance(former, str) else {"type": "string", "const": value}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value and len(value) <= _LONGEST_TEXT else None


def _beginning(value: Any) -> str | None:
    """A text of bounded length: attributes are held to the size of HTTP headers."""
    if not isinstance(value, str) or len(value) <= _LONGEST_TEXT:
        return value if isinstance(value, str) and value else None
    return f"{value[:_LONGEST_TEXT]}…"


def _url(value: Any) -> str | None:
    try:
        return str(SCALAR_CHECKS["url"](value)) or None
    except ValueError:
        return None


def _labels(tags: Any) -> Members | None:
    """Tags as labels: the name is the key, or `key:value`, or the value if it is no valid key."""
    if not isinstance(tags, list):
        return None
    labels: Members = {}
    for tag in tags:
        name = tag.get("name") if isinstance(tag, dict) else None
        if isinstance(name, str) and name and len(name) <= _LONGEST_TEXT:
            key, value = _label(name)
            labels.setdefault(key, value)
    return labels or None


def _label(name: str) -> tuple[str, str]:
    before, _, after = name.partition(":")
    if after and _LABEL.fullmatch(before):
        return before, after
    key = _NOT_IN_LABEL.sub("-", name.lower()).strip("-_.:")[:_LONGEST_LABEL] or "tag"
    return key, "" if key == name else name


def _tags(labels: Any, former: Any) -> list[Members]:
    """Labels as tags; the former tags of unchanged labels keep their descriptions."""
    names = [_tag_name(key, value) for key, value in sorted(labels.items())]
    known = {tag["name"]: tag for tag in former or () if isinstance(tag, dict) and "name" in tag}
    return [known.get(name, {"name": name}) for name in names]


def _tag_name(key: str, value: Any) -> str:
    if not value:
        return key
    return value if _label(value) == (key, value) else f"{key}:{value}"


DESCRIPTION: Sequence[Correspondence] = (
    Correspondence(member=("title",), attribute=("name",), to_attribute=_text),
    Correspondence(member=("description",), attribute=("description",), to_attribute=_beginning),
    Correspondence(member=("externalDocs", "url"), attribute=("documentation",), to_attribute=_url),
    Correspondence(member=("tags",), attribute=("labels",), to_attribute=_labels, to_member=_tags),
)
"""What servers, channels, operations, messages and the document itself say about themselves."""
