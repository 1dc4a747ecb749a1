"""Until when a process's own certificate and its CA are valid, as OpenSSL reads them; needs no other package.

Python shows the certificates of peers only. So a process shakes hands with itself, in memory, which takes some
milliseconds. cryptography could read the files, too, but would add 9 MB to every agent.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping

from carico.config import TlsFiles
from carico.errors import InvalidConfig

_ANY_TIME = 0x20_0000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, which Python does not name: a certificate that has expired is read, too."""


def valid_until(files: TlsFiles) -> dict[str, float]:
    """Return when the certificate and the CA of a process expire, seconds since 1970.

    Returns
    -------
    dict
        ``certificate``: the process's own. ``ca``: of several certificates in the CA's file the one that is valid for
        longest, because nobody is trusted any more when it expires.

    Raises
    ------
    InvalidConfig
        If the files are not a certificate, its key and the CA that issued it.
    """
    shows = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    shows.check_hostname = False
    shows.verify_mode = ssl.CERT_NONE
    reads = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    reads.verify_mode = ssl.CERT_REQUIRED
    reads.verify_flags |= ssl.VerifyFlags(_ANY_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        for context in (shows, reads):
            context.load_cert_chain(files.certificate, files.key, password="")
        reads.load_verify_locations(files.ca)
        own = _shown(shows, reads)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise InvalidConfig(
            f"{files.certificate}, {files.key} and {files.ca} must be a certificate, its key and its CA: {error}"
        ) from error
    authorities = [_end(each) for each in reads.get_ca_certs()]
    return {"certificate": _end(own)} | ({"ca": max(authorities)} if authorities else {})


def _shown(shows: ssl.SSLContext, reads: ssl.SSLContext) -> Mapping[str, object]:
    """Return what one side reads in the certificate that the other side shows it in a handshake."""
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = shows.wrap_bio(incoming=back, outgoing=there)
    server = reads.wrap_bio(incoming=there, outgoing=back, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return server.getpeercert() or {}


def _end(certificate: Mapping[str, object]) -> float:
    return float(ssl.cert_time_to_seconds(str(certificate["notAfter"])))
