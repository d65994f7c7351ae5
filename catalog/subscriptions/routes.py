"""The paths of the Subscriptions API, and those of ours below a subscription."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.http.route import Route
from catalog.operations.operation import Anyone, Operation
from catalog.roles import Permission
from catalog.subscriptions import deadletters, requests, signingkeys
from catalog.subscriptions.attempts import list_attempts
from catalog.subscriptions.consentcallback import take_consent
from catalog.subscriptions.course import pause, replay, resume
from catalog.subscriptions.exampleevent import send_example

_ONE = "/subscriptions/{id}"
_DEAD = f"{_ONE}/deadletters"

routes: Sequence[Route] = (
    Route(
        Operation(method="GET", path="/subscriptions", needs=Permission.SUBSCRIBE),
        requests.list_subscriptions,
    ),
    Route(
        Operation(method="POST", path="/subscriptions", needs=Permission.SUBSCRIBE),
        requests.create_subscription,
    ),
    Route(
        Operation(method="GET", path=_ONE, needs=Permission.SUBSCRIBE), requests.get_subscription
    ),
    Route(
        Operation(method="PUT", path=_ONE, needs=Permission.SUBSCRIBE),
        requests.replace_subscription,
    ),
    Route(
        Operation(method="DELETE", path=_ONE, needs=Permission.SUBSCRIBE),
        requests.delete_subscription,
    ),
    # HEAD must change nothing, so it is none of the methods that consent. The sink answers with a
    # secret that only the sink was told.
    Route(
        Operation(method="GET", path=f"{_ONE}/consent", needs=Anyone.UNASKED, has_head=False),
        take_consent,
    ),
    Route(Operation(method="POST", path=f"{_ONE}/consent", needs=Anyone.UNASKED), take_consent),
    Route(
        Operation(method="GET", path=f"{_ONE}/signingkeys", needs=Permission.SUBSCRIBE),
        signingkeys.list_keys,
    ),
    Route(
        Operation(method="POST", path=f"{_ONE}/signingkeys", needs=Permission.SUBSCRIBE),
        signingkeys.add_key,
    ),
    Route(
        Operation(method="DELETE", path=f"{_ONE}/signingkeys/{{key}}", needs=Permission.SUBSCRIBE),
        signingkeys.end_key,
    ),
    Route(Operation(method="POST", path=f"{_ONE}/pause", needs=Permission.SUBSCRIBE), pause),
    Route(Operation(method="POST", path=f"{_ONE}/resume", needs=Permission.SUBSCRIBE), resume),
    Route(Operation(method="POST", path=f"{_ONE}/replay", needs=Permission.SUBSCRIBE), replay),
    Route(Operation(method="POST", path=f"{_ONE}/test", needs=Permission.SUBSCRIBE), send_example),
    Route(
        Operation(method="GET", path=f"{_ONE}/attempts", needs=Permission.SUBSCRIBE), list_attempts
    ),
    Route(
        Operation(method="GET", path=_DEAD, needs=Permission.SUBSCRIBE),
        deadletters.list_dead_letters,
    ),
    Route(
        Operation(method="DELETE", path=_DEAD, needs=Permission.SUBSCRIBE), deadletters.delete_all
    ),
    Route(
        Operation(method="POST", path=f"{_DEAD}/redeliver", needs=Permission.SUBSCRIBE),
        deadletters.redeliver_some,
    ),
    Route(
        Operation(method="GET", path=f"{_DEAD}/{{number}}", needs=Permission.SUBSCRIBE),
        deadletters.get_one,
    ),
    Route(
        Operation(method="DELETE", path=f"{_DEAD}/{{number}}", needs=Permission.SUBSCRIBE),
        deadletters.delete_one,
    ),
    Route(
        Operation(method="POST", path=f"{_DEAD}/{{number}}/redeliver", needs=Permission.SUBSCRIBE),
        deadletters.redeliver_one,
    ),
)
