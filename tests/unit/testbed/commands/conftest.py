"""The fake Go, shared with the tests of images."""

from ..images.conftest import go

__all__ = ["go"]
