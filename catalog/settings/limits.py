"""The limits of a node for unknown clients, documents, catalogs and sinks.

docs/security.md has the purpose and the test of each limit.
"""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, SettingsConfigDict


class Limits(BaseSettings):
    """The settings that bound the work and memory that outsiders can cost a node."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    # Requests
    requests_per_second: NonNegativeFloat | None = Field(None, le=10**6)
    """Requests of one known caller in a second, on average, in each process of the node; 0 sets no
    limit. Unset is 500, or no limit on an open node
    """
    address_requests_per_second: NonNegativeFloat | None = Field(None, le=10**6)
    """The same for all requests without a credential from one IPv4 address or one IPv6 network of
    64 bits. Unset is 100, and none on a node that is open
    """
    max_body_bytes: PositiveInt = 16 * 1024 * 1024
    """Largest request body"""
    max_request_entities: PositiveInt = 100_000
    """Most groups, resources and versions in a request"""
    page_size: PositiveInt = 500
    """Entities in a page; `limit` may ask for less, not for more"""
    request_timeout_seconds: PositiveFloat = 30.0
    """Longest time that a request may take"""
    reconfiguration_timeout_seconds: PositiveFloat = 600.0
    """Longest time that a change of the model or capabilities, or a DELETE of groups, may take"""
    search_timeout_seconds: PositiveFloat = 5.0
    """Longest time that a search by a filter or an order may take"""
    body_timeout_seconds: PositiveFloat = 20.0
    """Longest time that a client may take to send a request's body"""
    max_body_memory_bytes: PositiveInt = 256 * 1024 * 1024
    """Most bytes of bodies of requests under way; the first 64 KiB of each do not count"""

    # Checks of documents
    check_seconds: PositiveFloat = 2.0
    """Longest time of the processor that one check of a document may take"""

    # Streams and long polls
    streams: PositiveInt = 10
    """Most streams at a time: exports, snapshots, digests, inlined collections. Each has a
    connection to PostgreSQL of its own
    """
    stream_least_rate: PositiveInt = 64 * 1024
    """Bytes per second at which a stream must be read, on average"""
    long_polls: PositiveInt = 5000
    """Most requests that wait for changes of the replication feed at a time"""
    event_streams: PositiveInt = 1000
    """Most streams of events (`GET /-/events`) of a process at a time; a client has a quarter"""

    read_wait_seconds: PositiveFloat = 30.0
    """Longest time that a read may wait for a position; the time if it asks for none"""

    # Connections
    max_connections: PositiveInt = 4096
    """Most connections of clients; fewer where the process may open few files"""
    max_connections_per_address: PositiveInt = 256
    """Most connections from one IPv4 address or one IPv6 network of 64 bits; trusted proxies may
    have more
    """
    max_outbound_connections: PositiveInt = 256
    """Most connections to sinks, and as many to other catalogs; fewer for lack of open files"""

    # Kept for others
    log_days: PositiveFloat = Field(30.0, le=36500)
    """Days that changes stay in the log; three times as long for a subscription that is behind"""
    log_changes: PositiveInt = 5_000_000
    """Most changes in the log, of about 1 KB each; twice as many if a subscription is behind"""
    revision_bytes: NonNegativeInt = 1024**3
    """Most bytes of former contents of entities, which stay as long as the changes that replaced
    them; the oldest go first. 0 keeps none
    """
    cache_bytes: PositiveInt | None = None
    """Most bytes of remembered answers. Unset it is 1/32 of the memory, 16 to 512 MiB"""
    max_subscriptions: PositiveInt = 20_000
    """Most subscriptions that a node has"""
    subscriptions_per_client: PositiveInt = 2000
    """Most subscriptions that belong to one caller"""
    dead_letters: PositiveInt = 1000
    """Most events not taken by the sink that a subscription keeps; then the delivery waits"""
    dead_letter_days: PositiveFloat = Field(30.0, le=36500)
    """Days for which a subscription keeps events not taken by the sink"""
    audit_days: PositiveFloat = Field(90.0, le=36500)
    """Days that entries stay in the audit"""
    audit_entries: PositiveInt = 1_000_000
    """Most entries of the audit about actions; of refusals, the audit keeps 100,000"""
    max_links: PositiveInt = 2000
    """Most links that a node has"""

    link_copies: PositiveInt = 2_000_000
    """Most entities that a link's source may send at once, or have here"""
    link_bytes: PositiveInt = 4 * 1024**3
    """Most bytes that a link's source may send at once"""
    link_delete_share: float = Field(0.1, ge=0, le=1)
    """Largest share of its copies that a link deletes without asking, if the source lost them"""
    link_delete_count: NonNegativeInt = 20
    """Number of copies that a link deletes so without asking, however large their share is"""
    comparison_findings: NonNegativeInt = Field(1000, le=1_000_000)
    """Most findings that a node keeps of a comparison of catalogs; it always keeps the numbers"""

    @property
    def log_held_days(self) -> float:
        """The days for which changes stay in the log while a subscription is behind."""
        return 3 * self.log_days

    @property
    def log_held_changes(self) -> int:
        """The largest number of changes in the log while a subscription is behind."""
        return 2 * self.log_changes
