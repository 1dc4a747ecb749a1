"""How a client finds its server: each of a name's addresses in turn, until one speaks HTTP/2, and TLS if it is to.

Behind the name of several replicas there is more than one, and not all need be alive.
"""

from __future__ import annotations

import asyncio
import socket
import ssl

from carico.rpc.connection import Conversation


async def connect(target: str, tls: ssl.SSLContext | None, patience_s: float) -> Conversation:
    """Connect to host:port, or [IPv6 address]:port.

    Parameters
    ----------
    target : str
    tls : SSLContext or None
        Offers h2; None is plain text.
    patience_s : float
        How long to wait for the addresses, and for each of them, seconds.

    Raises
    ------
    OSError
        If the name has no address, or nobody at any of them speaks this; the reason of the last one.
    """
    host, _, port = target.rpartition(":")
    host = host.strip("[]")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(patience_s):
            found = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except ValueError as error:
        raise OSError(f"{target!r} is no name and port: {error}") from error
    scheme = "http" if tls is None else "https"
    failure = OSError(f"{host} has no address")
    for address in dict.fromkeys(at[:2] for *_, at in found):
        try:
            async with asyncio.timeout(patience_s):
                transport, conversation = await loop.create_connection(
                    lambda: Conversation(target, scheme),
                    *address,
                    ssl=tls,
                    # A dot at the end of a name, as against search domains, is not in certificates.
                    server_hostname=host.removesuffix(".") if tls else None,
                )
        except OSError as error:  # TimeoutError is one
            failure = error
            continue
        connection = transport.get_extra_info("ssl_object")
        if connection is None or connection.selected_alpn_protocol() == "h2":
            return conversation
        conversation.close()
        failure = OSError(f"{address[0]} speaks TLS, but not HTTP/2: is it the right port?")
    raise failure
