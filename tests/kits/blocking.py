"""Clients of `carico.rpc` for tests without an event loop."""

from carico.rpc.loop import LoopThread


class Blocking:
    """Wraps a client of `carico.rpc.clients` so that its methods block."""

    def __init__(self, client):
        self._client = client
        self._loop = LoopThread("test")

    def __getattr__(self, name):
        method = getattr(self._client, name)
        return lambda *arguments: self._loop.run(method(*arguments))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._loop.run(self._client.close())
        self._loop.close()
