"""The limits that a node sets to clients, documents, catalogs and sinks that nobody knows.

docs/security.md says what each of them holds, and by which test.
"""

from __future__ import annotations

from pydantic import PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, SettingsConfigDict


class Limits(BaseSettings):
    """The part of a node's settings that bounds what others can make it do."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    # Requests
    max_body_bytes: PositiveInt = 16 * 1024 * 1024
    """Largest request body"""
    max_depth: PositiveInt = 64
    """Deepest nesting of a request's JSON"""
    page_size: PositiveInt = 500
    """Entities in a page; `limit` may ask for less, not for more"""
    request_timeout_seconds: PositiveFloat = 30.0
    """Longest time that a request may take"""
    search_timeout_seconds: PositiveFloat = 5.0
    """Longest time that a search by a filter or an order may take"""
    body_timeout_seconds: PositiveFloat = 20.0
    """Longest time that a client may take to send a request's body"""

    # Checks of documents

    # Streams and long polls

    # Connections

    # Kept for others

    # Links
