"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.api.routedescription import RouteDescription
from catalog.http.route import Route
from catalog.operations.operation import Anyone, Operation
from catalog.roles import Permission
from replication import (
    acceptances,
    digests,
    feed,
    handoveroffers,
    handoverrequests,
    handshake,
    keyhistories,
    linkrequests,
    links,
    notifications,
    receive,
    reconciliationresults,
    recovery,
    selectionchange,
    signatureaudit,
    signing,
    trusting,
)
from replication.openapi_replication import DESCRIPTION

routes: Sequence[Route | RouteDescription] = (
    DESCRIPTION,
    Route(
        Operation(method="GET", path="/replication", needs=Permission.FOLLOW),
        handshake.get_handshake,
    ),
    Route(
        Operation(method="GET", path="/replication/changes", needs=Permission.FOLLOW),
        feed.get_changes,
    ),
    Route(
        Operation(method="GET", path="/replication/snapshot", needs=Permission.FOLLOW),
        feed.get_snapshot,
    ),
    Route(
        Operation(method="GET", path="/replication/digests", needs=Permission.FOLLOW),
        digests.get_digests,
    ),
    Route(
        Operation(method="POST", path="/replication/fetch", needs=Permission.FOLLOW),
        feed.post_fetch,
    ),
    Route(
        Operation(method="POST", path="/replication/repair", needs=Permission.REPLICATE),
        links.post_repair,
    ),
    Route(
        Operation(method="GET", path="/replication/links", needs=Permission.REPLICATE),
        links.list_links,
    ),
    Route(
        Operation(method="POST", path="/replication/links", needs=Permission.ADMINISTER),
        links.create_link,
    ),
    Route(
        Operation(method="GET", path="/replication/links/{id}", needs=Permission.REPLICATE),
        links.get_link,
    ),
    Route(
        Operation(method="PUT", path="/replication/links/{id}", needs=Permission.ADMINISTER),
        links.replace_link,
    ),
    Route(
        Operation(method="PATCH", path="/replication/links/{id}", needs=Permission.ADMINISTER),
        selectionchange.change_selection,
    ),
    Route(
        Operation(method="DELETE", path="/replication/links/{id}", needs=Permission.ADMINISTER),
        links.delete_link,
    ),
    Route(
        Operation(method="POST", path="/replication/links/{id}/pin", needs=Permission.ADMINISTER),
        links.pin_link,
    ),
    Route(
        Operation(method="POST", path="/replication/links/{id}/reset", needs=Permission.ADMINISTER),
        links.reset_link,
    ),
    Route(
        Operation(method="POST", path="/replication/links/{id}/pause", needs=Permission.ADMINISTER),
        linkrequests.pause_link,
    ),
    Route(
        Operation(
            method="POST", path="/replication/links/{id}/resume", needs=Permission.ADMINISTER
        ),
        linkrequests.resume_link,
    ),
    Route(
        Operation(method="POST", path="/replication/links/{id}/run", needs=Permission.ADMINISTER),
        linkrequests.run_link,
    ),
    Route(
        Operation(method="POST", path="/replication/links/{id}/allow", needs=Permission.ADMINISTER),
        linkrequests.allow_link,
    ),
    Route(
        Operation(
            method="GET", path="/replication/links/{id}/conflicts", needs=Permission.ADMINISTER
        ),
        links.list_conflicts,
    ),
    Route(
        Operation(method="POST", path="/replication/entities", needs=Permission.PUSH),
        receive.post_entities,
    ),
    Route(
        Operation(method="GET", path="/replication/acceptances", needs=Permission.ADMINISTER),
        acceptances.list_acceptances,
    ),
    Route(
        Operation(method="POST", path="/replication/acceptances", needs=Permission.ADMINISTER),
        acceptances.create_acceptance,
    ),
    Route(
        Operation(
            method="DELETE", path="/replication/acceptances/{id}", needs=Permission.ADMINISTER
        ),
        acceptances.delete_acceptance,
    ),
    Route(
        Operation(method="GET", path="/replication/recovery", needs=Permission.ADMINISTER),
        recovery.get_recovery,
    ),
    Route(
        Operation(method="POST", path="/replication/recovery", needs=Permission.ADMINISTER),
        recovery.begin_recovery,
    ),
    Route(
        Operation(method="DELETE", path="/replication/recovery", needs=Permission.ADMINISTER),
        recovery.abort_recovery,
    ),
    Route(
        Operation(method="POST", path="/replication/recovery/resume", needs=Permission.ADMINISTER),
        recovery.resume_recovery,
    ),
    Route(
        Operation(method="POST", path="/replication/recovery/bury", needs=Permission.ADMINISTER),
        recovery.bury_refused,
    ),
    Route(
        Operation(method="GET", path="/replication/recovery/findings", needs=Permission.ADMINISTER),
        recovery.list_findings,
    ),
    Route(
        Operation(method="GET", path="/replication/reconciliations", needs=Permission.REPLICATE),
        reconciliationresults.list_reconciliations,
    ),
    Route(
        Operation(method="POST", path="/replication/reconciliations", needs=Permission.REPLICATE),
        reconciliationresults.post_reconciliation,
    ),
    Route(
        Operation(method="GET", path="/replication/handovers", needs=Permission.ADMINISTER),
        handoverrequests.list_handovers,
    ),
    Route(
        Operation(method="POST", path="/replication/handovers", needs=Permission.ADMINISTER),
        handoverrequests.begin_handover,
    ),
    Route(
        Operation(method="POST", path="/replication/handovers/offers", needs=Permission.REPLICATE),
        handoveroffers.hear_offer,
    ),
    Route(
        Operation(method="GET", path="/replication/handovers/consent", needs=Permission.REPLICATE),
        handoveroffers.get_consent,
    ),
    Route(
        Operation(method="GET", path="/replication/handovers/{id}", needs=Permission.REPLICATE),
        handoverrequests.get_handover,
    ),
    Route(
        Operation(method="DELETE", path="/replication/handovers/{id}", needs=Permission.REPLICATE),
        handoverrequests.abort_handover,
    ),
    Route(
        Operation(
            method="GET", path="/replication/handovers/{id}/copies", needs=Permission.REPLICATE
        ),
        handoveroffers.get_copies,
    ),
    Route(
        Operation(method="GET", path="/replication/keys", needs=Permission.FOLLOW),
        keyhistories.get_keys,
    ),
    Route(
        Operation(method="POST", path="/replication/keys", needs=Permission.PUSH),
        keyhistories.post_keys,
    ),
    Route(
        Operation(method="GET", path="/replication/signing", needs=Permission.REPLICATE),
        signing.get_signing,
    ),
    Route(
        Operation(method="PUT", path="/replication/signing", needs=Permission.ADMINISTER),
        signing.put_signing,
    ),
    Route(
        Operation(method="POST", path="/replication/signing/rotate", needs=Permission.ADMINISTER),
        signing.rotate_key,
    ),
    Route(
        Operation(method="GET", path="/replication/trust", needs=Permission.ADMINISTER),
        trusting.list_trust,
    ),
    Route(
        Operation(method="POST", path="/replication/trust", needs=Permission.ADMINISTER),
        trusting.add_trust,
    ),
    Route(
        Operation(method="DELETE", path="/replication/trust", needs=Permission.ADMINISTER),
        trusting.remove_trust,
    ),
    Route(
        Operation(method="GET", path="/replication/signatures", needs=Permission.FOLLOW),
        signatureaudit.get_signatures,
    ),
    Route(
        Operation(method="POST", path="/notifications", needs=Anyone.UNASKED),
        notifications.post_notification,
    ),
    Route(
        Operation(method="OPTIONS", path="/notifications", needs=Anyone.UNASKED),
        notifications.grant_notifications,
    ),
)
