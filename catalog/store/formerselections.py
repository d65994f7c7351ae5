"""The selections that a link had before a change, in their stored form."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class FormerSelection:
    """The entities that a link selected until a change; `("*",)` stands for all authorities."""

    authorities: tuple[str, ...]
    scope: tuple[str, ...] = ()
    types: tuple[str, ...] = ()


def write_former(selection: FormerSelection) -> str:
    """A list of the selection; empty without an authority, since the link brought no entities."""
    return orjson.dumps([asdict(selection)] if selection.authorities else []).decode()


def read_former(text: str | None) -> tuple[FormerSelection, ...] | None:
    if text is None:
        return None
    return tuple(
        FormerSelection(**{name: tuple(value) for name, value in each.items()})
        for each in orjson.loads(text)
    )
