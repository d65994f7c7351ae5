"""Chooses how a registry is represented: as JSON, or as a document of the CloudEvents registry.

The documents' media types are those of the seed (CloudEvents Registry, "File format"); a
parameter `specversion` names the edition, which is the newest unless a client asks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.request import parse_http_list

from aiohttp.helpers import parse_mimetype

from catalog.documents.editions import NEWEST, SPECVERSIONS, stated_edition

JSON = "application/cloudevents-registry+json"
YAML = "application/cloudevents-registry+yaml"
DOCUMENTS = (JSON, YAML)
_PLAIN_JSON = "application/json"
_MOST_RANGES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Representation:
    """A document as a media type has it."""

    media_type: str
    edition: str = NEWEST

    @property
    def content_type(self) -> str:
        return f"{self.media_type}; specversion={SPECVERSIONS[self.edition]}; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Range:
    """One element of an Accept header (RFC 9110, 12.5.1)."""

    name: str
    quality: float
    edition: str

    def precision(self, media_type: str) -> int:
        """How precisely it means a media type: 0 not at all, 3 by its name."""
        main = media_type.partition("/")[0]
        return {media_type: 3, f"{main}/*": 2, "*/*": 1}.get(self.name, 0)


def representation_for(accept: Iterable[str]) -> Representation | None:
    """The document that a client prefers to JSON; `None` for JSON, which is for all others.

    Args:
        accept: the values of the request's Accept headers.
    """
    ranges = [
        found
        for item in parse_http_list(",".join(accept))[:_MOST_RANGES]
        if (found := _read(item)) is not None
    ]
    best, quality = None, _quality(ranges, _PLAIN_JSON)
    for media_type in DOCUMENTS:
        if (own := _quality(ranges, media_type)) > quality:
            best, quality = media_type, own
    if best is None:
        return None
    named = max(ranges, key=lambda found: (found.precision(best), found.quality))
    return Representation(media_type=best, edition=named.edition)


def _quality(ranges: list[_Range], media_type: str) -> float:
    """What the most precise range says of a media type."""
    found = [(item.precision(media_type), item.quality) for item in ranges]
    precision, quality = max(found, default=(0, 0.0))
    return quality if precision else 0.0


def _read(item: str) -> _Range | None:
    """A range, unless it is malformed or asks for an edition that there is none of."""
    found = parse_mimetype(item)
    suffix = f"+{found.suffix}" if found.suffix else ""
    edition = _edition(found.parameters)
    try:
        quality = float(found.parameters.get("q", "1"))
    except ValueError:
        return None
    if edition is None or not 0 <= quality <= 1:
        return None
    return _Range(
        name=f"{found.type}/{found.subtype}{suffix}".lower(), quality=quality, edition=edition
    )


def _edition(parameters: Mapping[str, str]) -> str | None:
    stated = parameters.get("specversion")
    return NEWEST if stated is None else stated_edition({"specversion": stated})
