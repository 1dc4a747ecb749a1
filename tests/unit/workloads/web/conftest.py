"""A server that runs in this process."""

import threading

import pytest

from workloads.web.poller import parse_url
from workloads.web.server import WorkServer


@pytest.fixture
def serve():
    """Start a server on a port of its own and return it."""
    servers = []

    def start(**settings):
        server = WorkServer("127.0.0.1", 0, **{"threads": 4, "service_s": 0.0} | settings)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    yield start
    for server in servers:
        if not server.draining:
            server.drain(0)


@pytest.fixture
def target_of():
    """The address of a server's page as the poller takes it."""
    return lambda server, path="/": parse_url(f"http://127.0.0.1:{server.server_address[1]}{path}")
