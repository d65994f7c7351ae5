"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.api.routedescription import RouteDescription
from catalog.http.route import Route
from catalog.operations.operation import Operation
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
    repair,
    selectionchange,
    signatureaudit,
    signing,
    trusting,
)
from replication.openapi_replication import DESCRIPTION

routes: Sequence[Route | RouteDescription] = (
    DESCRIPTION,
    *handshake.routes,
    *feed.routes,
    *digests.routes,
    *repair.routes,
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
    *receive.routes,
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
    *recovery.routes,
    *reconciliationresults.routes,
    *handoveroffers.routes,
    *handoverrequests.routes,
    *keyhistories.routes,
    *signing.routes,
    *trusting.routes,
    *signatureaudit.routes,
    *notifications.routes,
)
