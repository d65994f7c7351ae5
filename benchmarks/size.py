"""The amount of work of a run: enough for stable figures, or just enough for a test."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """The amounts of one run."""

    rounds: int
    round_seconds: float
    connections: int
    import_rounds: int
    import_groups: int
    replica_groups: int
    latency_seconds: float
    changes_per_second: int
    subscriptions: int
    idle_seconds: float
    deleted_messages: int
    schemas: int


FULL = Size(
    rounds=5,
    round_seconds=1.2,
    connections=8,
    import_rounds=3,
    import_groups=100,
    replica_groups=400,
    latency_seconds=20,
    changes_per_second=100,
    subscriptions=10_000,
    idle_seconds=20,
    deleted_messages=50_000,
    schemas=100_000,
)
QUICK = Size(
    rounds=3,
    round_seconds=0.5,
    connections=8,
    import_rounds=1,
    import_groups=10,
    replica_groups=40,
    latency_seconds=3,
    changes_per_second=100,
    subscriptions=1000,
    idle_seconds=5,
    deleted_messages=5_000,
    schemas=10_000,
)
