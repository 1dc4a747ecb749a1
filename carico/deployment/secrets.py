"""What Secrets hold, checked: whoever may write them decides it."""

from __future__ import annotations

import base64

import msgspec

from carico.errors import KubeUnreachable
from carico.kube.client import read_as
from carico.kube.objects import KubeObject


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Secret(msgspec.Struct):
    metadata: _Metadata
    data: dict[str, str | None] | None = None


def annotations_of(secret: KubeObject) -> dict[str, str]:
    """Return a Secret's annotations; raises as `content_of` does."""
    return read_as(_Secret, secret).metadata.annotations or {}


def content_of(secret: KubeObject) -> dict[str, bytes]:
    """Return what a Secret holds, by name.

    Raises
    ------
    KubeUnreachable
        If it is no Secret, or something of it is not base64.
    """
    data = read_as(_Secret, secret).data or {}
    try:
        return {name: base64.b64decode(text or "", validate=True) for name, text in data.items()}
    except ValueError as error:
        raise KubeUnreachable(f"the Kubernetes API sent a Secret whose data are no base64: {error}") from error
