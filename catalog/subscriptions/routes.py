"""The paths of the Subscriptions API, and Concord's own paths below a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations import deliveries, subscriptions
from catalog.subscriptions import (
    consents,
    deliverycontrol,
    exampleevent,
    requests,
    signingkeys,
)

routes: Sequence[Route] = (
    Route(subscriptions.LIST_SUBSCRIPTIONS, requests.list_subscriptions),
    Route(subscriptions.CREATE_SUBSCRIPTION, requests.create_subscription),
    Route(subscriptions.GET_SUBSCRIPTION, requests.get_subscription),
    Route(subscriptions.REPLACE_SUBSCRIPTION, requests.replace_subscription),
    Route(subscriptions.DELETE_SUBSCRIPTION, requests.delete_subscription),
    Route(deliveries.GIVE_CONSENT, consents.take_consent),
    Route(deliveries.POST_CONSENT, consents.post_consent),
    Route(subscriptions.ADD_KEY, signingkeys.add_signing_key),
    Route(subscriptions.END_KEY, signingkeys.end_signing_key),
    Route(deliveries.CHANGE_SUBSCRIPTION, deliverycontrol.change_subscription),
    Route(deliveries.SEND_EXAMPLE, exampleevent.send_example),
    Route(deliveries.LIST_ATTEMPTS, deliverycontrol.list_attempts),
    Route(deliveries.LIST_DEAD_LETTERS, deliverycontrol.list_dead_letters),
    Route(deliveries.DELETE_DEAD_LETTERS, deliverycontrol.delete_dead_letters),
    Route(deliveries.REDELIVER_DEAD_LETTERS, deliverycontrol.redeliver_dead_letters),
    Route(deliveries.GET_DEAD_LETTER, deliverycontrol.get_dead_letter),
    Route(deliveries.DELETE_DEAD_LETTER, deliverycontrol.delete_dead_letter),
)
