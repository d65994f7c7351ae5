"""Requests whose answer depends on the mode of a link: to create, run or try a link."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from catalog.client import ClientError
from catalog.context import CONTEXT, Context
from catalog.http.outbound import open_session
from catalog.http.route import model_response
from catalog.model.concorderrors import SourceUnusable, TargetUnusable
from catalog.model.credentials import PeerCredential
from catalog.model.errors import BadRequest, XRegistryError
from catalog.model.linkterms import Mode
from catalog.operations.links import (
    DryRunAnswer,
    FoundCatalog,
    LinkAnswer,
    NewLink,
    NewLinkQuery,
    RunQuery,
    TriedCopies,
    TriedCopy,
)
from catalog.store import linkauthorities, links
from catalog.store.links import Link, LinkDefinition
from replication.deciding.batch import CopyFinding
from replication.links.conflictadvice import advice_about
from replication.links.linkanswers import answer_link, created_link, link_answer
from replication.links.linkdefinitions import (
    check_alone,
    check_members,
    check_number,
    check_pin,
    checked_definition,
    id_taken,
)
from replication.links.links import check_not_paused, existing_link
from replication.peers.keyhistories import trust_with_link
from replication.peers.linkerrors import describe
from replication.peers.peeraccess import PeerAccess, given_credential
from replication.store.linkcommands import run_now
from replication.store.linkcredentials import save_credential, with_credential
from replication.transfer.linkrun import LinkResources, LinkRun
from replication.transfer.transfer import DryRun, MakeTransfer

# The share of a request's time for a dry run; the rest is for the answer.
_TRIED_SHARE = 0.8
_UNDECIDED = (
    "The link would bring a complete copy: too much differs to tell it one by one, or the source "
    "offers no digests."
)

Probe = Callable[
    [Context, LinkDefinition, str, PeerAccess, bool],
    Awaitable[tuple[LinkDefinition, FoundCatalog | None]],
]
"""Asks the peer of a new link for its identity.

The arguments are the definition, the subject of errors, the credential of the link, and whether the
operator has named the mode; if not, the probe may choose a different mode for the source. Returns
the definition and the found catalog: `None` for a topic, where no catalog answers, and for a source
that pushes. Raises `SourceUnusable` or `TargetUnusable`.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkMode:
    """A mode of links.

    Args:
        transfer: makes the source and the sink of a link.
        probe: asks the peer for its identity.
        preview: predicts a run without writing; `None` for a mode without a prediction. Returns
            `None` if a complete copy is needed.
    """

    transfer: MakeTransfer
    probe: Probe
    preview: Callable[[LinkRun], Awaitable[DryRun | None]] | None = None


