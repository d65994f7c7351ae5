"""The paths of the Subscriptions API, and those of ours below a subscription."""

from __future__ import annotations

from aiohttp import web

from catalog.http.deadline import bounded
from catalog.subscriptions import deadletters, requests, signingkeys
from catalog.subscriptions.attempts import list_attempts
from catalog.subscriptions.consentcallback import take_consent
from catalog.subscriptions.course import pause, replay, resume
from catalog.subscriptions.exampleevent import send_example

_ONE = "/subscriptions/{id}"
_DEAD = f"{_ONE}/deadletters"

routes: list[web.RouteDef] = [
    web.get("/subscriptions", bounded(requests.list_subscriptions)),
    web.post("/subscriptions", bounded(requests.create_subscription)),
    web.get(_ONE, bounded(requests.get_subscription)),
    web.put(_ONE, bounded(requests.replace_subscription)),
    web.delete(_ONE, bounded(requests.delete_subscription)),
    # HEAD must change nothing, so it is none of the methods that consent.
    web.get(f"{_ONE}/consent", bounded(take_consent), allow_head=False),
    web.post(f"{_ONE}/consent", bounded(take_consent)),
    web.get(f"{_ONE}/signingkeys", bounded(signingkeys.list_keys)),
    web.post(f"{_ONE}/signingkeys", bounded(signingkeys.add_key)),
    web.delete(f"{_ONE}/signingkeys/{{key}}", bounded(signingkeys.end_key)),
    web.post(f"{_ONE}/pause", bounded(pause)),
    web.post(f"{_ONE}/resume", bounded(resume)),
    web.post(f"{_ONE}/replay", bounded(replay)),
    web.post(f"{_ONE}/test", bounded(send_example)),
    web.get(f"{_ONE}/attempts", bounded(list_attempts)),
    web.get(_DEAD, bounded(deadletters.list_dead_letters)),
    web.delete(_DEAD, bounded(deadletters.delete_all)),
    web.post(f"{_DEAD}/redeliver", bounded(deadletters.redeliver_some)),
    web.get(f"{_DEAD}/{{number}}", bounded(deadletters.get_one)),
    web.delete(f"{_DEAD}/{{number}}", bounded(deadletters.delete_one)),
    web.post(f"{_DEAD}/{{number}}/redeliver", bounded(deadletters.redeliver_one)),
]
