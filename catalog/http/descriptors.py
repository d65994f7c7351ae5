"""Shares the file descriptors of the process among its connections."""

from __future__ import annotations

import contextlib
import resource

from catalog.config import Settings

# More than a node has use for.
_MOST = 65_536
# For listeners, the processes that check documents, files, and what libraries open.
_OTHERS = 64
_LEAST_OF_CLIENTS = 16


def raise_descriptor_limit() -> None:
    """Let this process open as many files as the system allows, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MOST if hard == resource.RLIM_INFINITY else min(_MOST, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # Some systems allow less than they say.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_client_connections(settings: Settings) -> int:
    """The most clients that may be connected at a time: as many as the settings say, or fewer where
    the process has few descriptors."""
    outbound = most_outbound_connections(settings)
    # To sinks, and to other catalogs, with half as many of these that are idle.
    rest = _descriptors() - 2 * outbound - outbound // 2 - most_idle_sink_connections(settings)
    rest -= settings.database_connections + _OTHERS
    return max(_LEAST_OF_CLIENTS, min(settings.max_connections, rest))


def most_outbound_connections(settings: Settings) -> int:
    """The most connections that a session to other servers may use at a time."""
    return max(1, min(settings.max_outbound_connections, _descriptors() // 8))


def most_idle_sink_connections(settings: Settings) -> int:
    """The most connections to sinks that are kept while no request is under way."""
    return max(1, min(settings.max_idle_sink_connections, _descriptors() // 16))


def _descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if soft == resource.RLIM_INFINITY else soft
