"""The paths of the Discovery API (discovery seed, "API Specification")."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.dialects.discovery import asyncrequests, read, write
from catalog.http.route import Route, reads, writes

routes: Sequence[Route] = (
    reads("/services", read.list_services),
    writes("POST", "/services", write.add_services),
    writes("DELETE", "/services", write.delete_services),
    reads("/services/{id}", read.get_service),
    writes("PUT", "/services/{id}", write.put_service),
    writes("DELETE", "/services/{id}", write.delete_service),
    reads("/services/requests/{id}", asyncrequests.get_request),
)
