"""The client of the API of a node."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import orjson

from catalog.client.connection import JsonObject, Params
from catalog.client.documentcalls import DocumentCalls
from catalog.client.events import EventCalls
from catalog.client.exports import ExportCalls
from catalog.client.operationcalls import OperationCalls
from catalog.client.replication import ReplicationCalls
from catalog.client.subscriptions import SubscriptionCalls
from catalog.operations import (
    access,
    audit,
    changes,
    handovers,
    recovery,
    references,
    search,
)
from catalog.operations.access import (
    AccessDecision,
    AccessRequest,
    AccessRequestsQuery,
    GrantingRule,
    GroupHolders,
    HoldersQuery,
    NewAccessRequest,
    NewRule,
    NewToken,
    RuleChanges,
    Token,
    Whoami,
)
from catalog.operations.audit import AuditEntry, AuditQuery
from catalog.operations.changes import (
    CatalogChangesQuery,
    ChangeAnswer,
    ChangeEntry,
    DiffAnswer,
    DiffQuery,
    PurgeAnswer,
    PurgeQuery,
    RevisionAnswer,
    RevisionQuery,
    RevisionsAnswer,
    RevisionsQuery,
)
from catalog.operations.handovers import (
    Consent,
    EndQuery,
    HandoverAnswer,
    HandoverOffer,
    HandoverQuery,
    NewHandover,
    OfferAnswer,
)
from catalog.operations.recovery import (
    NewRecovery,
    RecoveryAnswer,
    RecoveryChanges,
    RecoveryFindingAnswer,
    RecoveryQuery,
)
from catalog.operations.references import ReferencesAnswer, ReferencesQuery
from catalog.operations.search import SearchAnswer, SearchQuery


class RecoveryCalls(OperationCalls):
    """The calls for a recovery, in which a node takes back the entities of its authority."""

    async def begin_recovery(self, wanted: NewRecovery, *, force: bool = False) -> RecoveryAnswer:
        """Take back the entities of the node from replicas; the node refuses writes meanwhile.

        Args:
            force: do not ask the replicas first, since replicas may be unreachable at the moment.
        """
        query = RecoveryQuery(force=force)
        return await self.call(recovery.BEGIN_RECOVERY, wanted, query=query)

    async def recovery(self) -> RecoveryAnswer:
        """The recovery under way, or the last recovery."""
        return await self.call(recovery.GET_RECOVERY)

    async def recovery_findings(self) -> list[RecoveryFindingAnswer]:
        """The origins that could not be taken, were deleted, or had differing copies."""
        pages = self.call_pages(recovery.LIST_FINDINGS)
        return [finding async for page in pages for finding in page.findings]

    async def change_recovery(self, wanted: RecoveryChanges) -> RecoveryAnswer:
        """Continue at once and retry the failed origins, or delete them at every replica."""
        return await self.call(recovery.CHANGE_RECOVERY, wanted)

    async def abort_recovery(self) -> RecoveryAnswer:
        """End the recovery in its present state, and let clients write."""
        return await self.call(recovery.ABORT_RECOVERY)


class HandoverCalls(OperationCalls):
    """The calls by which two operators and their nodes hand a group over."""

    async def begin_handover(self, wanted: NewHandover) -> HandoverAnswer:
        """Offer a group to a second catalog, or consent to take a group from a second catalog."""
        return await self.call(handovers.BEGIN_HANDOVER, wanted)

    async def handovers(self) -> list[HandoverAnswer]:
        """The handovers under way at the node, and the handovers that ended last."""
        pages = self.call_pages(handovers.LIST_HANDOVERS)
        return [each async for page in pages for each in page.handovers]

    async def handover(self, id: str) -> HandoverAnswer:
        return await self.call(handovers.GET_HANDOVER, id=id)

    async def abort_handover(self, id: str, *, force: bool = False) -> HandoverAnswer:
        """End a handover, unless the group may have been given already.

        Args:
            force: end the handover even if the giver does not answer; only the giver knows whether
                the group was given.
        """
        return await self.call(handovers.ABORT_HANDOVER, query=EndQuery(force=force), id=id)

    async def tell_offer(self, offer: HandoverOffer) -> OfferAnswer:
        """Tell the taker about an offered handover, and ask for the state at the taker."""
        return await self.call(handovers.TELL_OFFER, offer)

    async def consent(self, group: str, authority: str) -> Consent:
        """Ask whether the operator of the node consented to take a group of an authority."""
        query = HandoverQuery(group=group, authority=authority)
        return await self.call(handovers.GET_CONSENT, query=query)

    def handover_lines(self, id: str) -> AsyncGenerator[bytes]:
        """The lines of a group that the node hands over, or could hand over; see `lines`."""
        path = handovers.GET_COPIES.path.format(id=id)
        return self.lines("GET", path, is_bounded=False)


class AccessCalls(OperationCalls):
    """Calls of `/access` and `/audit`, for admins; admins of groups may manage rules only."""

    async def whoami(self) -> Whoami:
        """The identity and the roles of the client at the node."""
        return await self.call(access.WHOAMI)

    async def tokens(self) -> list[Token]:
        """The tokens of the node, without secrets."""
        return (await self.call(access.LIST_TOKENS)).tokens

    async def token(self, id: str) -> Token:
        """A token, without the secret, with roles at up to 1,000 paths."""
        return await self.call(access.GET_TOKEN, id=id)

    async def create_token(self, wanted: NewToken) -> Token:
        """Make a token; only the answer has the text of the token, as `token`."""
        return await self.call(access.CREATE_TOKEN, wanted)

    async def revoke_token(self, id: str) -> None:
        await self.call(access.DELETE_TOKEN, id=id)

    async def holders(self, path: str) -> GroupHolders:
        """Who may read and write a group: names for those who may grant, numbers for others."""
        return await self.call(access.LIST_HOLDERS, query=HoldersQuery(of=path))

    async def request_access(self, wanted: NewAccessRequest) -> AccessRequest:
        """Ask for a role in a group."""
        return await self.call(access.REQUEST_ACCESS, wanted)

    async def access_requests(self, query: AccessRequestsQuery) -> list[AccessRequest]:
        """The client's requests for access, and those that the client may decide."""
        pages = self.call_pages(access.LIST_REQUESTS, query=query)
        return [each async for page in pages for each in page.requests]

    async def grant_request(self, id: str, decision: AccessDecision) -> AccessRequest:
        """Grant a request for access: a rule gives the role to the caller who asked."""
        return await self.call(access.GRANT_REQUEST, decision, id=id)

    async def decline_request(self, id: str, decision: AccessDecision) -> AccessRequest:
        """Decline a request for access."""
        return await self.call(access.DECLINE_REQUEST, decision, id=id)

    async def withdraw_request(self, id: str) -> None:
        """Forget a request for access of the client, or one that the client may decide."""
        await self.call(access.WITHDRAW_REQUEST, id=id)

    async def rules(self) -> list[GrantingRule]:
        """The rules that the client may manage, each with the first paths."""
        return [rule async for page in self.call_pages(access.LIST_RULES) for rule in page.rules]

    async def rule(self, id: str) -> GrantingRule:
        """A rule with every path."""
        return await self.call(access.GET_RULE, id=id)

    async def grant(self, wanted: NewRule) -> GrantingRule:
        """Give a role in groups to each caller that meets a condition."""
        return await self.call(access.CREATE_RULE, wanted)

    async def change_rule(self, id: str, changes: RuleChanges) -> GrantingRule:
        """Replace the members of a rule that are set in `changes`."""
        return await self.call(access.CHANGE_RULE, changes, id=id)

    async def remove_rule(self, id: str) -> None:
        """Remove a rule, and thereby revoke the role that the rule gives."""
        await self.call(access.DELETE_RULE, id=id)

    async def audit(self, wanted: AuditQuery | None = None) -> list[AuditEntry]:
        """A page of the audit: newest entries first, or with `after` in the order of the log."""
        return (await self.call(audit.READ_AUDIT, query=wanted)).audit


