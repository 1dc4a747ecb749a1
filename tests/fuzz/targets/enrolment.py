"""What an agent gets from the signer, and the schedulers' containers from the API server: certificates and tokens."""

import json
import random
import tempfile
import threading
from base64 import b64encode
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from carico.enrolment.requester import Requester
from carico.enrolment.tokens import TokenKeeper
from carico.errors import CertificateRefused, KubeError, NotReady
from carico.testing import ManualClock
from tests.fuzz.target import Target
from tests.fuzz.targets.kubernetes import NOW, REQUEST, Client, nodes_ca

FOLDER = Path(tempfile.mkdtemp(prefix="carico-fuzz-"))
KEY = ec.generate_private_key(ec.SECP256R1())
_NO_CALL = SimpleNamespace(
    read_certificate_signing_request=None,
    create_certificate_signing_request=None,
    create_namespaced_service_account_token=None,
)


class Answering(Client):
    """A client that gets the same answer to everything, by the calls that parse it."""

    _core = _certificates = _NO_CALL


def read_answer(data):
    """Return the requester that has got this answer to the request for the certificate of `KEY`."""
    requester = Requester(
        "node-a", FOLDER / "node.pem", nodes_ca()[1].folder / "ca.crt", ManualClock(), random.Random(1), lambda: NOW
    )
    requester.file.unlink(missing_ok=True)
    requester._waiting_key.write_bytes(_pem(KEY))
    return requester, requester.ensure(lambda: Answering(data), 0.0)


def certificate_is_ours(read):
    requester, (end, due) = read
    pem = requester.file.read_bytes()
    certificate = x509.load_pem_x509_certificate(pem)
    assert certificate.public_key() == serialization.load_pem_private_key(pem, None).public_key() == KEY.public_key()
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(requester.ca.read_bytes()))
    assert due <= end


def read_certificate(data):
    """Read an answer whose certificate is the input."""
    pem = b"-----BEGIN CERTIFICATE-----\n" + b64encode(data) + b"\n-----END CERTIFICATE-----\n"
    return read_answer(_answer(certificate=b64encode(pem).decode()))


def read_token(data):
    folder = FOLDER / "token"
    folder.mkdir(exist_ok=True)
    ca = FOLDER / "ca.crt"
    ca.write_bytes(b"the API server's")
    keeper = TokenKeeper(Answering(data), "carico", {"carico-extender": folder}, ca, random.Random(1))
    return keeper.renew(), (folder / "token").read_text()


def token_is_a_header(read):
    due_s, token = read
    assert 60 <= due_s <= threading.TIMEOUT_MAX
    assert token.isascii()
    assert token.isprintable()
    assert " " not in token


def _pem(key):
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _answer(**status):
    return json.dumps(REQUEST | {"status": status}).encode()


@cache
def signed(node="node-a"):
    """Return a certificate of `KEY` as PEM."""
    return nodes_ca()[1].sign_node(node, KEY.public_key(), timedelta(days=7))


def _der(pem):
    return x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.DER)


DENIED = {"type": "Denied", "status": "True", "reason": "OtherNode", "message": "the token is of another node"}
TOKEN = {"spec": {"expirationSeconds": 3600}, "status": {"token": "header.payload.signature"}}
TARGETS = [
    Target(
        "enrolment.answer",
        "the signer's answer to a node's request",
        read_answer,
        (CertificateRefused, KubeError, NotReady),
        certificate_is_ours,
        (
            _answer(certificate=b64encode(signed()).decode()),
            _answer(certificate=b64encode(signed("node-b")).decode()),
            _answer(conditions=[DENIED]),
            _answer(),
        ),
        form="json",
    ),
    Target(
        "enrolment.certificate",
        "the certificate in that answer (DER)",
        read_certificate,
        (CertificateRefused,),
        certificate_is_ours,
        (_der(signed()), _der(signed("node-b"))),
    ),
    Target(
        "enrolment.token",
        "a token of a service account",
        read_token,
        (KubeError,),
        token_is_a_header,
        (json.dumps(TOKEN).encode(),),
        form="json",
    ),
]