class LinkModes:
    """The handlers that depend on the mode of a link."""

    def __init__(self, modes: Mapping[Mode, LinkMode]) -> None:
        self._modes = modes

    async def create_link(
        self, request: web.Request, body: NewLink, query: NewLinkQuery
    ) -> web.Response:
        """Create a link, or tell what it would do.

        The source is pinned to the authority in the body, or to the authority that the source
        claims when asked, by the handler or at the first contact. A link of mode `accept` takes the
        pushes of an authority.
        """
        context = request[CONTEXT]
        definition = checked_definition(context, body, request.path)
        id = body.id or uuid.uuid4().hex[:12]
        given = given_credential(body, definition, context.settings, request.path)
        credential = given or PeerCredential()
        found = None
        # The dry run of a link that sends asks the target itself.
        if not query.force and not (query.dryrun and definition.sends):
            is_named = bool(body.model_fields_set & {"mode", "eventtopic"})
            access = PeerAccess(credential, context.settings)
            probe = self._modes[definition.mode].probe
            definition, found = await probe(context, definition, request.path, access, is_named)
            check_members(definition.mode, body, request.path)
        authority = body.authority
        if found is not None and authority is not None and definition.terms.is_nameless:
            found = found.model_copy(update={"authority": authority})
        elif found is not None:
            authority = authority or found.authority
        if found is not None and found.authority != authority:
            detail = f"it claims to be {found.authority}, not {authority}"
            if definition.sends:
                raise TargetUnusable(request.path, target=definition.target, error_detail=detail)
            raise SourceUnusable(request.path, source=definition.source, error_detail=detail)
        if query.dryrun:
            unsaved = links.unsaved(id, definition, authority)
            tried = await self._try(request, with_credential(unsaved, context.keys, credential))
            return model_response(tried)
        async with context.database.transaction() as connection:
            await check_number(connection, context, request.path)
            if definition.terms.needs == "authority":
                await check_alone(connection, body.authority or "", request.path)
            if found is not None:
                others = await linkauthorities.following(connection, found.authority)
                found = found.model_copy(update={"followedby": others})
            link = await links.create(connection, id, definition, authority)
            if link is None:
                raise await id_taken(connection, request, id)
            link = await save_credential(connection, context.keys, link, credential)
            is_named = body.authority is not None
            await check_pin(connection, request, id, definition, authority, is_named=is_named)
            await trust_with_link(connection, definition, authority, request.path)
            context.caller.author.name_target(f"/replication/links/{id}")
        return created_link(request, link_answer(link).model_copy(update={"found": found}))

    async def run_link(self, request: web.Request, query: RunQuery) -> LinkAnswer | DryRunAnswer:
        """Let a link read its source now, or tell what it would do.

        A link that waits after a failure, or has stopped, begins anew. With `?dryrun`, the link
        does not change.
        """
        if query.dryrun:
            async with request[CONTEXT].database.acquire() as connection:
                found = await existing_link(connection, request)
            return await self._try(request, found)
        async with request[CONTEXT].database.transaction() as connection:
            link = await existing_link(connection, request)
            check_not_paused(link, request.path)
            return answer_link(request, await run_now(connection, link))

    async def _try(self, request: web.Request, link: Link) -> DryRunAnswer:
        """Predict the copies that a link would bring, delete and refuse.

        The link may be paused, or not be stored.

        Raises:
            SourceUnusable, TargetUnusable: the peer does not answer, or may not have the claimed
                authority.
            BadRequest: links of the mode have no dry run.
        """
        context, definition = request[CONTEXT], link.definition
        preview = self._modes[link.definition.mode].preview
        if preview is None:
            detail = f'a link of mode "{definition.mode}" has no dry run: its source begins'
            raise BadRequest(request.path, error_detail=detail)

        def unusable(fault: str, hint: str) -> XRegistryError:
            if definition.sends:
                return TargetUnusable(
                    request.path, target=definition.target, error_detail=fault, detail=hint
                )
            return SourceUnusable(
                request.path, source=definition.source, error_detail=fault, detail=hint
            )

        seconds = _TRIED_SHARE * context.settings.request_timeout_seconds
        try:
            async with (
                asyncio.timeout(seconds),
                open_session(context.settings, total_seconds=seconds) as session,
            ):
                found = await preview(LinkRun.of(link, LinkResources.of(context, session)))
        except ClientError as error:
            raise unusable(describe(error, definition.peer).rstrip("."), error.hint) from error
        except TimeoutError as error:
            fault = f"it could not be read within {seconds:.0f} seconds"
            raise unusable(fault, "Try the link with a narrower scope (`--scope`).") from error
        if found is None:
            return DryRunAnswer(isdecided=False, reason=_UNDECIDED)
        return _answer(found, link)


def _answer(found: DryRun, link: Link) -> DryRunAnswer:
    outcomes = {
        outcome: TriedCopies(number=number, first=[_tried(e, link) for e in found.first[outcome]])
        for outcome, number in found.numbers.most_common()
    }
    return DryRunAnswer(
        isdecided=True,
        rows=found.rows,
        differing=found.differing,
        outcomes=outcomes,
        question=None if found.question is None else found.question.shown(),
    )


def _tried(finding: CopyFinding, link: Link) -> TriedCopy:
    advice = (
        advice_about(finding.verdict.value, link, finding.origin.xid) if finding.detail else None
    )
    return TriedCopy(
        authority=finding.origin.authority,
        origin=finding.origin.xid,
        xid=finding.xid,
        epoch=finding.epoch,
        detail=finding.detail or None,
        advice=advice,
    )
