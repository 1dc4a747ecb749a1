"""The fake cluster API, shared with the tests of real clusters."""

from ..real.conftest import api, server

__all__ = ["api", "server"]
