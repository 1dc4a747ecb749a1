"""A Kubernetes control plane as plain processes on this machine, which guests of the lab join.

Under emulation a control plane in a guest takes minutes to start; this one takes seconds. kubeadm writes its
certificates, and what nodes that join read from the cluster.
"""

from __future__ import annotations

import json
import secrets
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path

import psutil
import yaml

from testbed.errors import ClusterError
from testbed.images.node_image import CLUSTER_DNS
from testbed.programs.run import run_program
from tests.kits.xen_lab.processes import require_running, start

NAMES = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubeadm", "kubectl")
"""The programs that it needs."""
_PORT = 6443
_READY_S = 180.0
_STEP_S = 120.0
_POLL_S = 0.1
_NODES_MAY_BE_SILENT = "90s"
"""A guest that is busy, emulated, does not report for longer than real nodes."""
_PATIENT = json.dumps(
    {
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "coredns", "readinessProbe": {"timeoutSeconds": 10}}]},
            }
        }
    }
)
"""Of the cluster's DNS, without which nobody finds anybody: it needs more than a second for an answer, emulated."""


class PlainControlPlane:
    """A control plane in a folder.

    Parameters
    ----------
    folder : Path
    address : str
        Where it listens, on the lab's network only.
    programs : mapping of str to Path
    version : str
        Of Kubernetes, for example v1.34.4.
    """

    def __init__(self, folder: Path, address: str, programs: Mapping[str, Path], version: str) -> None:
        self.folder = folder
        self._address = address
        self._programs = programs
        self._version = version
        self._pki = folder / "pki"
        self._config = folder / "kubeadm.yaml"
        self._processes: dict[str, psutil.Process] = {}

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.folder / "admin.conf"

    @property
    def join(self) -> Path:
        """The file with the command that joins a node."""
        return self.folder / "join"

    def start(self) -> None:
        """Start the processes, and wait until nodes can join.

        Raises
        ------
        ClusterError
            If a process ends, or is not ready in time.
        """
        self.folder.mkdir(mode=0o700)
        self._config.write_text(_kubeadm_config(self._pki, self._address, self._version), encoding="utf-8")
        self._kubeadm("certs", "all")
        self._kubeadm("kubeconfig", "all", "--kubeconfig-dir", self.folder)
        self._start_etcd()
        self._start_api_server()
        self._wait(self._is_ready, "the API server is not ready")
        # Only now: without the roles that the API server makes first, the controller manager ends.
        self._start_controllers()
        admin = self.folder / "super-admin.conf"
        self._kubectl(admin, "create", "clusterrolebinding", "kubeadm:cluster-admins", "--clusterrole=cluster-admin",
                      "--group=kubeadm:cluster-admins")  # fmt: skip
        self._kubeadm("upload-config", "all", "--kubeconfig", self.kubeconfig)
        self._kubeadm("bootstrap-token", "--kubeconfig", self.kubeconfig)
        self._kubeadm("addon", "kube-proxy", "--kubeconfig", self.kubeconfig)
        self._kubeadm("addon", "coredns", "--kubeconfig", self.kubeconfig)
        self._kubectl(self.kubeconfig, "apply", "--filename", CLUSTER_DNS)
        self._kubectl(self.kubeconfig, "scale", "deployment", "coredns", "--namespace=kube-system", "--replicas=1")
        self._kubectl(self.kubeconfig, "patch", "deployment", "coredns", "--namespace=kube-system", "--patch", _PATIENT)
        # Without the signature, kubeadm join waits for five minutes.
        self._wait(self._is_signed, "the cluster's information is not signed for nodes that join")
        command = ["token", "create", "--print-join-command", "--kubeconfig", self.kubeconfig]
        self.join.write_text(run_program([self._programs["kubeadm"], *command], _STEP_S).splitlines()[-1] + "\n")

    def _start_etcd(self) -> None:
        peer, client = f"https://{self._address}:2380", f"https://{self._address}:2379"
        etcd = self._pki / "etcd"
        self._start(
            "etcd",
            {
                "data-dir": self.folder / "etcd",
                "name": "lab",
                "listen-client-urls": client,
                "advertise-client-urls": client,
                "listen-peer-urls": peer,
                "initial-advertise-peer-urls": peer,
                "initial-cluster": f"lab={peer}",
                "cert-file": etcd / "server.crt",
                "key-file": etcd / "server.key",
                "client-cert-auth": "true",
                "trusted-ca-file": etcd / "ca.crt",
                "peer-cert-file": etcd / "peer.crt",
                "peer-key-file": etcd / "peer.key",
                "peer-client-cert-auth": "true",
                "peer-trusted-ca-file": etcd / "ca.crt",
                "unsafe-no-fsync": "true",
            },
        )

    def _start_api_server(self) -> None:
        pki = self._pki
        self._start(
            "kube-apiserver",
            {
                "bind-address": self._address,
                "advertise-address": self._address,
                "secure-port": str(_PORT),
                "etcd-servers": f"https://{self._address}:2379",
                "etcd-cafile": pki / "etcd" / "ca.crt",
                "etcd-certfile": pki / "apiserver-etcd-client.crt",
                "etcd-keyfile": pki / "apiserver-etcd-client.key",
                "client-ca-file": pki / "ca.crt",
                "tls-cert-file": pki / "apiserver.crt",
                "tls-private-key-file": pki / "apiserver.key",
                "kubelet-client-certificate": pki / "apiserver-kubelet-client.crt",
                "kubelet-client-key": pki / "apiserver-kubelet-client.key",
                "kubelet-preferred-address-types": "InternalIP",
                "service-account-issuer": "https://kubernetes.default.svc.cluster.local",
                "service-account-key-file": pki / "sa.pub",
                "service-account-signing-key-file": pki / "sa.key",
                "service-cluster-ip-range": "10.96.0.0/12",
                "allow-privileged": "true",
                "authorization-mode": "Node,RBAC",
                "enable-admission-plugins": "NodeRestriction",
                "enable-bootstrap-token-auth": "true",
                "requestheader-client-ca-file": pki / "front-proxy-ca.crt",
                "requestheader-allowed-names": "front-proxy-client",
                "requestheader-username-headers": "X-Remote-User",
                "requestheader-group-headers": "X-Remote-Group",
                "requestheader-extra-headers-prefix": "X-Remote-Extra-",
                "proxy-client-cert-file": pki / "front-proxy-client.crt",
                "proxy-client-key-file": pki / "front-proxy-client.key",
            },
        )

    def _start_controllers(self) -> None:
        kubeconfig = self.folder / "controller-manager.conf"
        shared = {"bind-address": self._address, "leader-elect": "false"}
        self._start(
            "kube-controller-manager",
            shared
            | {
                "kubeconfig": kubeconfig,
                "authentication-kubeconfig": kubeconfig,
                "authorization-kubeconfig": kubeconfig,
                "controllers": "*,bootstrapsigner,tokencleaner",
                "use-service-account-credentials": "true",
                "root-ca-file": self._pki / "ca.crt",
                "client-ca-file": self._pki / "ca.crt",
                "service-account-private-key-file": self._pki / "sa.key",
                "cluster-signing-cert-file": self._pki / "ca.crt",
                "cluster-signing-key-file": self._pki / "ca.key",
                "node-monitor-grace-period": _NODES_MAY_BE_SILENT,
            },
        )
        kubeconfig = self.folder / "scheduler.conf"
        names = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        self._start("kube-scheduler", shared | dict.fromkeys(names, kubeconfig))

    def _start(self, name: str, options: Mapping[str, str | Path]) -> None:
        command = [self._programs[name], *(f"--{option}={value}" for option, value in options.items())]
        self._processes[name] = start(command, self.folder / f"{name}.log")

    def _kubeadm(self, *phase: str | Path) -> None:
        try:
            run_program([self._programs["kubeadm"], "init", "phase", *phase, "--config", self._config], _STEP_S)
        except ClusterError as error:
            raise ClusterError(f"the phase {' '.join(map(str, phase[:2]))} of the control plane: {error}") from error

    def _kubectl(self, kubeconfig: Path, *arguments: str | Path) -> str:
        return run_program([self._programs["kubectl"], "--kubeconfig", kubeconfig, *arguments], _STEP_S)

    def _is_ready(self) -> bool:
        trust = ssl.create_default_context(cafile=str(self._pki / "ca.crt"))
        try:
            with urllib.request.urlopen(f"https://{self._address}:{_PORT}/readyz", timeout=5, context=trust):
                return True
        except OSError:
            return False

    def _is_signed(self) -> bool:
        information = ("get", "configmap", "cluster-info", "--namespace=kube-public", "--output=yaml")
        return any(key.startswith("jws-kubeconfig-") for key in self._data(*information))

    def _data(self, *arguments: str) -> Mapping[str, str]:
        return yaml.safe_load(self._kubectl(self.kubeconfig, *arguments)).get("data", {})

    def _wait(self, is_so: object, otherwise: str) -> None:
        end = time.monotonic() + _READY_S
        while not is_so():
            for name, process in self._processes.items():
                require_running(process, self.folder / f"{name}.log")
            if time.monotonic() > end:
                raise ClusterError(f"{otherwise} after {_READY_S:.0f} s; its log is in {self.folder}")
            time.sleep(_POLL_S)


def _kubeadm_config(pki: Path, address: str, version: str) -> str:
    token = f"{secrets.token_hex(3)}.{secrets.token_hex(8)}"
    api = "kubeadm.k8s.io/v1beta4"
    documents = [
        {
            "apiVersion": api,
            "kind": "InitConfiguration",
            "localAPIEndpoint": {"advertiseAddress": address, "bindPort": _PORT},
            "nodeRegistration": {"name": "xen-lab"},
            "bootstrapTokens": [{"token": token, "ttl": "24h0m0s", "usages": ["signing", "authentication"]}],
        },
        {
            "apiVersion": api,
            "kind": "ClusterConfiguration",
            "kubernetesVersion": version,
            "certificatesDir": str(pki),
            "controlPlaneEndpoint": f"{address}:{_PORT}",
            "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/12"},
        },
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "cgroupDriver": "systemd",
            # Where kubeadm join puts it; otherwise this would be the folder of the certificates here.
            "authentication": {"x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"}},
            # For emulated, slow nodes.
            "nodeStatusUpdateFrequency": "20s",
            "syncFrequency": "2m",
            "runtimeRequestTimeout": "10m",
        },
        {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables"},
    ]
    return yaml.safe_dump_all(documents, sort_keys=False)
