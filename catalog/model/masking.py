"""Masks the parts of URLs that carry secrets: tokens in queries."""

from __future__ import annotations

import re

MASK = "***"
_QUERY = re.compile(r"\?[^\s'\"<>#]+")
_LONGEST = 300


def masked_url(url: str) -> str:
    """A URL with stars in place of the values in its query."""
    base, mark, query = url.partition("?")
    return base + mark + "&".join(map(_masked, _parameters(query)))


def _parameters(query: str) -> list[str]:
    return [each for each in query.split("&") if each]


def _masked(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    # Without a name, the whole query may be the secret.
    return f"{name}={MASK}" if equals else MASK


def unmasked_url(url: str, stored: str) -> str | None:
    """A URL with the values of a stored one in place of stars; `None` if they differ elsewhere.

    A value is only ever sent to the address that it was stored for.
    """
    base, _, query = url.partition("?")
    stored_base, mark, stored_query = stored.partition("?")
    given, known = _parameters(query), _parameters(stored_query)
    if base != stored_base or [*map(_name, given)] != [*map(_name, known)]:
        return None
    merged = (old if _masked(new) == new else new for new, old in zip(given, known, strict=True))
    return base + mark + "&".join(merged)


def _name(parameter: str) -> str:
    name, equals, _ = parameter.partition("=")
    return name + equals if equals else ""


def is_masked(url: str) -> bool:
    """Whether a value in the query of a URL is stars."""
    return any(each.rpartition("=")[2] == MASK for each in _parameters(url.partition("?")[2]))


def described(error: BaseException) -> str:
    """An error in one line, without the queries of URLs in it, for the log."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return _QUERY.sub(f"?{MASK}", text)[:_LONGEST]
