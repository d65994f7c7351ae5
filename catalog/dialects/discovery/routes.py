"""The paths of the Discovery API (discovery seed, "API Specification")."""

from __future__ import annotations

from aiohttp import web

from catalog.dialects.discovery import asyncrequests, read, write

routes: list[web.RouteDef] = [
    web.get("/services", read.list_services),
    web.post("/services", write.add_services),
    web.delete("/services", write.delete_services),
    web.get("/services/{id}", read.get_service),
    web.put("/services/{id}", write.put_service),
    web.delete("/services/{id}", write.delete_service),
    web.get("/services/requests/{id}", asyncrequests.get_request),
]
