"""The published APIs besides the native API, which read and write the same entities."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.context import EventDialect, SchemaDialect
from catalog.dialects.confluent.routes import routes as confluent_routes
from catalog.dialects.confluent.versionaddresses import VERSION_ADDRESSES
from catalog.dialects.discovery.routes import routes as discovery_routes
from catalog.dialects.messagecatalog.events import EVENTS as MESSAGE_CATALOG_EVENTS
from catalog.dialects.messagecatalog.routes import routes as messagecatalog_routes
from catalog.dialects.registry04.routes import routes as registry04_routes
from catalog.http.route import Route

routes: Sequence[Route] = (
    *discovery_routes,
    *messagecatalog_routes,
    *registry04_routes,
    *confluent_routes,
)
event_dialects: Sequence[EventDialect] = (MESSAGE_CATALOG_EVENTS,)
schema_dialect: SchemaDialect = VERSION_ADDRESSES
