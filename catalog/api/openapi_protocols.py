"""JSON Schemas of every delivery protocol's settings, for OpenAPI."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from catalog.api.openapi_schemas import Json, reference
from catalog.operations.subscriptions import NewSubscription, SubscriptionAnswer
from catalog.subscriptions.sinks.protocol import DeliveryProtocol
from catalog.subscriptions.sinks.protocols import PROTOCOLS, why_missing


def name_protocols(models: Mapping[str, Json]) -> dict[str, Json]:
    """Say in the schemas of subscriptions which protocols there are, and which settings each has.

    The schema of settings says beside them, as `x-delivery-protocol`, whether the protocol is
    installed on this node, how to install it otherwise, and the schemes of its URLs.

    Returns:
        the schemas of the settings.
    """
    for model in (NewSubscription, SubscriptionAnswer):
        if (found := models.get(model.__name__)) is not None:
            members = found["properties"]
            members["protocol"]["enum"] = [*PROTOCOLS]
            members["protocolsettings"] = {"anyOf": [reference(_name(each)) for each in PROTOCOLS]}
    return {_name(name): _settings(name, protocol) for name, protocol in PROTOCOLS.items()}


def _name(protocol: str) -> str:
    return f"protocolsettings.{protocol}"


def _settings(name: str, protocol: DeliveryProtocol) -> Json:
    schema = protocol.settings.model_json_schema()
    missing = why_missing(protocol)
    about: Json = {
        "name": name,
        "installed": missing is None,
        "schemes": list(protocol.schemes[name]),
    }
    return {
        **schema,
        "title": f"{name} settings",
        "description": inspect.cleandoc(schema["description"]),
        "x-delivery-protocol": about if missing is None else {**about, "missing": missing},
    }
