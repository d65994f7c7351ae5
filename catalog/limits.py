"""The limits that a node sets to clients, documents, catalogs and sinks that nobody knows.

docs/security.md says what each of them holds, and by which test.
"""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic_settings import BaseSettings, SettingsConfigDict


class Limits(BaseSettings):
    """The part of a node's settings that bounds what others can make it do."""

    model_config = SettingsConfigDict(use_attribute_docstrings=True)

    # Requests
    requests_per_second: NonNegativeFloat | None = Field(
        None,
        le=10**6,
        description="Requests of one known caller in a second, on average, in each process of the "
        "node; 0 sets no limit. Unset is 500, and none on a node that is open",
    )
    address_requests_per_second: NonNegativeFloat | None = Field(
        None,
        le=10**6,
        description="The same for all requests without a credential from one IPv4 address or one "
        "IPv6 network of 64 bits. Unset is 100, and none on a node that is open",
    )
    request_burst_seconds: float = Field(
        10.0,
        gt=0,
        le=3600,
        description="Seconds whose requests may come at once, after a pause",
    )
    wrong_credentials: NonNegativeInt = Field(
        20,
        description="Wrong credentials from one address until it has to wait before it tries "
        "others; one is forgiven every 10 seconds. 0 never makes it wait",
    )
    max_body_bytes: PositiveInt = 16 * 1024 * 1024
    """Largest request body"""
    max_body_values: PositiveInt = 500_000
    """Most JSON values in a request's body, counted by its commas and brackets"""
    max_yaml_bytes: PositiveInt = 2 * 1024 * 1024
    """Largest request body in YAML"""
    max_request_entities: PositiveInt = 100_000
    """Most groups, resources and versions in a request"""
    max_model_types: PositiveInt = 250
    """Most types of groups and resources in a model"""
    max_model_values: PositiveInt = 20_000
    """Most JSON values in a modelsource, with what it includes and imports"""
    # The parser that finds keys twice reads no more levels.
    max_depth: PositiveInt = Field(64, le=200)
    """Deepest nesting of a request's JSON"""
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
    max_client_body_memory_bytes: PositiveInt = 64 * 1024 * 1024
    """The same for the requests of one client"""

    # Checks of documents
    check_seconds: PositiveFloat = 2.0
    """Longest time of the processor that one check of a document may take"""
    check_seconds_per_request: PositiveFloat = 20.0
    """Longest time that all checks of a request may take, without the wait for their turns"""
    check_processes_per_client: PositiveInt = 2
    """Checks of one client that run at a time; one more runs for others"""
    checked_requests: PositiveInt = 1000
    """Most requests whose documents are checked, or wait for it, at a time"""
    checked_requests_per_client: PositiveInt = 100
    """Most of these that one client may have"""

    # Streams and long polls
    streams: PositiveInt = Field(
        10,
        description="Most streams at a time: exports, snapshots, digests, inlined collections. "
        "Each has a connection to PostgreSQL of its own",
    )
    streams_per_client: PositiveInt = 4
    """Most streams of one client at a time"""
    stream_least_rate: PositiveInt = 64 * 1024
    """Bytes per second at which a stream must be read, on average"""
    stream_timeout_seconds: PositiveFloat = 7200.0
    """Longest time that a stream may take"""
    long_polls: PositiveInt = 5000
    """Most requests that wait for changes of the replication feed at a time"""
    long_polls_per_client: PositiveInt = 500
    """Most such requests of one client at a time"""

    read_wait_seconds: PositiveFloat = 30.0
    """Longest time that a read may wait for a position; the time if it asks for none"""
    waiting_reads: PositiveInt = 1000
    """Most reads that wait for a position at a time"""
    waiting_reads_per_client: PositiveInt = 100
    """Most of these of one client"""

    # Connections
    max_connections: PositiveInt = 4096
    """Most connections of clients; fewer where the process may open few files"""
    max_connections_per_address: PositiveInt = Field(
        256,
        description="Most connections from one IPv4 address or one IPv6 network of 64 bits; "
        "trusted proxies may have more",
    )
    max_header_bytes: PositiveInt = 64 * 1024
    """Largest header of a request, with its path"""
    header_timeout_seconds: PositiveFloat = 10.0
    """Longest time from the beginning of a connection, or of a request, to the end of its header"""
    reading_timeout_seconds: PositiveFloat = 15.0
    """Time after which a connection is closed whose client reads less than 4 KiB/s of an answer"""
    idle_connection_seconds: PositiveFloat = 75.0
    """Time after which a connection is closed on which no request is under way"""
    max_outbound_connections: PositiveInt = 256
    """Most connections to sinks, and as many to other catalogs; fewer for lack of open files"""
    max_sink_host_connections: PositiveInt = 32
    """Most of the connections to sinks that go to one host and port"""
    max_idle_sink_connections: PositiveInt = 1024
    """Most connections to sinks kept open for further events; fewer for lack of open files"""

    # Kept for others
    log_days: PositiveFloat = Field(30.0, le=36500)
    """Days that changes stay in the log, from which links and subscriptions read"""
    log_changes: PositiveInt = 5_000_000
    """Most changes in the log, of about 1 KB each"""
    log_held_days: PositiveFloat = Field(90.0, le=36500)
    """Days that changes stay for a subscription that has yet to deliver them"""
    log_held_changes: PositiveInt = 10_000_000
    """Most changes in the log while a subscription has yet to deliver the oldest"""
    cache_bytes: PositiveInt = 64 * 1024 * 1024
    """Most memory for answers that are kept to be given again"""
    max_subscriptions: PositiveInt = 20_000
    """Most subscriptions that a node has"""
    subscriptions_per_client: PositiveInt = 2000
    """Most of them that belong to one caller"""
    subscription_bytes: PositiveInt = 16 * 1024
    """Largest body that defines a subscription"""
    subscription_conditions: PositiveInt = 1000
    """Most expressions and attributes in the filters of a subscription"""
    dead_letters: PositiveInt = 1000
    """Most events that a subscription keeps which its sink did not take; then its delivery waits"""
    dead_letter_days: PositiveFloat = Field(30.0, le=36500)
    """Days that such events stay"""
    delivery_attempts: PositiveInt = 100
    """Attempts to deliver that are kept of each subscription"""
    delivery_attempt_days: PositiveFloat = Field(7.0, le=36500)
    """Days that attempts stay"""
    sink_tests: PositiveInt = 16
    """Most example events that are sent at a time, each waiting for its sink's answer"""
    sink_tests_per_client: PositiveInt = 4
    """Most of these at the request of one client"""
    audit_days: PositiveFloat = Field(90.0, le=36500)
    """Days that entries stay in the audit"""
    audit_entries: PositiveInt = 1_000_000
    """Most entries about what was done in the audit; there are 100,000 about what was refused"""
    max_links: PositiveInt = 2000
    """Most links that a node has"""

    # Links
    push_bytes: PositiveInt = 32 * 1024 * 1024
    """Largest body in which another catalog pushes copies to this one"""
    link_copies: PositiveInt = 2_000_000
    """Most entities that a link's source may send at once, or have here"""
    link_bytes: PositiveInt = 4 * 1024**3
    """Most bytes that a link's source may send at once"""
    link_delete_share: float = Field(0.1, ge=0, le=1)
    """Largest share of what a link holds that it loses without asking, where its source lost it"""
    link_delete_count: NonNegativeInt = 20
    """Entities that a link loses so without asking, whatever share they are"""
    link_busy_share: float = Field(0.5, gt=0, le=1)
    """Largest share of the time that links may keep other writes waiting"""
