"""The selections that a link had before it was changed, in the form in which they are stored."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerSelection:
    """The entities that a link selected until it was changed; `("*",)` are all authorities."""

    authorities: tuple[str, ...]
    scope: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


def write_former(selection: FormerSelection) -> str:
    """A list of one selection; of none if it has no authority, so that nothing was brought."""
    return orjson.dumps([asdict(selection)] if selection.authorities else []).decode()


def read_former(text: str | None) -> tuple[FormerSelection, ...] | None:
    if text is None:
        return None
    return tuple(
        FormerSelection(**{name: tuple(value) for name, value in each.items()})
        for each in orjson.loads(text)
    )
