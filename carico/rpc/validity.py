"""When a process's own certificate and its CAs are valid, as OpenSSL reads them; needs no other package.

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


def valid_between(files: TlsFiles) -> dict[str, tuple[float, float]]:
    """Return from when until when the certificate and the CAs of a process are valid, seconds since 1970.

    Returns
    -------
    dict
        ``certificate``: the process's own. ``ca``, and ``nodes_ca`` if there is one: of several certificates in the
        file the one that is valid for longest, because nobody is trusted any more when it expires.

    Raises
    ------
    InvalidConfig
        If the files are not a certificate, its key and the CA that issued it, which may be that of nodes.
    """
    shows = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    shows.check_hostname = False
    shows.verify_mode = ssl.CERT_NONE
    reads = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    reads.verify_mode = ssl.CERT_REQUIRED
    reads.verify_flags |= ssl.VerifyFlags(_ANY_TIME) | ssl.VERIFY_X509_PARTIAL_CHAIN
    cas = {"ca": files.ca} | ({} if files.nodes_ca is None else {"nodes_ca": files.nodes_ca})
    found: dict[str, tuple[float, float]] = {}
    try:
        for context in (shows, reads):
            context.load_cert_chain(files.certificate, files.key, password="")
        for of, file in cas.items():
            reads.load_verify_locations(file)
            alone = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            alone.load_verify_locations(file)
            times = [_times(each) for each in alone.get_ca_certs()]
            found |= {of: max(times, key=lambda each: each[1])} if times else {}
        own = _shown(shows, reads)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        named = " and ".join([files.certificate, files.key, *cas.values()])
        raise InvalidConfig(f"{named} must be a certificate, its key and its CA: {error}") from error
    return {"certificate": _times(own)} | found


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


def _times(certificate: Mapping[str, object]) -> tuple[float, float]:
    begin, end = (float(ssl.cert_time_to_seconds(str(certificate[name]))) for name in ("notBefore", "notAfter"))
    return begin, end
