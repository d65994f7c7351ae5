"""Connected sockets to other servers, guarded against private networks."""

from __future__ import annotations

import asyncio
import errno
import socket

from catalog.config import Settings
from catalog.http.outboundaddress import why_address_refused
from catalog.model.connectionfailure import AddressRefused, names_hidden

_MOST_ADDRESSES = 8
_ADDRESS_SECONDS = 5.0


async def connect_socket(host: str, port: int, settings: Settings) -> socket.socket:
    """Connect to the first address of a host that answers, of those that are allowed.

    Each address is checked when it is connected to, so a name that resolves differently later is
    no way around the check.

    Args:
        host: a name or an address.
        port: the port.
        settings: say which addresses are allowed.

    Raises:
        OSError: the name has no address, or none answers, or none is allowed (`AddressRefused`).
    """
    loop = asyncio.get_running_loop()
    with names_hidden(if_private_refused=not settings.allows_private_addresses):
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    failure = OSError(errno.EHOSTUNREACH, f"{host} has no address")
    for family, kind, protocol, _, address in found[:_MOST_ADDRESSES]:
        if refusal := why_address_refused(str(address[0]), settings):
            failure = AddressRefused(f"{address[0]}: {refusal}")
            continue
        connecting = socket.socket(family, kind, protocol)
        try:
            connecting.setblocking(False)
            async with asyncio.timeout(_ADDRESS_SECONDS):
                await loop.sock_connect(connecting, address)
        except OSError as error:
            connecting.close()
            failure = error
        except BaseException:
            connecting.close()
            raise
        else:
            return connecting
    raise failure
