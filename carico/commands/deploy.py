"""``carico deploy``, ``renew``, ``undeploy``, ``status``, ``costs``: on a cluster; needs the extra `scheduler`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from carico.clock import SystemClock
from carico.commands import Commands
from carico.commands.arguments import whole_number
from carico.commands.cluster import connected, of_cluster
from carico.commands.output import of_output, table_width, wants_json
from carico.demand.settings import DEMAND
from carico.errors import RegistryError
from carico.printable import printable

if TYPE_CHECKING:
    from carico.deployment.cert_manager import Issuer
    from carico.deployment.manifests import Choices
    from carico.kube.objects import KubeObjects


def add(commands: Commands) -> None:
    """Declare the commands."""
    deploy = commands.add_parser(
        "deploy",
        help="put CARICO on a cluster, or bring it up to date (needs the extra `scheduler`)",
        description=(
            "Makes the certificates that are missing or expire soon, and applies the manifests (server-side, as the "
            "field manager `carico`): agents on all nodes, schedulers and, for the variants of the thesis, aggregation "
            "servers. Nodes get their certificates from the schedulers' pods by themselves, those that are "
            "added later, too. Run it again after an upgrade."
        ),
    )
    of_cluster(deploy)
    deploy.add_argument(
        "--image", help="CARICO's image: REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST (default: carico:VERSION)"
    )
    deploy.add_argument(
        "--kube-scheduler-image",
        metavar="IMAGE",
        help="kube-scheduler's image, likewise, in your cluster's version (default: v1.34.4)",
    )
    deploy.add_argument(
        "--by-tag",
        action="store_true",
        help=(
            "leave images with a tag as they are named, for nodes that have them from elsewhere than their registry; "
            "by default the registry is asked for the digest, because a tag may move to another image"
        ),
    )
    deploy.add_argument(
        "--telemetry",
        choices=["procfs", "cgroup"],
        default="procfs",
        help="cgroup for nodes that are containers themselves, such as kind's (default: procfs)",
    )
    deploy.add_argument(
        "--variant",
        metavar="NAME",
        default=DEMAND.name,
        help="CARICO's parameters: demand, thesis-rebased or another (default: %(default)s)",
    )
    deploy.add_argument(
        "--observe",
        action="store_true",
        help="schedule nothing: learn what pods cost, for `carico costs`; needs the variant demand",
    )
    deploy.add_argument(
        "--on-control-plane",
        action="store_true",
        help="run servers and schedulers on nodes of the control plane, and leave the other nodes to pods",
    )
    deploy.add_argument(
        "--replicas",
        metavar="N",
        type=whole_number,
        default=2,
        help=(
            "pods of the schedulers, and of the aggregation servers (default: 2); with 1, nothing takes over while the "
            "pod or its node is down, and pods wait that long"
        ),
    )
    _of_ca(deploy)
    deploy.add_argument(
        "--cert-manager",
        metavar="ISSUER",
        nargs="?",
        const="",
        help=(
            "let cert-manager issue servers' certificates, and renew them by itself: with Issuer/NAME of the namespace "
            "or ClusterIssuer/NAME; without a name, with an Issuer of CARICO's own CA, whose key is then on the "
            "cluster; `none` ends that (default: as before)"
        ),
    )
    deploy.add_argument(
        "--new-ca", action="store_true", help="replace both CAs and all certificates, and roll all pods"
    )
    deploy.add_argument(
        "--only-certificates",
        action="store_true",
        help="make only the namespace, the certificates and the status key, for what Helm installs (see helm-chart)",
    )
    deploy.add_argument("--force-conflicts", action="store_true", help="take over fields that others have changed")
    deploy.add_argument(
        "--dry-run", action="store_true", help="print the YAML, without certificates, and contact no cluster"
    )
    _waiting(deploy, "pods to be ready")
    deploy.set_defaults(run=_deploy)
    renew = commands.add_parser(
        "renew",
        help="renew the certificates of CARICO on a cluster that expire soon",
        description=(
            "Renews servers' certificates, and CAs, of which less than a third of the time is left; nodes renew theirs "
            "by themselves. Servers read the new ones within minutes. Nothing else is changed, so the command can be "
            "run regularly."
        ),
    )
    of_cluster(renew)
    _of_ca(renew)
    renew.add_argument("--all", action="store_true", help="renew all servers' certificates, but not the CAs")
    _waiting(renew, "pods to be ready, if another CA has rolled them")
    renew.set_defaults(run=_renew)
    undeploy = commands.add_parser(
        "undeploy",
        help="remove CARICO from a cluster",
        description="Removes all objects that `carico deploy` has labelled, and CARICO's annotations on nodes.",
    )
    of_cluster(undeploy)
    _waiting(undeploy, "everything to be gone")
    undeploy.set_defaults(run=_undeploy)
    status = commands.add_parser(
        "status",
        help="show the status of CARICO on a cluster",
        description=(
            "Shows the pods of every component, and what the leading extender knows about every node; the exit code is "
            "1 if there is a problem."
        ),
    )
    of_cluster(status)
    of_output(status, "the same, with ages in seconds and null for what is unknown", flag=True)
    status.set_defaults(run=_status)

    costs = commands.add_parser(
        "costs",
        help="show what pods of each workload demand, next to what they request",
        description=(
            "Shows what agents of the variant demand have learned about every workload: the cores and GiB that a pod "
            "demands, with the standard deviation, what pods request, and how much in total is wasted or at risk. "
            "Needs the variant demand, which `carico deploy` uses by default; with --observe it schedules nothing."
        ),
    )
    of_cluster(costs)
    costs.add_argument(
        "--by-node", action="store_true", help="show what each node knows, before pooling and without requests"
    )
    of_output(costs, flag=True)
    costs.set_defaults(run=_costs)


def _of_ca(parser: argparse.ArgumentParser) -> None:
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--certificates",
        metavar="FOLDER",
        type=Path,
        help=(
            "the folder that keeps the CA and its key, ca.crt and ca.key (default: carico/UID in XDG_CONFIG_HOME or "
            "~/.config, where UID is that of the namespace kube-system)"
        ),
    )
    where.add_argument(
        "--ca-key-on-cluster",
        action="store_true",
        help="keep the CA's key in the Secret carico-ca instead, where other administrators find it",
    )


def _waiting(parser: argparse.ArgumentParser, what: str) -> None:
    parser.add_argument(
        "--wait",
        metavar="SECONDS",
        type=whole_number,
        default=180,
        help=f"wait for {what}; 0 does not wait (default: 180)",
    )


def _deploy(options: argparse.Namespace) -> None:
    from carico.deployment.deploy import Deployment
    from carico.deployment.manifests import IMAGE, KUBE_SCHEDULER_IMAGE, Choices, as_yaml, manifests

    choices = Choices(
        namespace=options.namespace,
        image=IMAGE if options.image is None else options.image,
        kube_scheduler_image=(
            KUBE_SCHEDULER_IMAGE if options.kube_scheduler_image is None else options.kube_scheduler_image
        ),
        telemetry=options.telemetry,
        variant=options.variant,
        on_control_plane=options.on_control_plane,
        observe=options.observe,
        replicas=options.replicas,
    )
    issuer = _issuer(options.cert_manager)
    if options.dry_run:
        sys.stdout.write(as_yaml(manifests(choices)))
        return
    with connected(options) as kube:
        if not (options.by_tag or options.only_certificates):
            choices = _pinned(choices, kube)
        deployment = Deployment(kube, SystemClock(), _tell)
        deployment.deploy(
            choices,
            datetime.now(UTC),
            folder=_ca_folder(options, kube),
            force=options.force_conflicts,
            wait_s=options.wait,
            new_ca=options.new_ca,
            issuer=issuer,
            only_certificates=options.only_certificates,
        )
    if options.only_certificates:
        _tell(f"next: helm install carico CHART --namespace {options.namespace}; `carico helm-chart` writes the chart")
    elif options.observe:
        _tell("next: let your pods run for a while; `carico costs` shows what they demand, next to what they request")
    else:
        _tell("next: give pods `schedulerName: carico`; `carico status` shows how full each node is")


def _pinned(choices: Choices, kube: KubeObjects) -> Choices:
    """Return the choices with images by digest, as far as registries, or what is deployed, say it."""
    from carico.deployment.images import pinned_in
    from carico.deployment.manifests import SELECTOR
    from carico.deployment.registry import Registry

    registry = Registry(os.environ)

    def pinned(image: str) -> str:
        try:
            exact = registry.pinned(image)
        except RegistryError as error:
            kinds = ("DaemonSet", "StatefulSet")
            deployed = [
                thing for kind in kinds for thing in kube.list("apps/v1", kind, choices.namespace, labels=SELECTOR)
            ]
            if (kept := pinned_in(deployed, image)) is not None:
                _tell(f"{image} stays {kept.partition('@')[2]}, which is deployed: {error}")
                return kept
            _tell(f"{image} is deployed by its tag, which may move to another image: {error}")
            return image
        if exact != image:
            _tell(f"{image} is {exact.partition('@')[2]}, and is deployed as that (--by-tag: by its tag)")
        return exact

    choices = replace(choices, image=pinned(choices.image))
    if choices.observe:  # there is no kube-scheduler then
        return choices
    return replace(choices, kube_scheduler_image=pinned(choices.kube_scheduler_image))


def _issuer(text: str | None) -> Issuer | None:
    from carico.deployment.cert_manager import NOBODY, OWN, Issuer

    if text is None:
        return None
    return {"": OWN, "none": NOBODY}.get(text) or Issuer.parse(text)


def _renew(options: argparse.Namespace) -> None:
    from carico.deployment.deploy import Deployment
    from carico.deployment.rollout import wait_rolled_out

    with connected(options) as kube:
        clock = SystemClock()
        folder = _ca_folder(options, kube)
        rolled = Deployment(kube, clock, _tell).renew(options.namespace, datetime.now(UTC), folder, options.all)
        if options.wait > 0:
            wait_rolled_out(kube, rolled, clock, within_s=options.wait, tell=_tell)


def _ca_folder(options: argparse.Namespace, kube: KubeObjects) -> Path | None:
    from carico.deployment.ca_folder import default_folder

    if options.ca_key_on_cluster:
        return None
    return options.certificates or default_folder(kube, os.environ)


def _undeploy(options: argparse.Namespace) -> None:
    from carico.deployment.deploy import Deployment

    with connected(options) as kube:
        Deployment(kube, SystemClock(), _tell).undeploy(options.namespace, options.wait)
    _tell("the agents' checkpoints are still on the nodes, in /var/lib/carico, and the CA is still in its folder")


def _status(options: argparse.Namespace) -> None:
    from carico.deployment.status import as_json, read_status, show

    with connected(options) as kube:
        status = read_status(kube, options.namespace, datetime.now(UTC))
    # Who reads a pipe wants whole names.
    width = table_width() if sys.stdout.isatty() else None
    print(as_json(status) if wants_json(options) else show(status, width))
    if status.problems:
        sys.exit(1)


def _costs(options: argparse.Namespace) -> None:
    from carico.deployment.costs import as_json, read_costs, read_node_costs
    from carico.deployment.costs_table import show, show_by_node

    with connected(options) as kube:
        if options.by_node:
            at_nodes = read_node_costs(kube, options.namespace, datetime.now(UTC))
            print(as_json(at_nodes) if wants_json(options) else show_by_node(at_nodes, table_width()))
        else:
            costs = read_costs(kube, options.namespace, datetime.now(UTC))
            print(as_json(costs) if wants_json(options) else show(costs, table_width()))


def _tell(line: str) -> None:
    print(printable(line), flush=True)
