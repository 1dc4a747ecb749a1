"""The identity of a caller, read from its verified certificate, and what each identity may do.

A certificate names its owner in a URI among its alternative names: ``carico:node:NAME`` may exchange and report for
the node NAME, ``carico:server:aggregator`` may reconcile views. Nothing else in the certificate counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol

from carico.errors import InvalidInput

NODE = "carico:node:"
SERVER = "carico:server:"
AGGREGATOR = f"{SERVER}aggregator"
_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NODE_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")


class Call(Protocol):
    """The part of a gRPC call's context that is needed."""

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """Return what the transport has verified about the caller."""
        ...


def owners(call: Call) -> frozenset[str]:
    """Return the URIs of the caller's certificate."""
    return frozenset(uri.decode(errors="replace") for uri in call.auth_context().get("peer_uri", ()))


def resumed(call: Call) -> bool:
    """Return whether the caller has resumed a TLS session: its certificate was shown earlier, and may have expired."""
    return b"true" in call.auth_context().get("ssl_session_reused", ())


def node_name(name: str) -> str:
    """Return `name` if it is a valid name of a node: a DNS-1123 subdomain of at most 253 characters.

    Raises
    ------
    InvalidInput
        If it is not one.
    """
    if len(name) > 253 or not _NODE_NAME.fullmatch(name):
        raise InvalidInput(
            f"a node's name is a DNS-1123 subdomain of at most 253 characters (lower case, digits, '-' and '.'), "
            f"got {name[:300]!r}"
        )
    return name
