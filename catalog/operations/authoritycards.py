"""The operation of `/-/authorities`: who stands behind an authority, and whom to ask.

An authority tells its card to other catalogs. Cards are texts of others: bounded, of one line, and
never a reason to refuse the rest of an answer.
"""

from __future__ import annotations

import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationError

from catalog.model.roles import Permission
from catalog.operations.operation import AnswerBody, Operation, StrictQuery, Time

MOST_AUTHORITIES = 100
_LONGEST = 200
_URL = re.compile(r"https?://[\w.~:/\[\]@!$&'()*+,;=%-]{1,1000}", re.ASCII)
# A reader could take characters of these categories for parts of the page or the terminal.
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]+")


def _line(given: object) -> str:
    """A text as one line of at most 200 characters; "" for anything else."""
    if not isinstance(given, str):
        return ""
    return _INVISIBLE.sub(" ", given[: 4 * _LONGEST]).strip()[:_LONGEST]


def _web_url(given: object) -> str:
    """A URL of the web without a slash at its end; "" for anything else."""
    if not isinstance(given, str) or not _URL.fullmatch(given):
        return ""
    try:
        parts = urlsplit(given)
    except ValueError:
        return ""
    return given.rstrip("/") if parts.hostname and "@" not in parts.netloc else ""


_Line = Annotated[str, BeforeValidator(_line, json_schema_input_type=str)]
_WebUrl = Annotated[str, BeforeValidator(_web_url, json_schema_input_type=str)]


class Card(AnswerBody):
    """Who stands behind an authority, in the words of that authority."""

    name: _Line = Field(default="", description="The name of the team or the organisation.")
    region: _Line = Field(default="", description="Where the catalog is, as `eu-central`.")
    contact: _Line = Field(default="", description="Whom to ask: an address, a channel, a URL.")
    url: _WebUrl = Field(default="", description="Where people find the catalog, and its console.")

    def __bool__(self) -> bool:
        """Whether the card says anything."""
        return bool(self.name or self.region or self.contact or self.url)


def _card_or_none(given: object) -> Card | None:
    if isinstance(given, Card):
        return given or None
    try:
        return Card.model_validate(given) or None
    except ValidationError:
        return None


ToldCard = Annotated[
    Card | None, BeforeValidator(_card_or_none, json_schema_input_type=Card | None)
]
"""The card of another catalog; `None` in place of an unreadable card."""


class KnownAuthority(AnswerBody):
    """An authority, with its card if the authority has told one."""

    authority: str
    isown: bool = Field(default=False, description="Whether it is the authority of this node.")
    card: ToldCard = None
    cardat: Time | None = Field(default=None, description="When the card was told.")


class KnownAuthorities(AnswerBody):
    """The authorities that were asked for, this node's own first."""

    authorities: list[KnownAuthority]


class AuthoritiesQuery(StrictQuery):
    """The authorities that are asked about."""

    authority: list[Annotated[str, Field(min_length=1, max_length=1024)]] = Field(
        default=[],
        max_length=MOST_AUTHORITIES,
        description="Only these; all that have told a card unless given.",
    )


LIST_AUTHORITIES = Operation(
    "GET",
    "/-/authorities",
    Permission.READ,
    query=AuthoritiesQuery,
    answers=KnownAuthorities,
    description="Cards are told by catalogs that this node follows or sends to, and by those that "
    "follow this node. Nothing proves what a card says.",
)
