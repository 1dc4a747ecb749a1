"""``carico enrol``: a certificate for this node, from the signer of its cluster; needs the extra `scheduler`."""

from __future__ import annotations

import argparse
import os
import random
import socket
from datetime import timedelta
from pathlib import Path

from carico.clock import SystemClock
from carico.commands import Commands
from carico.commands.arguments import seconds, whole_number
from carico.commands.cluster import OUTSIDE_A_POD


def add(commands: Commands) -> None:
    """Declare the command."""
    enrol = commands.add_parser(
        "enrol",
        help="get a certificate for this node from the cluster's signer (needs the extra `scheduler`)",
        description=(
            "Makes a key, asks the signer (`carico signer`) for a certificate through the Kubernetes API, with the "
            "token of the pod that runs this, and writes both to a file. A certificate that is not due, after two "
            "thirds of its life, is kept. Prints when it is due. `python -m carico.enrolment` takes the same options, "
            "and runs this command whenever that is needed."
        ),
    )
    enrol.add_argument(
        "--out", metavar="FILE", type=Path, required=True, help="gets certificate and key; its folder must exist"
    )
    enrol.add_argument(
        "--nodes-ca", metavar="FILE", type=Path, required=True, help="the CA that must have signed the certificate"
    )
    enrol.add_argument("--node", metavar="NAME", help="the node's name (default: NODE_NAME, or the host's name)")
    enrol.add_argument(
        "--wait", metavar="SECONDS", type=seconds, default=60.0, help="wait for the signer's answer (default: 60)"
    )
    enrol.add_argument(
        "--life-minutes",
        metavar="N",
        type=whole_number,
        help="ask for a shorter life than the signer gives; at least 10 (default: as the signer gives)",
    )
    enrol.add_argument(
        "--kubeconfig", metavar="FILE", help="a kubeconfig (default: the account of the pod that runs this)"
    )
    enrol.add_argument("--context", metavar="NAME", help="a context of the kubeconfig (default: the current one)")
    enrol.set_defaults(run=_enrol)


def _enrol(options: argparse.Namespace) -> None:
    from carico.enrolment.requester import Requester
    from carico.kube.client import KubeClient

    requester = Requester(
        options.node or os.environ.get("NODE_NAME") or socket.gethostname().lower(),
        options.out,
        options.nodes_ca,
        SystemClock(),
        random.Random(),
        life=None if options.life_minutes is None else timedelta(minutes=options.life_minutes),
    )
    end, due = requester.ensure(
        lambda: KubeClient.from_config(options.kubeconfig, options.context, remedy=OUTSIDE_A_POD), options.wait
    )
    print(f"{options.out} is valid until {end:%Y-%m-%dT%H:%M:%SZ} and due at {due:%Y-%m-%dT%H:%M:%SZ}")
