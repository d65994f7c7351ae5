"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations import links as declared
from replication.feed import digests, feed
from replication.handover import handoveroffers, handoverrequests
from replication.links import linkchange, links
from replication.links.linkmodes import LinkModes
from replication.modes import MODES
from replication.peers import handshake, keyhistories
from replication.recovery import reconciliationresults, recovery, repair
from replication.signing import signatureaudit, signing
from replication.sinks import receive
from replication.sources import notifications

_by_mode = LinkModes(MODES)

routes: Sequence[Route] = (
    *handshake.routes,
    *feed.routes,
    *digests.routes,
    *repair.routes,
    Route(declared.LIST_LINKS, links.list_links),
    Route(declared.CREATE_LINK, _by_mode.create_link),
    Route(declared.GET_LINK, links.get_link),
    Route(declared.REPLACE_LINK, links.replace_link),
    Route(declared.CHANGE_LINK, linkchange.change_link),
    Route(declared.DELETE_LINK, links.delete_link),
    Route(declared.RESET_LINK, links.reset_link),
    Route(declared.RUN_LINK, _by_mode.run_link),
    Route(declared.LIST_CONFLICTS, links.list_conflicts),
    *receive.routes,
    *recovery.routes,
    *reconciliationresults.routes,
    *handoveroffers.routes,
    *handoverrequests.routes,
    *keyhistories.routes,
    *signing.routes,
    *signatureaudit.routes,
    *notifications.routes,
)
