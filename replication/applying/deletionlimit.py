"""Limits the entities that a link may lose without asking an operator, and stores questions.

Deletions by an authority with an intact log, which carry epochs, are not counted. Losses are
counted if a source lacks entities, and for every deletion by a source that has lost data, until the
link has caught up with the source.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import structlog

from catalog.client import ClientError
from catalog.context import Context
from catalog.model.entity import Origin
from catalog.operations.links import LinkQuestion, LostEntity
from catalog.settings import Settings
from catalog.store import links
from catalog.store.database import Connection
from catalog.store.links import Link
from replication.deciding.provenance import Policy
from replication.store import linklosses, writtenentities

_log = structlog.get_logger(__name__)
_MOST_LISTED = 100
_DIGEST_CHARACTERS = 16


def passes_limit(settings: Settings, losses: int, held: int) -> bool:
    """Whether losses pass both limits: a number of entities, and a share of the held entities.

    Args:
        losses: the number of lost entities.
        held: the number of held entities, including the lost entities.
    """
    return losses > settings.link_delete_count and losses > settings.link_delete_share * held


def question_about(link: Link, losses: Iterable[Origin], of: int) -> LinkQuestion:
    """The question of a link about the entities that it would lose, of the `of` entities held.

    The digest identifies the state of the source: authority, instance, and lost entities.
    """
    ordered = sorted(losses, key=lambda each: (each.authority, each.xid))
    hashed = hashlib.sha256(f"{link.authority}\n{link.instance}\n".encode())
    for each in ordered:
        hashed.update(f"{each.authority}\n{each.xid}\n".encode())
    return LinkQuestion(
        deletions=len(ordered),
        of=of,
        digest=hashed.hexdigest()[:_DIGEST_CHARACTERS],
        first=[LostEntity(authority=e.authority, origin=e.xid) for e in ordered[:_MOST_LISTED]],
    )


class TooManyDeletions(ClientError):
    """A link would lose more entities than permitted without asking; nothing was applied.

    Args:
        losses: the entities of the question.
        pending: the number of copies to come.
    """

    def __init__(
        self, link: Link, question: LinkQuestion, losses: Collection[Origin], pending: int
    ) -> None:
        lost, of = f"{question.deletions:,}", f"{question.of:,}"
        message = f"Its source no longer has {lost} of the {of} entities that the link holds."
        if link.definition.mode == "write":
            message = f"This catalog no longer has {lost} of the {of} entities that it has written."
        super().__init__(
            message,
            f"`concord link show {link.id}` lists them. If they are to be deleted, run "
            f"`concord link allow {link.id} {question.digest}`.",
        )
        self.link, self.question, self.losses = link, question, losses
        self.pending = max(pending, len(losses))


async def count_losses(
    context: Context,
    connection: Connection,
    link: Link,
    policy: Policy,
    going: Collection[Origin],
    coming: Collection[Origin],
) -> None:
    """Count the deletions of a batch, in the transaction of the batch, if the source lost data.

    Args:
        going: the deleted entities.
        coming: the written entities, which are no longer lost.

    Raises:
        TooManyDeletions: the caller has to roll back.
    """
    # The losses of a walked server of other software are checked before the batch.
    if link.definition.mode == "walk" or not await linklosses.is_lost(connection, link):
        return
    await linklosses.come_back(connection, link, coming)
    if going:
        await _check(context, connection, link, policy, going)
        await linklosses.add(connection, link, going)


async def check_losses(
    context: Context,
    link: Link,
    policy: Policy | None,
    losses: Collection[Origin],
    *,
    pending: int = 0,
) -> None:
    """Check that a link may lose entities that the source lacks, before they are deleted.

    Args:
        policy: the copies that the link brings; `None` if the link deletes entities that it has
            written to the remote server.
        pending: the number of copies to come.

    Raises:
        TooManyDeletions: the link has to ask, and the question was stored.
    """
    if not losses:
        return
    async with asking(context), context.database.acquire() as connection:
        await _check(context, connection, link, policy, losses, pending)


async def find_question(
    context: Context, link: Link, policy: Policy, losses: Collection[Origin]
) -> LinkQuestion | None:
    """The question that a link would ask before losing the given entities; `None` without one."""
    try:
        async with context.database.snapshot() as connection:
            await _check(context, connection, link, policy, losses)
    except TooManyDeletions as error:
        return error.question
    return None


@asynccontextmanager
async def asking(context: Context) -> AsyncIterator[None]:
    """Store the question of a link if the block raises `TooManyDeletions`.

    A separate transaction stores the question, since the transaction of the block is rolled back.
    So the link also waits after a restart.

    Raises:
        LinkReplaced
    """
    try:
        yield
    except TooManyDeletions as error:
        link, question, losses = error.link, error.question, error.losses
        text = f"{error.message} {error.hint}"
        async with context.database.transaction() as connection:
            shown = question.model_dump()
            is_new = await linklosses.ask(connection, link, shown, losses, text, error.pending)
            if is_new:
                await links.remember(connection, link, datetime.now(UTC), "asked", text[:500])
        if is_new:
            _log.warning("link asks", link=link.id, deletions=len(losses), digest=question.digest)
        raise


async def _check(
    context: Context,
    connection: Connection,
    link: Link,
    policy: Policy | None,
    losses: Collection[Origin],
    pending: int = 0,
) -> None:
    before = await linklosses.read(connection, link)
    together = ({*losses} | before.gone) - before.allowed
    # Most losses stay below the fixed count, so the costly count of held entities is not needed.
    if not passes_limit(context.settings, len(together), 0):
        return
    if policy is None:
        held = await writtenentities.count(connection, link.id)
    else:
        held = await linklosses.count_held(
            connection, policy.authorities, policy.scope, policy.types, own=policy.own
        )
    # The limit is a share of what the link held before its first loss, not of what is left.
    held += len(before.gone - {*losses})
    if passes_limit(context.settings, len(together), held):
        raise TooManyDeletions(link, question_about(link, together, held), together, pending)
