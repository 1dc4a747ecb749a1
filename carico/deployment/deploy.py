"""Deploy and undeploy: apply all objects in order, and remove them in reverse order; both may be repeated.

If the API server refuses an object, the objects applied before it stay, and the next attempt continues from there.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from carico.clock import Clock
from carico.deployment import certificates
from carico.deployment.authority import Authority, key_digest
from carico.deployment.ca_folder import copy_ca, has_ca
from carico.deployment.cert_manager import API, NOBODY, CertManager, Issuer
from carico.deployment.cert_manager import objects as cert_manager_objects
from carico.deployment.images import digests
from carico.deployment.manifests import (
    COMPONENT,
    EARLIER_TOKENS,
    INSTALLED,
    LABELS,
    MANAGED_BY,
    SELECTOR,
    STATUS_KEY,
    Choices,
    is_aggregators,
    is_for_scheduling,
    labelled,
    lease,
    let_reach_api_server,
    manifests,
)
from carico.deployment.rollout import Tell, rolled_out, wait_gone, wait_rolled_out
from carico.errors import InvalidInput, KubeRefused
from carico.extender.process import ANNOTATION
from carico.kube.objects import KubeObject, KubeObjects, title

ISSUED = "carico.dev/certificates"
"""Annotation of a pod that rolls it: digests of the CAs that it was started with. All processes read renewed files."""
RENEWED = "carico.dev/certificates-renewed"
"""Annotation of a pod that was given another CA without deploying; it replaces `ISSUED`."""
_ISSUED_WITHIN_S = 60.0
"""The least time for which cert-manager is waited for: without certificates nothing starts."""
_REMEDIES = {
    401: "log in again, or give another --context",
    403: "deploying needs the rights of a cluster administrator",
    404: "Kubernetes 1.30 or later is needed",
    409: "another field manager owns these fields: --force-conflicts takes them over",
}


@dataclass(frozen=True)
class Deployment:
    """A deployment on a cluster.

    Parameters
    ----------
    kube : KubeObjects
    clock : Clock
        The clock of the waits.
    tell : callable
        Called with every message for the user.
    """

    kube: KubeObjects
    clock: Clock
    tell: Tell

    def deploy(
        self,
        choices: Choices,
        now: datetime,
        folder: Path | None = None,
        force: bool = False,
        wait_s: float = 0.0,
        new_ca: bool = False,
        issuer: Issuer | None = None,
        only_certificates: bool = False,
    ) -> None:
        """Apply all objects.

        Parameters
        ----------
        choices : Choices
        now : datetime
            With a time zone; new certificates are valid from then on.
        folder : Path, optional
            The folder that keeps the CA; its key is then removed from the cluster. By default the cluster keeps it.
        force : bool, optional
            Take over fields that another field manager owns.
        wait_s : float, optional
            How long to wait for pods to be ready, seconds; 0 does not wait.
        new_ca : bool, optional
            Replace both CAs, and therefore all certificates.
        issuer : Issuer, optional
            What signs servers' certificates through cert-manager; `NOBODY` ends that. By default as it was before.
        only_certificates : bool, optional
            Apply only the namespace, the certificates and the status key: Helm, or somebody else, applies the rest.

        Raises
        ------
        InvalidInput
            If CARICO is deployed in another namespace, or by Helm, or certificates cannot be used.
        KubeError
            If the API server does not answer, or refuses an object; the message names the object.
        NotReady
            If certificates are not issued, or pods not ready, in time.
        """
        self._refuse_second_deployment(choices.namespace)
        if not only_certificates:
            self._refuse_of_helm(choices.namespace, "helm upgrade")
        issuer = self._issuer(choices.namespace, issuer)
        objects = manifests(choices)
        let_reach_api_server(objects, self._api_ports())
        namespace, *others = objects
        found = self.kube.read(namespace)
        if found is not None and not _is_ours(found):
            self.tell(f"{title(namespace)} is not CARICO's: left as it is")
        else:
            self._apply([namespace], force)
        issued_within_s = max(wait_s, _ISSUED_WITHIN_S)
        made = self._certificates(
            others, choices.namespace, now, folder, issuer, new_ca=new_ca, issued_within_s=issued_within_s
        )
        rest = [] if only_certificates else others
        self._apply([*made, self._status_key(choices.namespace), *rest], force)
        if folder is not None if issuer is None else not issuer.has_own_ca:
            self._remove_ca_key(choices.namespace)
        if choices.learns_demand and not only_certificates:
            self._remove_aggregators(choices.namespace)
        if choices.observe and not only_certificates:
            self._remove_rights_to_schedule(choices.namespace)
        if issuer is not None and issuer.has_own_ca:
            ca = made[0]["data"]["ca.crt"]
            servers = list(certificates.hosts_of(others))
            manager = CertManager(self.kube, choices.namespace)
            manager.wait_issued(issuer, servers, self.clock, issued_within_s, ca)
        if only_certificates:
            return
        if wait_s > 0:
            wait_rolled_out(
                self.kube, [thing for thing in others if _has_pods(thing)], self.clock, within_s=wait_s, tell=self.tell
            )
            self._tell_digests(choices)
        self._remove_keys_of_nodes(choices.namespace)
        self._remove_earlier_tokens(choices.namespace)

    def renew(
        self, namespace: str, now: datetime, folder: Path | None = None, every: bool = False
    ) -> list[dict[str, Any]]:
        """Renew the certificates of a deployment that expire soon, and change nothing else.

        Servers read their new certificates within minutes, and nodes renew theirs without help. Pods are rolled only if
        a CA was replaced.

        Parameters
        ----------
        namespace : str
        now : datetime
            With a time zone; new certificates are valid from then on.
        folder : Path, optional
            The folder that keeps the CA; not used if it has none and the cluster has one.
        every : bool, optional
            Renew certificates that do not expire soon, too.

        Returns
        -------
        list
            What is being rolled.

        Raises
        ------
        InvalidInput
            If CARICO is not deployed there, is of a version before nodes got certificates of their own, or certificates
            cannot be used.
        KubeError
            If the API server does not answer, or refuses an object; the message names the object.
        """
        self._refuse_second_deployment(namespace)
        deployed = [
            thing
            for kind in ("StatefulSet", "DaemonSet")
            for thing in self.kube.list("apps/v1", kind, namespace, labels=INSTALLED)
        ]
        if not deployed:
            raise InvalidInput(f"CARICO is not deployed in the namespace {namespace}: run `carico deploy`")
        if any(_mounts(thing, certificates.KEYS_OF_NODES) for thing in deployed):
            raise InvalidInput(
                "the deployed agents are of an earlier version, with all nodes' keys in one Secret: bring CARICO up to "
                "date with `carico deploy`, which gives every node a key of its own, or renew with that version"
            )
        if folder is not None and not has_ca(folder) and certificates.CA_SECRET in self._secrets(namespace):
            folder = None
        before = {title(thing): self._issued_before(thing) for thing in deployed}
        issuer = self._issuer(namespace)
        if issuer is not None:
            self.tell("it renews them by itself, and `cmctl renew` at once; CARICO's own CAs are looked after here")
        self._apply(self._certificates(deployed, namespace, now, folder, issuer, renew=every), force=False)
        rolled = [thing for thing in deployed if _annotations(thing).get(ISSUED) != before[title(thing)]]
        for thing in rolled:
            template = {"metadata": {"annotations": {RENEWED: _annotations(thing)[ISSUED]}}}
            self.kube.patch(thing, {"spec": {"template": template}})
            self.tell(f"{title(thing)} is rolled, to read its new certificates")
        return rolled

    def undeploy(self, namespace: str, wait_s: float = 0.0) -> None:
        """Remove all objects with our labels, the scheduler's lock, and the extender's annotations of nodes.

        A namespace stays if `deploy` did not make it, or if it holds other pods. Raises as `deploy` does.
        """
        home, *others = manifests(Choices(namespace))
        self._refuse_second_deployment(namespace)
        self._refuse_of_helm(namespace, "helm uninstall")
        kinds = dict.fromkeys([("v1", "Secret"), *((thing["apiVersion"], thing["kind"]) for thing in others)])
        if CertManager(self.kube, namespace).certificates() is not None:
            # Their Secrets go after them, because cert-manager would make these again.
            kinds |= dict.fromkeys([(API, "Issuer"), (API, "Certificate")])
        found = [thing for kind in reversed(kinds) for thing in self.kube.list(*kind, labels=SELECTOR)]
        removed = [thing for thing in [*found, lease(namespace)] if self._remove(thing)]
        for node in self.kube.list("v1", "Node"):
            if ANNOTATION in (node["metadata"].get("annotations") or {}):
                self.kube.annotate_node(node["metadata"]["name"], {ANNOTATION: None})
                self.tell(f"{title(node)} annotation removed")
        remaining = self.kube.read(home)
        if remaining is not None and _is_ours(remaining):
            others_pods = sum(not _is_ours(pod) for pod in self.kube.list("v1", "Pod", namespace))
            if others_pods:
                self.tell(f"{title(home)} stays: {others_pods} pods in it are not CARICO's")
            elif self._remove(home):
                removed.append(home)
        if not removed:
            self.tell("nothing to remove")
        elif wait_s > 0:
            wait_gone(self.kube, removed, self.clock, within_s=wait_s, tell=self.tell)

    def _certificates(
        self,
        objects: list[dict[str, Any]],
        namespace: str,
        now: datetime,
        folder: Path | None,
        issuer: Issuer | None,
        *,
        renew: bool = False,
        new_ca: bool = False,
        issued_within_s: float = _ISSUED_WITHIN_S,
    ) -> list[dict[str, Any]]:
        """Return the objects that hold certificates, and annotate those with pods that need to be rolled."""
        hosts = certificates.hosts_of(objects)
        own_ca = issuer is None or issuer.has_own_ca
        if new_ca and not own_ca:
            raise InvalidInput(f"--new-ca replaces CARICO's own CAs, and {issuer} signs servers: replace the CA there")
        with TemporaryDirectory(prefix="carico-") as temporary:
            authority = Authority(Path(temporary) / "servers", now, overwrite=True)
            nodes = Authority(Path(temporary) / "nodes", now, overwrite=True)
            for each in (authority, nodes):
                each.folder.mkdir()
            self._gather(namespace, folder, authority.folder, nodes.folder, new_ca=new_ca, own_ca=own_ca)
            by_hand = hosts if issuer is None else {}
            certificates.make(authority if own_ca else None, nodes, by_hand, renew)
            of_cert_manager = cert_manager_objects(issuer, hosts, namespace) if issuer is not None else []
            if issuer is not None and not own_ca:
                self._apply(of_cert_manager, force=False)
                manager = CertManager(self.kube, namespace)
                ca_pem = manager.wait_issued(issuer, list(hosts), self.clock, issued_within_s)
                (authority.folder / "ca.crt").write_text(ca_pem, encoding="ascii")
                of_cert_manager = []
            with_ca_key = own_ca and (folder is None or issuer is not None)
            packed = certificates.pack(authority, nodes, list(by_hand), namespace, with_ca_key) + of_cert_manager
            if (
                folder is not None and own_ca
            ):  # before anything is applied, so that no certificate has a CA that is lost
                copy_ca(authority.folder, folder)
                self.tell(
                    f"the CA and its key are kept in {folder}: `carico deploy` and `carico renew` need them there"
                )
            ca = key_digest((authority.folder / "ca.crt").read_bytes())
            # Servers read the CA of nodes when it is replaced. Nodes need a new certificate then, so they are rolled.
            for kind, digest in (("StatefulSet", ca), ("DaemonSet", f"{ca} {nodes.ca_digest()}")):
                for thing in objects:
                    if thing["kind"] == kind:
                        _annotations(thing)[ISSUED] = self._rolled_for(thing, digest)
            return packed

    def _rolled_for(self, thing: KubeObject, issued: str) -> str:
        """Return the annotation that does not roll pods again that were rolled when they got these CAs."""
        there = _annotations(self.kube.read(thing) or {})
        return there.get(ISSUED, issued) if there.get(RENEWED) == issued else issued

    def _issued_before(self, thing: KubeObject) -> str:
        """Return the CAs that pods were started with; without a note, as with Helm, those that the cluster has now."""
        there = _annotations(thing)
        noted = there.get(ISSUED) or there.get(RENEWED)
        if noted is not None:
            return noted
        metadata = {"name": certificates.CA_CONFIG_MAP, "namespace": thing["metadata"]["namespace"]}
        data = (self.kube.read({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}) or {}).get("data") or {}
        digests_of = [key_digest(text.encode()) for text in map(data.get, ("ca.crt", "nodes-ca.crt")) if text]
        return " ".join(digests_of[: 1 if thing["kind"] == "StatefulSet" else 2])

    def _issuer(self, namespace: str, wanted: Issuer | None = None) -> Issuer | None:
        """Return what signs servers through cert-manager: as wanted, or else as before."""
        manager = CertManager(self.kube, namespace)
        there = manager.certificates()
        if there is None:
            if wanted not in (None, NOBODY):
                raise InvalidInput(
                    f"{wanted} cannot sign, because the cluster has no cert-manager (certificates.cert-manager.io): "
                    f"install it, or deploy without --cert-manager"
                )
            return None
        present = manager.issuer()
        if wanted == NOBODY:
            for thing in [*there, *manager.issuers()]:
                self._remove(thing)
            if there:  # made anew, because cert-manager owns their content
                for server in certificates.SERVERS:
                    self._remove(manager.secret(server))
            return None
        issuer = wanted or present
        if issuer is None:
            self.tell("this cluster has cert-manager: with --cert-manager, it renews servers' certificates by itself")
        else:
            self.tell(f"cert-manager issues servers' certificates, with {issuer}")
        return issuer

    def _gather(
        self, namespace: str, folder: Path | None, servers: Path, nodes: Path, *, new_ca: bool, own_ca: bool
    ) -> None:
        """Put the CAs and the certificates that there are into folders."""
        found = self._secrets(namespace)
        if new_ca:
            self.tell("both CAs are replaced: all certificates are made anew, and all pods are rolled")
            return
        if not own_ca:
            nodes_ca = {name: thing for name, thing in found.items() if name == certificates.NODES_CA_SECRET}
            certificates.unpack(nodes_ca, servers, nodes)
            return
        in_folder = folder is not None and has_ca(folder)
        if found.keys() - {certificates.NODES_CA_SECRET} and certificates.CA_SECRET not in found and not in_folder:
            where_not = "" if folder is None else f"in {folder} or "
            raise InvalidInput(
                f"the CA's key is not {where_not}on the cluster: give the folder of the last deployment "
                f"(--certificates), or replace the CA and all certificates with `carico deploy --new-ca`"
            )
        certificates.unpack(found, servers, nodes)
        if in_folder:
            assert folder is not None
            copy_ca(folder, servers)
            if certificates.CA_SECRET in found:
                self.tell(f"the CA in {folder} takes over from the one that was kept on the cluster")

    def _secrets(self, namespace: str) -> dict[str, KubeObject]:
        return {
            name: thing
            for thing in self.kube.list("v1", "Secret", namespace, labels=SELECTOR)
            if certificates.is_certificate(name := thing["metadata"]["name"])
        }

    def _status_key(self, namespace: str) -> dict[str, Any]:
        """Return the Secret with the key of the extenders' status, which stays as long as the deployment."""
        secret = labelled("Secret", STATUS_KEY, namespace, "scheduler", type="Opaque")
        made = {"key": base64.b64encode(secrets.token_hex(32).encode()).decode()}
        return secret | {"data": (self.kube.read(secret) or {}).get("data") or made}

    def _api_ports(self) -> set[int]:
        """Return the ports of the API servers behind their Service; network plug-ins may look at these."""
        metadata = {"name": "kubernetes", "namespace": "default"}
        found = self.kube.read({"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}) or {}
        return {int(port["port"]) for subset in found.get("subsets") or () for port in subset.get("ports") or ()}

    def _remove_ca_key(self, namespace: str) -> None:
        """Remove the CA's key of an earlier deployment that kept it on the cluster."""
        for thing in self.kube.list("v1", "Secret", namespace, labels=SELECTOR):
            if thing["metadata"]["name"] == certificates.CA_SECRET:
                self._remove(thing)

    def _tell_digests(self, choices: Choices) -> None:
        """Say how to name exactly the images that nodes have pulled, where a tag names them."""
        found = digests(self.kube.list("v1", "Pod", choices.namespace, labels=SELECTOR))
        options = {"--image": choices.image, "--kube-scheduler-image": choices.kube_scheduler_image}
        for option, image in options.items():
            pulled = sorted(found.get(image, ()))
            if len(pulled) == 1:
                self.tell(f"the tag of {image} may move: {option} {pulled[0]} names exactly this image")
            elif pulled:
                self.tell(
                    f"nodes run different images as {image}, because its tag has moved: choose one of "
                    f"{', '.join(pulled)} and give it to {option}"
                )

    def _remove_keys_of_nodes(self, namespace: str) -> None:
        """Remove the Secret with all nodes' keys of an earlier version once no agent needs it any more."""
        metadata = {"name": certificates.KEYS_OF_NODES, "namespace": namespace}
        keys = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
        if self.kube.read(keys) is None:
            return
        agents = self.kube.list("apps/v1", "DaemonSet", namespace, labels=SELECTOR)
        if not all(map(rolled_out, agents)):
            self.tell(
                f"{title(keys)}, with the keys of all nodes, stays until all agents have got keys of their own: run "
                f"`carico deploy` again"
            )
        elif self._remove(keys):
            self.tell(
                "keys that somebody has copied from it are good until they expire, within a year, or until the CA is "
                "replaced: `carico deploy --new-ca`"
            )

    def _remove_earlier_tokens(self, namespace: str) -> None:
        """Remove the Secrets with tokens of an earlier version, which do not expire, once no scheduler needs them."""
        labels = f"{SELECTOR},{COMPONENT}=scheduler"
        schedulers = self.kube.list("apps/v1", "StatefulSet", namespace, labels=labels)
        for name in EARLIER_TOKENS:
            token = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace}}
            if self.kube.read(token) is None:
                continue
            if all(map(rolled_out, schedulers)):
                self._remove(token)
            else:
                self.tell(
                    f"{title(token)}, whose token does not expire, stays until all schedulers are up to date: run "
                    f"`carico deploy` again"
                )

    def _remove_aggregators(self, namespace: str) -> None:
        """Remove the aggregation servers of an earlier deployment of another variant."""
        kinds = dict.fromkeys(
            (thing["apiVersion"], thing["kind"]) for thing in manifests(Choices(namespace)) if is_aggregators(thing)
        )
        if CertManager(self.kube, namespace).certificates():
            kinds |= {(API, "Certificate"): None}
        for kind in reversed(kinds):
            for thing in self.kube.list(*kind, namespace, labels=f"{SELECTOR},{COMPONENT}=aggregator"):
                self._remove(thing)

    def _remove_rights_to_schedule(self, namespace: str) -> None:
        """Remove the rights of an earlier deployment that scheduled, and only then the policies that limit them."""
        # By name, because earlier versions did not label them as what they are for.
        for thing in reversed([each for each in manifests(Choices(namespace)) if is_for_scheduling(each)]):
            found = self.kube.read(thing)
            if found is not None and _is_ours(found):
                self._remove(thing)

    def _apply(self, objects: Iterable[KubeObject], force: bool) -> None:
        for thing in objects:
            try:
                self.kube.apply(thing, force)
            except KubeRefused as error:
                remedy = _REMEDIES.get(error.status, "the objects applied before it stay")
                raise KubeRefused(f"{title(thing)} was not applied: {error}; {remedy}", error.status) from error
            self.tell(f"{title(thing)} serverside-applied")

    def _remove(self, thing: KubeObject) -> bool:
        try:
            removed = self.kube.delete(thing)
        except KubeRefused as error:
            remedy = _REMEDIES.get(error.status, "the objects removed before it stay removed")
            raise KubeRefused(f"{title(thing)} was not removed: {error}; {remedy}", error.status) from error
        if removed:
            self.tell(f"{title(thing)} deleted")
        return removed

    def _refuse_second_deployment(self, namespace: str) -> None:
        """Nodes, roles and the scheduler's name belong to the whole cluster, so only one deployment is possible."""
        found = self.kube.list("apps/v1", "DaemonSet", labels=INSTALLED)
        elsewhere = sorted({thing["metadata"]["namespace"] for thing in found} - {namespace})
        if elsewhere:
            raise InvalidInput(
                f"CARICO is deployed in the namespace {elsewhere[0]}, not {namespace}: give --namespace {elsewhere[0]}"
            )

    def _refuse_of_helm(self, namespace: str, instead: str) -> None:
        """Two tools that apply the same objects undo each other's changes."""
        found = self.kube.list("apps/v1", "DaemonSet", namespace, labels=f"{INSTALLED},{MANAGED_BY}=Helm")
        if found:
            raise InvalidInput(
                f"Helm has installed CARICO in the namespace {namespace}: use `{instead}`, or for certificates `carico "
                f"renew` and `carico deploy --only-certificates`"
            )


def _is_ours(thing: KubeObject) -> bool:
    return LABELS.items() <= (thing["metadata"].get("labels") or {}).items()


def _annotations(thing: KubeObject) -> dict[str, str]:
    """Return the annotations of an object's pods, to be changed; none if there is no such object."""
    metadata = thing["spec"]["template"].setdefault("metadata", {}) if thing else {}
    annotations: dict[str, str] = metadata.setdefault("annotations", {})
    return annotations


def _mounts(thing: KubeObject, secret: str) -> bool:
    volumes = thing["spec"]["template"]["spec"].get("volumes") or ()
    return any((volume.get("secret") or {}).get("secretName") == secret for volume in volumes)


def _has_pods(thing: KubeObject) -> bool:
    return "template" in thing.get("spec", {})
