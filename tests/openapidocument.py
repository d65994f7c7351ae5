"""The OpenAPI document of a node with the default model, kept in docs/openapi.json.

`python -m tests.openapidocument` writes it anew.
"""

from __future__ import annotations

import json
from pathlib import Path

from catalog import dialects
from catalog.agents.mcproute import routes as agent_routes
from catalog.api.app import all_routes
from catalog.api.openapi.description import describe
from catalog.console import routes as console_routes
from catalog.context import OFFERED_HERE
from catalog.model.configuration import Configuration
from catalog.model.modelsource import default_model
from catalog.monitoring.health import routes as monitoring_routes
from replication.routes import routes as replication_routes

FILE = Path(__file__).parents[1] / "docs/openapi.json"
ROUTES = all_routes(
    [*dialects.routes, *monitoring_routes, *replication_routes, *console_routes, *agent_routes]
)
_BASE = "http://127.0.0.1:8080"
# Which protocols are installed depends on the machine.
_OF_THE_MACHINE = ("installed", "missing")


def document() -> str:
    """The text of the document, in the order of names."""
    configuration = Configuration(
        model=default_model(), capabilities=OFFERED_HERE.initially, revision=1
    )
    described = describe(configuration, ROUTES, _BASE)
    for schema in described["components"]["schemas"].values():
        for name in _OF_THE_MACHINE:
            schema.get("x-delivery-protocol", {}).pop(name, None)
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    FILE.write_text(document())
