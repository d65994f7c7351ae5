"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations import links as declared
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

routes: Sequence[Route] = (
    *handshake.routes,
    *feed.routes,
    *digests.routes,
    *repair.routes,
    Route(declared.LIST_LINKS, links.list_links),
    Route(declared.CREATE_LINK, links.create_link),
    Route(declared.GET_LINK, links.get_link),
    Route(declared.REPLACE_LINK, links.replace_link),
    Route(declared.CHANGE_LINK, selectionchange.change_link),
    Route(declared.DELETE_LINK, links.delete_link),
    Route(declared.PIN_LINK, links.pin_link),
    Route(declared.RESET_LINK, links.reset_link),
    Route(declared.PAUSE_LINK, linkrequests.pause_link),
    Route(declared.RESUME_LINK, linkrequests.resume_link),
    Route(declared.RUN_LINK, linkrequests.run_link),
    Route(declared.ALLOW_LINK, linkrequests.allow_link),
    Route(declared.LIST_CONFLICTS, links.list_conflicts),
    Route(declared.LIST_ACCEPTANCES, acceptances.list_acceptances),
    Route(declared.CREATE_ACCEPTANCE, acceptances.create_acceptance),
    Route(declared.DELETE_ACCEPTANCE, acceptances.delete_acceptance),
    *receive.routes,
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
