"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations import links as declared
from replication.feed import digests, feed
from replication.handover import handoveroffers, handoverrequests
from replication.links import linkchange, links, notifications
from replication.peers import handshake, keyhistories, trusting
from replication.recovery import reconciliationresults, recovery, repair
from replication.signing import signatureaudit, signing
from replication.sinks import receive

routes: Sequence[Route] = (
    *handshake.routes,
    *feed.routes,
    *digests.routes,
    *repair.routes,
    Route(declared.LIST_LINKS, links.list_links),
    Route(declared.CREATE_LINK, links.create_link),
    Route(declared.GET_LINK, links.get_link),
    Route(declared.REPLACE_LINK, links.replace_link),
    Route(declared.CHANGE_LINK, linkchange.change_link),
    Route(declared.DELETE_LINK, links.delete_link),
    Route(declared.RESET_LINK, links.reset_link),
    Route(declared.RUN_LINK, links.run_link),
    Route(declared.LIST_CONFLICTS, links.list_conflicts),
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
