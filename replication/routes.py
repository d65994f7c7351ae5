"""The routes of replication."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations import links as declared
from replication import federation, modes
from replication.feed import cards, digestrequests, feedrequests, followers
from replication.handover import handoverrequests
from replication.links import linkanswers, links
from replication.peers import handshake, keyhistories, peerchecks
from replication.recovery import comparisonreports, recoveryrequests
from replication.signing import signing
from replication.sinks import pushedcopies
from replication.sources import notifications

routes: Sequence[Route] = (
    *handshake.routes,
    *peerchecks.routes,
    *feedrequests.routes,
    *digestrequests.routes,
    *followers.routes,
    *cards.routes,
    *comparisonreports.routes,
    Route(declared.LIST_LINKS, links.list_links),
    Route(declared.CREATE_LINK, modes.create_link),
    Route(declared.GET_LINK, links.get_link),
    Route(declared.REPLACE_LINK, links.replace_link),
    Route(declared.CHANGE_LINK, links.change_link),
    Route(declared.DELETE_LINK, links.delete_link),
    Route(declared.RESET_LINK, links.reset_link),
    Route(declared.RUN_LINK, modes.run_link),
    Route(declared.ADOPT_LINK, handoverrequests.adopt_link),
    Route(declared.LIST_CONFLICTS, links.list_conflicts),
    *linkanswers.routes,
    *federation.routes,
    *pushedcopies.routes,
    *recoveryrequests.routes,
    *handoverrequests.routes,
    *keyhistories.routes,
    *signing.routes,
    *notifications.routes,
)
