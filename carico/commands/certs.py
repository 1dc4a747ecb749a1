"""``carico certs``: a CA and certificates for trying CARICO out."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from pathlib import Path

from carico.commands import Commands
from carico.commands.arguments import whole_number
from carico.errors import InvalidInput

MOST_LETTERS = 64
"""Of a common name, see RFC 5280."""


def add(commands: Commands) -> None:
    """Declare the command."""
    certs = commands.add_parser(
        "certs",
        help="make a CA and certificates for trying CARICO out (needs the extra `scheduler`)",
        description=(
            "Makes one of these in a folder: a CA (ca.crt, ca.key), a server's certificate (server-NAME.crt, .key) or "
            "a node's certificate (node-NAME.crt, .key). Keys are readable only by their owner; keep ca.key off the "
            "cluster."
        ),
    )
    certs.add_argument(
        "--out", metavar="FOLDER", type=Path, required=True, help="the CA's folder, to which all files are written"
    )
    what = certs.add_mutually_exclusive_group(required=True)
    what.add_argument("--ca", action="store_true", help="make the CA")
    what.add_argument(
        "--server",
        metavar="NAME",
        help="make a server's certificate, with --host; the aggregation server's name must be `aggregator`",
    )
    what.add_argument("--node", metavar="NAME", help="make a node's certificate, which is valid for that node only")
    what.add_argument(
        "--renew", metavar="FILE", type=Path, help="replace a certificate with one that is valid from now on"
    )
    certs.add_argument("--name", metavar="NAME", help="the name of the CA, with --ca (default: CARICO CA)")
    certs.add_argument(
        "--host", metavar="HOST", action="append", default=[], help="a name or address of the server; repeatable"
    )
    certs.add_argument("--days", metavar="N", type=whole_number, default=365, help="days of validity (default: 365)")
    certs.add_argument("--force", action="store_true", help="replace existing files")
    certs.set_defaults(run=_certs)


def _certs(options: argparse.Namespace) -> None:
    from carico.deployment.authority import CA_NAME, Authority

    if options.name is not None and not (options.ca and 1 <= len(options.name) <= MOST_LETTERS):
        raise InvalidInput(f"--name is for --ca, and has 1 to {MOST_LETTERS} letters")
    if options.host and options.server is None:
        raise InvalidInput("--host is for --server: nobody connects to a CA or to a node")
    authority = Authority(options.out, datetime.now(UTC), options.days, options.force)
    if options.ca:
        made = authority.make_ca(options.name or CA_NAME)
    elif options.server is not None:
        made = authority.make_server(options.server, options.host)
    elif options.node is not None:
        made = authority.make_node(options.node)
    else:
        made = authority.renew(options.renew)
    print(f"written: {made}")
