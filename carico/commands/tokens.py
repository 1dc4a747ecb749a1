"""``carico tokens``: keeps tokens of service accounts for containers of a pod; needs the extra `scheduler`."""

from __future__ import annotations

import argparse
import os
import random
from pathlib import Path

from carico.commands import Commands
from carico.commands.cluster import OUTSIDE_A_POD
from carico.commands.stopping import stop_signal

_CA = Path("/var/run/secrets/kubernetes.io/serviceaccount/ca.crt")


def add(commands: Commands) -> None:
    """Declare the command."""
    tokens = commands.add_parser(
        "tokens",
        help="keep tokens of service accounts for containers of this pod (needs the extra `scheduler`)",
        description=(
            "Asks the API server for tokens of other service accounts, with the token of the pod that runs this. "
            "Writes each into a folder that another container mounts, with the API server's CA, and replaces it after "
            "two thirds of its life, which is an hour. Runs until SIGTERM or Ctrl-C."
        ),
    )
    tokens.add_argument(
        "folders",
        metavar="ACCOUNT=FOLDER",
        nargs="+",
        type=_folder,
        help="the folder, which must exist, gets the files token and ca.crt",
    )
    tokens.add_argument("--namespace", metavar="NAME", help="of the accounts (default: the variable NAMESPACE)")
    tokens.add_argument(
        "--ca", metavar="FILE", type=Path, default=_CA, help="the API server's CA (default: that of the pod's account)"
    )
    tokens.add_argument(
        "--kubeconfig", metavar="FILE", help="a kubeconfig (default: the account of the pod that runs this)"
    )
    tokens.add_argument("--context", metavar="NAME", help="a context of the kubeconfig (default: the current one)")
    tokens.set_defaults(run=_tokens)


def _folder(text: str) -> tuple[str, Path]:
    account, equals, folder = text.partition("=")
    if not (account and equals and folder):
        raise argparse.ArgumentTypeError(f"an account and its folder are given as ACCOUNT=FOLDER, got {text!r}")
    if not Path(folder).is_dir():
        raise argparse.ArgumentTypeError(f"the folder {folder} of the account {account} must exist: make it")
    return account, Path(folder)


def _tokens(options: argparse.Namespace) -> None:
    from carico.enrolment.tokens import TokenKeeper
    from carico.errors import InvalidInput
    from carico.kube.client import KubeClient
    from carico.logs import set_up_logs

    namespace = options.namespace or os.environ.get("NAMESPACE", "")
    if not namespace:
        raise InvalidInput("the namespace of the accounts is needed: give --namespace, or set NAMESPACE")
    set_up_logs("json")
    kube = KubeClient.from_config(options.kubeconfig, options.context, remedy=OUTSIDE_A_POD)
    keeper = TokenKeeper(kube, namespace, dict(options.folders), options.ca, random.Random())
    with stop_signal() as stop:
        keeper.run(stop)
