"""Checks of the sinks of subscriptions, without sending events."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from catalog.http.outbound import probe_endpoint
from catalog.http.outboundaddress import split_hosts
from catalog.model.connectionfailure import why_unreachable
from catalog.model.masking import described
from catalog.monitoring.diagnosis import Check, CheckedNode, Diagnosis
from catalog.monitoring.machinechecks import expiry
from catalog.store.healthfacts import read_sinks

_MOST_READ = 1000
_MOST_ASKED = 50
_AT_A_TIME = 10
_PORTS = {
    **{"http": 80, "https": 443, "kafka": 9092, "kafkas": 9093, "amqp": 5672, "amqps": 5671},
    **{"mqtt": 1883, "mqtts": 8883, "nats": 4222, "nats+tls": 4222, "tls": 4222},
}
# With other schemes, only the subscription may know the authority of the sink's certificate.
_KNOWN_TLS = frozenset({"https"})


@dataclass(frozen=True, slots=True, order=True)
class _Endpoint:
    host: str
    port: int
    is_tls: bool

    def __str__(self) -> str:
        return f"sink {self.host}:{self.port}"


async def check_sinks(checked: CheckedNode) -> Sequence[Diagnosis]:
    """Whether the hosts of sinks have addresses that the node connects to, and listen."""
    async with checked.database() as connection:
        rows = await read_sinks(connection, _MOST_READ)
    used = defaultdict[_Endpoint, list[str]](list)
    for row in rows:
        for url in split_hosts(row["sink"] or ""):
            if (endpoint := _endpoint_of(url)) is not None:
                used[endpoint].append(row["id"])
    if not used:
        return [Diagnosis(subject="sinks", level="ok", text="there are none")]
    turns = asyncio.Semaphore(_AT_A_TIME)
    asked = sorted(used)[:_MOST_ASKED]
    found = await asyncio.gather(*(_ask(checked, each, used[each], turns) for each in asked))
    if left := len(used) - len(asked):
        text = f"{left} more hosts were not asked"
        found.append(Diagnosis(subject="sinks", level="ok", text=text))
    return found


def _endpoint_of(url: str) -> _Endpoint | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    return _Endpoint(parts.hostname, port, parts.scheme in _KNOWN_TLS)


async def _ask(
    checked: CheckedNode, endpoint: _Endpoint, subscriptions: list[str], turns: asyncio.Semaphore
) -> Diagnosis:
    subject = str(endpoint)
    try:
        async with turns:
            end = await probe_endpoint(
                endpoint.host, endpoint.port, checked.settings, is_tls=endpoint.is_tls
            )
    except OSError as error:
        return Diagnosis(
            subject=subject,
            level="error",
            text=f"it {why_unreachable(error)} ({described(error)})",
            advice=f"See its name, firewall and certificate; `concord subscription show "
            f"{subscriptions[0]}`.",
        )
    if end is not None:
        return expiry(subject, end, "Whoever runs the sink renews it.")
    return Diagnosis(subject=subject, level="ok", text="it accepts connections")


SINK_CHECKS: Sequence[Check] = (check_sinks,)
