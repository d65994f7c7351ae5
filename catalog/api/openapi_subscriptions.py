"""JSON Schemas of subscriptions and of every delivery protocol's settings, for OpenAPI."""

from __future__ import annotations

import inspect
from typing import Any

from catalog.api.openapi_schemas import Json, reference
from catalog.api.openapi_subscriptionanswers import answer_components
from catalog.sinks.protocol import DeliveryProtocol
from catalog.sinks.protocols import PROTOCOLS, why_missing
from catalog.subscriptions.wire import SubscriptionRequest

SUBSCRIPTION = "subscription"
"""The name of the schema of the bodies that create and replace subscriptions."""
_TEMPLATE = "#/components/schemas/subscription.{model}"


def subscription_components() -> dict[str, Json]:
    """The schemas of a subscription, of what is answered, and of each protocol's settings.

    The schema of settings says beside them, as `x-delivery-protocol`, whether the protocol is
    installed on this node, how to install it otherwise, and the schemes of its URLs.
    """
    made: dict[str, Json] = {}
    subscription = _lifted(SubscriptionRequest.model_json_schema(ref_template=_TEMPLATE), made)
    subscription["properties"]["protocol"]["enum"] = [*PROTOCOLS]
    settings_of_each = [reference(_schema_of(name)) for name in PROTOCOLS]
    subscription["properties"]["protocolsettings"] = {"anyOf": settings_of_each}
    made[SUBSCRIPTION] = subscription
    made |= answer_components({"anyOf": settings_of_each})
    for name, protocol in PROTOCOLS.items():
        settings = _lifted(protocol.settings.model_json_schema(ref_template=_TEMPLATE), made)
        made[_schema_of(name)] = settings | {"x-delivery-protocol": _about(name, protocol)}
    return made


def _lifted(schema: dict[str, Any], made: dict[str, Json]) -> dict[str, Any]:
    """A schema whose definitions become components."""
    definitions = schema.pop("$defs", {})
    made |= {f"{SUBSCRIPTION}.{name}": definition for name, definition in definitions.items()}
    if "description" in schema:
        schema["description"] = inspect.cleandoc(schema["description"])
    return schema


def _schema_of(name: str) -> str:
    return f"protocolsettings.{name}"


def _about(name: str, protocol: DeliveryProtocol) -> Json:
    missing = why_missing(protocol)
    about: Json = {
        "name": name,
        "installed": missing is None,
        "schemes": list(protocol.schemes[name]),
    }
    return about if missing is None else {**about, "missing": missing}
