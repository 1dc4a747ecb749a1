"""How a client connects: to each address of the server's name in turn, until one speaks HTTP/2, over TLS if wanted.

If a name stands for several replicas, it has several addresses, and some of the replicas may be down.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from carico.rpc.connection import Connection


async def connect(target: str, tls: ssl.SSLContext | None, patience_s: float) -> Connection:
    """Connect to host:port, or [IPv6 address]:port.

    Parameters
    ----------
    target : str
    tls : SSLContext or None
        Offers h2; None is plain text.
    patience_s : float
        How long to wait for the look-up of the addresses, and for the connection to each of them, seconds.

    Raises
    ------
    OSError
        If the name has no address, or none of its addresses speaks HTTP/2; the message is about the last address.
    """
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(patience_s):
            found = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except ValueError as error:
        raise OSError(f"{target!r} must be a name and a port: {error}") from error
    scheme = "http" if tls is None else "https"
    failure = OSError(f"{host} has no address")
    for address in dict.fromkeys(at[:2] for *_, at in found):
        try:
            async with asyncio.timeout(patience_s):
                transport, connection = await loop.create_connection(
                    lambda: Connection(target, scheme),
                    *address,
                    ssl=tls,
                    # A name may end with a dot, so that no search domains are tried; certificates' names do not.
                    server_hostname=host.removesuffix(".") if tls else None,
                )
        except OSError as error:  # TimeoutError is one
            failure = error
            continue
        secured = transport.get_extra_info("ssl_object")
        if secured is None or secured.selected_alpn_protocol() == "h2":
            return connection
        connection.close()
        failure = OSError(f"{address[0]} speaks TLS, but not HTTP/2: is it the right port?")
    raise failure
