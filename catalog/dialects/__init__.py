"""The published APIs besides the native API, which read and write the same entities."""

from __future__ import annotations

from catalog.dialects.routes import event_dialects, routes, schema_dialect

__all__ = ["event_dialects", "routes", "schema_dialect"]
