"""CertificateSigningRequests as an agent makes them, and as somebody might who wants more."""

import base64

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

AGENT = "system:serviceaccount:carico:carico-agent"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"


def pkcs10(key=None, common_name="node-a", extensions=(), algorithm=hashes.SHA256()):  # noqa: B008
    """Return a request as PEM, signed with its key."""
    named = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(named)
    for extension in extensions:
        builder = builder.add_extension(extension, critical=True)
    signed = builder.sign(key or ec.generate_private_key(ec.SECP256R1()), algorithm)
    return signed.public_bytes(serialization.Encoding.PEM)


def spec(request, node="node-a", **changes):
    """Return the `spec` of a request as the API server stores it."""
    return {
        "signerName": "carico.dev/node",
        "usages": ["client auth", "digital signature"],
        "request": base64.b64encode(request).decode(),
        "username": AGENT,
        "extra": {NODE_OF_TOKEN: [node], "authentication.kubernetes.io/pod-name": ["carico-agent-x"]},
    } | changes
