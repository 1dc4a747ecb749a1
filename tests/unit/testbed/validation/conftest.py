"""The fake cluster of the tests of real ones."""

from ..real.conftest import api, server

__all__ = ["api", "server"]
