"""Which CertificateSigningRequests are signed, and for which node. Pure.

The API server has filled in who asks: `username`, and in `extra` the node of the pod that the token belongs to. It does
so since Kubernetes 1.30 (the feature ServiceAccountTokenPodNodeInfo, which cannot be switched off since 1.32). Of what
the asker has written only the key counts, and the certificate's life, if it is to be shorter.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec

from carico.deployment.authority import SIGNER
from carico.errors import InvalidInput, NotSigned
from carico.rpc.identity import node_name

ACCOUNT = "carico-agent"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"  # noqa: S105  a name
USAGES = ("client auth", "digital signature")
REQUIRED_USAGE = "client auth"
MOST_BYTES = 4096
"""Of a request as PEM; one with a P-256 key has about 400."""
LEAST_S = 600
"""The shortest life of a certificate that may be asked for, as in Kubernetes."""


@dataclass(frozen=True)
class Granted:
    """What a certificate is to say."""

    node: str
    key: ec.EllipticCurvePublicKey
    life: timedelta


def granted(spec: Mapping[str, Any], namespace: str, life: timedelta) -> Granted:
    """Return what the certificate for a request says.

    Parameters
    ----------
    spec : mapping
        The `spec` of a CertificateSigningRequest, in the form of the API.
    namespace : str
        That of the agents.
    life : timedelta
        How long certificates are valid at most.

    Raises
    ------
    NotSigned
        If the request is not one of an agent for its own node, with a P-256 key.
    """
    if spec.get("signerName") != SIGNER:
        raise NotSigned("OtherSigner", f"this signer is {SIGNER}, the request is for {spec.get('signerName')!r}")
    node = _node(spec, namespace)
    usages = spec.get("usages") or ()
    if REQUIRED_USAGE not in usages or not set(usages) <= set(USAGES):
        raise NotSigned(
            "OtherUsages",
            f"a node's certificate is for {REQUIRED_USAGE!r}, beside it only {USAGES[1]!r} may be asked for, "
            f"got {list(usages)}",
        )
    asked_s = spec.get("expirationSeconds")
    if asked_s is not None and asked_s < LEAST_S:
        raise NotSigned("TooShort", f"a certificate is valid for at least {LEAST_S} s, {asked_s} were asked for")
    if asked_s is not None and asked_s < life.total_seconds():
        life = timedelta(seconds=asked_s)
    return Granted(node, _key(spec.get("request")), life)


def _node(spec: Mapping[str, Any], namespace: str) -> str:
    """Return the node of the pod whose token was shown."""
    wanted, asks = f"system:serviceaccount:{namespace}:{ACCOUNT}", spec.get("username")
    if asks != wanted:
        raise NotSigned("OtherAccount", f"{wanted} may ask for certificates of nodes, {asks!r} asked")
    nodes = (spec.get("extra") or {}).get(NODE_OF_TOKEN) or []
    if not nodes:
        raise NotSigned(
            "NoNode",
            "the token that was shown names no node: it has to be that of a pod on one, and the API server has to "
            "be Kubernetes 1.30 or later (1.30 and 1.31 with the feature ServiceAccountTokenPodNodeInfo, the default)",
        )
    if len(nodes) > 1:
        raise NotSigned("SeveralNodes", f"a token names one node, this one names {len(nodes)}: {nodes}")
    try:
        return node_name(nodes[0])
    except InvalidInput as error:
        raise NotSigned("InvalidNode", str(error)) from error


def _key(encoded: object) -> ec.EllipticCurvePublicKey:
    """Return the key of a request, whose owner has signed the request with it."""
    try:
        pem = base64.b64decode(str(encoded or ""), validate=True)
        if len(pem) > MOST_BYTES:
            raise NotSigned("InvalidRequest", f"a request has at most {MOST_BYTES} bytes, got {len(pem)}")
        request = x509.load_pem_x509_csr(pem)
        key = request.public_key()
        is_signed = request.is_signature_valid
    except NotSigned:
        raise
    except (InvalidSignature, TypeError, UnsupportedAlgorithm, ValueError, x509.InvalidVersion) as error:
        raise NotSigned("InvalidRequest", f"`request` must be a PKCS #10 request as PEM: {error}") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise NotSigned("OtherKey", "a node's key is on the curve P-256")
    if not is_signed:
        raise NotSigned("InvalidRequest", "the request is not signed with its own key")
    return key
