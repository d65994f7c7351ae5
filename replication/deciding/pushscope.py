"""The groups that a catalog may push to whose role is for some groups only."""

from __future__ import annotations

from collections.abc import Iterator

from catalog.model.caller import WriteScope
from catalog.model.concorderrors import Forbidden
from catalog.store.database import Connection
from catalog.store.links import LinkDefinition
from catalog.writing.permission import check_writes
from replication.deciding.mapping import GroupMapping, NoPlace, mapping_of

_ADVICE = (
    "What is accepted of this catalog could come to groups that its token has no role for: have "
    "it accepted with --scope or --prefix, or give the token another role."
)


async def check_acceptance(
    connection: Connection, scope: WriteScope, definition: LinkDefinition
) -> None:
    """Refuse pushes to an acceptance that reaches beyond the groups where the pusher may write.

    A complete copy ends with the deletion of all that the acceptance takes and the copy lacks, so
    that to look at what is pushed is not enough.

    Raises:
        Forbidden, Unauthenticated
    """
    # Of a path with wildcards, the text itself is covered by whatever reaches as far.
    try:
        await check_writes(connection, scope, sorted(places_of(definition)))
    except Forbidden as error:
        error.detail = _ADVICE
        raise


def places_of(definition: LinkDefinition) -> frozenset[str]:
    """The paths, some with wildcards, of all groups here that an acceptance may bring copies to."""
    mapping = mapping_of(definition)
    selected = definition.scope or [f"/{type.partition('/')[0]}" for type in definition.types]
    return frozenset(place for path in selected or ["/*"] for place in _places_at(path, mapping))


def _places_at(path: str, mapping: GroupMapping) -> Iterator[str]:
    _, plural, id, *_ = [*path.split("/", 3), ""]
    if not id:
        yield f"/{plural}/{mapping.prefix}*"
        named = (there for there in mapping.names if plural in ("*", there.partition("/")[0]))
        yield from (f"/{mapping.names[there]}" for there in named)
        return
    try:
        yield mapping.place(f"/{plural}/{id}")
    except NoPlace:
        return  # No copy of it is taken either.
