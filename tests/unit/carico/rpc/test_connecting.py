"""How a client finds its server among a name's addresses."""

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress

import pytest

from carico.rpc.connecting import connect
from carico.rpc.tls import ClientTls


@pytest.fixture
def addresses(monkeypatch):
    """Gives a name addresses of this machine."""

    def give(*hosts):
        real = asyncio.base_events.BaseEventLoop.getaddrinfo

        async def getaddrinfo(self, host, port, **options):
            if host != "replicas.example.":
                return await real(self, host, port, **options)
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in hosts]

        monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)

    return give


@asynccontextmanager
async def listening(host, port=0, tls=None):
    """A server that says nothing until it is left, which it does not outlive; gives its port."""
    connections = []

    async def serve(reader, writer):
        connections.append(writer)
        with suppress(ConnectionError):
            await reader.read()
            writer.close()
            await writer.wait_closed()
        connections.remove(writer)

    server = await asyncio.start_server(serve, host, port, ssl=tls)
    async with server:
        yield server.sockets[0].getsockname()[1]
    while connections:
        await asyncio.sleep(0)


def test_the_next_address_is_tried_where_nobody_listens_at_the_first(addresses):
    addresses("127.0.0.2", "127.0.0.1")

    async def run():
        async with listening("127.0.0.1") as port:
            connection = await connect(f"replicas.example.:{port}", None, 5.0)
            connection.close()

    asyncio.run(run())


def test_and_where_the_first_takes_a_connection_and_says_nothing(addresses, pki):
    addresses("127.0.0.2", "127.0.0.1")
    client = ClientTls(pki.node("node-a")).current()

    async def run():
        silent = socket.create_server(("127.0.0.2", 0))
        port = silent.getsockname()[1]
        with silent:
            async with listening("127.0.0.1", port, serving(pki, "h2")):
                # The certificate is of another name: it is the second's that was seen.
                with pytest.raises(ssl.SSLCertVerificationError, match=r"replicas\.example"):
                    await connect(f"replicas.example.:{port}", client, 0.3)

    asyncio.run(run())


def serving(pki, *protocols):
    """The TLS of a server that speaks these protocols."""
    files = pki.server("aggregator")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.certificate, files.key)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    return context


def test_who_does_not_speak_http_2_is_told(pki):
    client = ClientTls(pki.node("node-a")).current()

    async def run():
        async with listening("127.0.0.1", tls=serving(pki)) as port:
            with pytest.raises(OSError, match=r"speaks TLS, but not HTTP/2: is it the right port\?"):
                await connect(f"localhost:{port}", client, 5.0)

    asyncio.run(run())


@pytest.mark.parametrize("target", [f"{'x' * 64}.example:1", "a..b:1"])
def test_what_is_no_name_is_an_error_like_others(target):
    with pytest.raises(OSError, match="must be a name and a port: "):
        asyncio.run(connect(target, None, 5.0))


def test_nobody_listens():
    with pytest.raises(OSError, match="Connect call failed"):
        asyncio.run(connect("127.0.0.1:1", None, 5.0))


def test_a_name_without_addresses(addresses):
    addresses()
    with pytest.raises(OSError, match=r"replicas\.example\. has no address"):
        asyncio.run(connect("replicas.example.:1", None, 5.0))


def test_addresses_that_do_not_come(monkeypatch):
    async def never(self, host, port, **options):
        await asyncio.sleep(3600)

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", never)
    with pytest.raises(TimeoutError):
        asyncio.run(connect("replicas.example.:1", None, 0.01))
