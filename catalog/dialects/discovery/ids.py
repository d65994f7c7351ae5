"""Which id a service has: a UUID that is the same wherever the service is shown."""

from __future__ import annotations

import re
import uuid

# Of ids that are derived; a name in it is an authority, a line feed, and the xid there.
NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:concord:services")

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)


def is_service_id(value: object) -> bool:
    """Whether a value is a UUID as RFC 4122 writes it."""
    return isinstance(value, str) and _UUID.fullmatch(value) is not None


def service_id(authority: str, origin: str) -> str:
    """The id of the service that an endpoint is.

    One that was created as a service has its UUID as the endpoint's id, so both agree. Every
    other endpoint's is derived from what never changes about it and is known to all catalogs
    that show it.

    Args:
        authority: the endpoint's.
        origin: the endpoint's xid there.
    """
    own = origin.rpartition("/")[2]
    if is_service_id(own):
        return own
    return str(uuid.uuid5(NAMESPACE, f"{authority}\n{origin}"))
