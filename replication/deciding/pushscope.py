"""The groups to which a catalog with a restricted role may push."""

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
    """Refuse pushes to an acceptance that reaches beyond the groups to which the pusher may write.

    A complete copy ends with the deletion of accepted entities that the copy lacks, so a check of
    the pushed copies would not be enough.

    Raises:
        Forbidden, Unauthenticated
    """
    # A path with wildcards is checked as a text, which only a rule with the same reach covers.
    try:
        await check_writes(connection, scope, sorted(places_of(definition)))
    except Forbidden as error:
        error.detail = _ADVICE
        raise


def places_of(definition: LinkDefinition) -> frozenset[str]:
    """The local paths of groups, some with wildcards, to which an acceptance may bring copies."""
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
        return  # Without a local name, no copy of the group is taken either.
