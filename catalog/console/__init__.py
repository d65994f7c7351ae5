"""The console: pages for people, which read the catalog by the operations of its API alone."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.console.accesspages import access_routes
from catalog.console.actions import action_routes
from catalog.console.changepage import change_routes
from catalog.console.checkpage import check_routes
from catalog.console.comparisonpages import comparison_routes
from catalog.console.entityforms import create, delete, edit
from catalog.console.entitypages import entity_routes
from catalog.console.federationpages import federation_routes
from catalog.console.linkactions import LINK_ACTIONS, add_link
from catalog.console.livepage import live_routes
from catalog.console.login import login_routes
from catalog.console.operationpages import operation_routes
from catalog.console.page import answer_refusal
from catalog.console.searchpage import search_routes
from catalog.console.startpage import start_routes
from catalog.console.staticfiles import GET_FILE, get_file
from catalog.console.subscriptionactions import SUBSCRIPTION_ACTIONS
from catalog.console.subscriptionpages import subscribe, subscription_routes
from catalog.http.route import Route

routes: Sequence[Route] = (
    *start_routes,
    *search_routes,
    *entity_routes,
    *access_routes,
    *change_routes,
    *federation_routes,
    *subscription_routes,
    *action_routes(*LINK_ACTIONS, add_link, *SUBSCRIPTION_ACTIONS, subscribe, create, edit, delete),
    *check_routes,
    *live_routes,
    *comparison_routes,
    *operation_routes,
    *login_routes,
    Route(GET_FILE, get_file, answer_refusal),
)