class Client(
    ExportCalls,
    DocumentCalls,
    SubscriptionCalls,
    EventCalls,
    ReplicationCalls,
    RecoveryCalls,
    HandoverCalls,
    AccessCalls,
):
    """The API of one node, opened by `Client.open`; every method raises `ClientError`.

    The client repeats requests that are safe to repeat; see `request`.
    """

    async def search(self, wanted: SearchQuery) -> SearchAnswer:
        """Search groups and resources by words; the answer is one page of the hits."""
        return await self.call(search.SEARCH, query=wanted)

    async def references(self, wanted: ReferencesQuery) -> ReferencesAnswer:
        """What refers to an entity, and what the entity refers to."""
        return await self.call(references.READ_REFERENCES, query=wanted)

    async def diff(self, wanted: DiffQuery) -> DiffAnswer:
        """What differs between two versions, or two revisions of an entity."""
        return await self.call(changes.READ_DIFF, query=wanted)

    async def catalog_changes(self, wanted: CatalogChangesQuery | None = None) -> list[ChangeEntry]:
        """A page of what changed, the newest first, as far as the client may see it."""
        return (await self.call(changes.LIST_CHANGES, query=wanted)).changes

    async def catalog_change(self, sequence: str) -> ChangeAnswer:
        """A change, with what was different before and after it."""
        return await self.call(changes.READ_CHANGE, sequence=sequence)

    async def revisions(self, wanted: RevisionsQuery) -> RevisionsAnswer:
        """A page of the revisions of an entity, the newest first."""
        return await self.call(changes.LIST_REVISIONS, query=wanted)

    async def revision(self, epoch: int, wanted: RevisionQuery) -> RevisionAnswer:
        """The content that an entity had at an epoch."""
        return await self.call(changes.READ_REVISION, query=wanted, epoch=str(epoch))

    async def purge_revisions(self, wanted: PurgeQuery) -> PurgeAnswer:
        """Empty the former contents of an entity, and of all below it."""
        return await self.call(changes.PURGE_REVISIONS, query=wanted)

    async def model(self) -> JsonObject:
        """The full model, with the attributes that the standard adds."""
        return await self.get("/model")

    async def modelsource(self) -> JsonObject:
        """The source of the model, as written by the operator."""
        return await self.get("/modelsource")

    async def put_modelsource(self, source: Any) -> JsonObject:
        """Replace the model; the node refuses a model to which an entity does not conform."""
        return await self.put("/modelsource", source)

    async def capabilities(self) -> JsonObject:
        return await self.get("/capabilities")

    async def offered_capabilities(self) -> JsonObject:
        """The values that the capabilities may have."""
        return await self.get("/capabilitiesoffered")

    async def put_capabilities(self, capabilities: Any) -> JsonObject:
        """Replace the capabilities; missing capabilities are turned off."""
        return await self.put("/capabilities", capabilities)

    async def update_capabilities(self, changes: Any) -> JsonObject:
        """Change the given capabilities and keep the rest."""
        return await self.patch("/capabilities", changes)

    async def validate(self, definition: str, message: Any) -> JsonObject:
        """Check whether a message conforms to its definition; the answer lists the violations.

        Args:
            definition: the xid of a message or of a version of a message.
            message: a CloudEvent in JSON, or a message as JSON (`concord validate --help`).
        """
        return await self._validate(definition, message, ())

    async def validate_by_type(self, message: Any, type: str | None = None) -> JsonObject:
        """Check a CloudEvent as `validate` does, with the definition that its type finds.

        Args:
            message: a CloudEvent in JSON.
            type: the type, if `message` is the data of the CloudEvent alone.
        """
        return await self._validate("", message, {} if type is None else {"type": type})

    async def _validate(self, definition: str, message: Any, params: Params) -> JsonObject:
        body = message if isinstance(message, bytes) else orjson.dumps(message)
        return await self._json(
            "POST",
            f"/validate{definition}",
            params=params,
            body=body,
            headers={"Content-Type": "application/json"},
            is_repeatable=True,
        )
