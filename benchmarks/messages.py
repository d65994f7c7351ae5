"""The message definitions that benchmarks write, of the size of those in real catalogs."""

from __future__ import annotations

from typing import Any

IMPORTED_PER_GROUP = 100
REPLICATED_PER_GROUP = 62  # With 62 versions and the group itself: 125 entities.


def message(name: str, text: str = "") -> dict[str, Any]:
    """One message definition of about 500 bytes."""
    return {
        "name": name,
        "description": f"A measurement that a station reports when it has a new value. {text}",
        "envelope": "CloudEvents/1.0",
        "envelopemetadata": {
            "type": {"value": f"com.example.stations.{name}"},
            "source": {"value": "https://stations.example.com"},
            "subject": {"value": "{station_id}", "type": "uritemplate"},
            "time": {"required": True},
        },
        "dataschemaformat": "JsonStructure/draft-02",
        "dataschemauri": f"https://example.com/schemagroups/stations/schemas/{name}",
        "dataschemaxid": f"/schemagroups/stations/schemas/{name}",
    }


def document(prefix: str, groups: int, messages: int, *, first: int = 0) -> dict[str, Any]:
    """A document for `POST /`: groups numbered from `first`, with so many messages each."""
    return {
        "messagegroups": {
            f"{prefix}{group}": {
                "name": f"Group {group}",
                "messages": {f"m{number}": message(f"m{number}") for number in range(messages)},
            }
            for group in range(first, first + groups)
        }
    }


def entities_in(groups: int, messages: int) -> int:
    """The number of entities: groups, messages, and one version of each message."""
    return groups * (1 + 2 * messages)
