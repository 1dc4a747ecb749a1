"""CARICO deployed on a real API server, with its accounts' rights and its pods' files."""

import base64
import io
from contextlib import contextmanager, redirect_stdout
from datetime import UTC, datetime

import kubernetes.client
import kubernetes.config
import pytest
import yaml
from kubernetes.client.exceptions import ApiException

from carico.cli import main
from carico.config import TlsFiles
from carico.deployment.authority import Authority

NAMESPACE = "carico"
WITH_AGGREGATORS = ("--variant", "thesis-rebased")
"""Arguments of `carico deploy` for a deployment with all components."""


class Cluster:
    """A cluster on which tests deploy CARICO."""

    def __init__(self, kubeconfig):
        self.kubeconfig = kubeconfig
        self.config = kubeconfig.parent / "config"
        """In place of the user's folder of configurations, which keeps the CA."""
        self.configuration = kubernetes.client.Configuration()
        kubernetes.config.load_kube_config(str(kubeconfig), None, self.configuration)
        api = kubernetes.client.ApiClient(self.configuration)
        self.core = kubernetes.client.CoreV1Api(api)
        self.authorization = kubernetes.client.AuthorizationV1Api(api)

    def carico(self, *arguments):
        """Run a `carico` command and return its exit code and output; `deploy` asks no registry."""
        by_tag = ["--by-tag"] if arguments[0] == "deploy" else []
        out = io.StringIO()
        with redirect_stdout(out), pytest.MonkeyPatch.context() as patched:
            patched.setenv("XDG_CONFIG_HOME", str(self.config))
            patched.setenv("COLUMNS", "200")
            try:
                code = main([*arguments, *by_tag, "--kubeconfig", str(self.kubeconfig)])
            except SystemExit as exited:
                code = exited.code
        return code, out.getvalue()

    def may(self, account, verb, group, resource, name="", subresource="", namespace=""):
        """Whether one of CARICO's service accounts has a right, as in `kubectl auth can-i`."""
        review = {
            "spec": {
                "user": f"system:serviceaccount:{NAMESPACE}:{account}",
                "groups": ["system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}", "system:authenticated"],
                "resourceAttributes": {
                    "verb": verb,
                    "group": group,
                    "resource": resource,
                    "subresource": subresource,
                    "name": name,
                    "namespace": namespace,
                },
            }
        }
        return self.authorization.create_subject_access_review(review).status.allowed

    @contextmanager
    def acting_as(self, account):
        """Yield the core API with the rights of a service account."""
        with kubernetes.client.ApiClient(self.configuration) as api:
            api.set_default_header("Impersonate-User", f"system:serviceaccount:{NAMESPACE}:{account}")
            api.set_default_header("Impersonate-Group", "system:authenticated")
            yield kubernetes.client.CoreV1Api(api)

    def secret(self, name):
        """Return the decoded content of a Secret; None if it does not exist."""
        try:
            data = self.core.read_namespaced_secret(name, NAMESPACE).data
        except ApiException as error:
            if error.status != 404:
                raise
            return None
        return {key: base64.b64decode(value) for key, value in data.items()}

    def configuration_file(self, config_map, name):
        """Return a process's configuration from its pod's ConfigMap."""
        return yaml.safe_load(self.core.read_namespaced_config_map(f"carico-{config_map}", NAMESPACE).data[name])

    def server_files(self, server, folder):
        """Write the files that a server's pod mounts, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        content = self.secret(f"carico-{server}-tls") | self.cas()
        for name, text in content.items():
            (folder / name).write_bytes(text)
        return TlsFiles(*(str(folder / name) for name in ("tls.crt", "tls.key", "ca.crt", "nodes-ca.crt")))

    def node_files(self, node, folder):
        """Make a certificate as the signer does, write the files that a node's agent has, and return their paths."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.cas().items():
            (folder / name).write_bytes(text)
        made = self.nodes_authority(folder / "authority").make_node(node)
        own = folder / f"{node}.pem"
        own.write_bytes(made.read_bytes() + made.with_suffix(".key").read_bytes())
        return TlsFiles(str(own), str(own), str(folder / "ca.crt"), str(folder / "nodes-ca.crt"))

    def nodes_authority(self, folder):
        """Write what the signer mounts: the CA for nodes with its key."""
        folder.mkdir(parents=True, exist_ok=True)
        secret = self.secret("carico-nodes-ca")
        for kind in ("crt", "key"):
            (folder / f"ca.{kind}").write_bytes(secret[f"tls.{kind}"])
        return Authority(folder, datetime.now(UTC), overwrite=True)

    def nodes(self):
        """Return the names of all nodes."""
        return sorted(node.metadata.name for node in self.core.list_node().items)

    def add_node(self, name):
        """Add a fake node on which DaemonSets run pods; it stays until `remove_node`."""
        node = {
            "metadata": {
                "name": name,
                "annotations": {"kwok.x-k8s.io/node": "fake"},
                "labels": {"kubernetes.io/hostname": name, "type": "kwok"},
            },
            "status": {
                "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"},
                "capacity": {"cpu": "32", "memory": "256Gi", "pods": "110"},
            },
        }
        self.core.create_node(node)

    def remove_node(self, name):
        """Remove a node."""
        try:
            self.core.delete_node(name)
        except ApiException as error:
            if error.status != 404:
                raise

    def cas(self):
        """Return the certificates of both CAs, as all pods mount them."""
        data = self.core.read_namespaced_config_map("carico-ca", NAMESPACE).data
        return {name: text.encode() for name, text in data.items()}
