"""What the commands that build share with the tests of images: a Go that builds at once."""

from ..images.conftest import go

__all__ = ["go"]
