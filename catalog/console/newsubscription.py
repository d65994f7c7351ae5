"""A new subscription: what it would have been sent lately, and then the subscription."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from aiohttp import web

from catalog.console.actions import Action, ActionQuestion, ActionResult, FormFault, digest_of
from catalog.console.forms import Form
from catalog.console.page import ConsolePage, entity_url, local_path, render
from catalog.console.subscriptionactions import SUBSCRIPTIONS, subscription_page
from catalog.model.roles import Permission
from catalog.operations.subscriptions import (
    CREATE_SUBSCRIPTION,
    TRY_SUBSCRIPTION,
    NewSubscriptionQuery,
    TriedSubscription,
)

_PROTOCOLS = {
    **{"http": "HTTP", "https": "HTTP", "kafka": "KAFKA", "kafkas": "KAFKA"},
    **{"mqtt": "MQTT5", "mqtts": "MQTT5", "nats": "NATS", "tls": "NATS"},
    **{"amqp": "AMQP", "amqps": "AMQP"},
}
_SIGNATURES = (
    ("", "not signed"),
    ("ed25519", "signed, checked with a public key"),
    ("hmac-sha256", "signed, checked with a shared secret"),
)
_MODES = (
    ("", "attributes in headers, data in the body"),
    ("structured", "one JSON object"),
    ("batched", "arrays of JSON objects"),
)


async def _ask(_: ConsolePage, form: Form) -> ActionQuestion:
    return _question(form)


def _question(
    form: Form, trial: TriedSubscription | None = None, tried: str = ""
) -> ActionQuestion:
    about = local_path(form.get("about", "").strip())
    return ActionQuestion(
        title="Send events of changes",
        button="Subscribe",
        back=entity_url(about) if about else SUBSCRIPTIONS,
        template="newsubscription.html",
        values={
            "trial": trial,
            "tried": tried,
            "modes": _MODES,
            "signatures": _SIGNATURES,
            "has_more": any(form.get(name) for name in ("types", "filters", "settings")),
        },
    )


async def _act(page: ConsolePage, form: Form) -> ActionResult | ActionQuestion | web.Response:
    wanted = _definition_in(form)
    digest = digest_of(wanted)
    # What was told is made, and not what was typed after it was told.
    if form.get("step") != "add" or form.get("tried") != digest:
        query = NewSubscriptionQuery(dryrun=True)
        trial = await page.node.call(TRY_SUBSCRIPTION, wanted, query=query)
        return _question(form, trial, digest)
    made = await page.node.call(CREATE_SUBSCRIPTION, wanted)
    if any(key.secret for key in made.signingkeys or ()):
        # The secret is in this answer alone, so no other page can show it.
        keys = made.signingkeys
        return await render(page, "newkey.html", keys=keys, back=subscription_page(made.id))
    says = "The subscription is made: each later change is sent."
    if made.status.state == "pending":
        says = "The subscription is made, and waits until its sink agrees."
    return ActionResult(says=says, page=subscription_page(made.id))


def _definition_in(form: Form) -> dict[str, Any]:
    """The definition of a subscription that a form has, without what was left empty."""
    given = {name: text.strip() for name, text in form.items()}
    sink, about = given.get("sink", ""), given.get("about", "").rstrip("/")
    if not sink:
        raise FormFault("The subscription needs the URL that events are sent to.", sink="Missing.")
    filters = _json_in(given, "filters", list)
    if about:
        subject = {"exact": {"subject": about}}
        filters = [{"any": [subject, {"prefix": {"subject": f"{about}/"}}]}, *filters]
    settings = _json_in(given, "settings", dict)
    settings |= {name: given[name] for name in ("contentmode", "signature") if given.get(name)}
    definition: dict[str, Any] = {
        "sink": sink,
        "protocol": _PROTOCOLS.get(sink.partition(":")[0].lower(), "HTTP"),
        "types": given.get("types", "").split(),
        "filters": filters,
        "protocolsettings": settings,
    }
    return {name: value for name, value in definition.items() if value}


def _json_in(given: Mapping[str, str], name: str, kind: type[Any]) -> Any:
    """The JSON in a field; an empty value of the kind for an empty field."""
    text = given.get(name, "")
    if not text:
        return kind()
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise FormFault("A field has no JSON.", **{name: f"It is no JSON: {error}."}) from None
    if not isinstance(found, kind):
        form = "an array of filters" if kind is list else "an object"
        raise FormFault("A field has other JSON than it needs.", **{name: f"It needs {form}."})
    return found


def _named(name: str) -> Action:
    return Action(
        path="/console/new/subscription",
        name=name,
        needs=Permission.SUBSCRIBE,
        ask=_ask,
        act=_act,
    )


SUBSCRIBE = _named("Subscribe")
TELL_ME = _named("Tell me when it changes")
