"""A CA and certificates for tests of TLS."""

import datetime
import ipaddress

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from carico.config import TlsFiles


class Authority:
    """Signs certificates into a folder."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test CA")])
        self._write("ca.crt", self._sign(self._name, self._key, [x509.BasicConstraints(ca=True, path_length=None)]))

    def files(self, name, *uris):
        """Make a certificate for 127.0.0.1 and return its files."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), *map(x509.UniformResourceIdentifier, uris)]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = self._sign(subject, key, [x509.SubjectAlternativeName(names)])
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (self.folder / f"{name}.key").write_bytes(private)
        return TlsFiles(self._write(f"{name}.crt", certificate), str(self.folder / f"{name}.key"), self.ca)

    @property
    def ca(self):
        return str(self.folder / "ca.crt")

    def _sign(self, subject, key, extensions):
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(hours=1))
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(self._key, hashes.SHA256())

    def _write(self, name, certificate):
        (self.folder / name).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(self.folder / name)
