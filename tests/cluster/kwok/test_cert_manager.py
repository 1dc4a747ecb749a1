"""Servers' certificates from a real cert-manager on a real API server.

Nothing mounts Secrets in KWOK's pods, so the test writes the files that the kubelet would write, and runs the processes
that read them.
"""

import asyncio
import base64
import socket
import ssl
import time
from contextlib import ExitStack
from datetime import UTC, datetime

import kubernetes.client
import pytest
from cryptography import x509
from kubernetes.client.exceptions import ApiException

from carico.deployment.authority import Authority
from tests.kits import cert_manager

from .deployed import NAMESPACE, WITH_AGGREGATORS, Cluster
from .test_deploy import extender, kube_scheduler, of_carico, report

pytestmark = pytest.mark.cluster
NODES = ["issued-node-0", "issued-node-1"]
SERVERS = ["extender", "kube-scheduler", "signer"]
GROUP = ("cert-manager.io", "v1")
WITHIN_S = 90.0


def until(condition, what):
    deadline = time.monotonic() + WITHIN_S
    while not (found := condition()):
        assert time.monotonic() < deadline, f"{what}: not within {WITHIN_S:g} s"
        time.sleep(0.2)
    return found


@pytest.fixture(scope="module")
def installed(carico_cluster, tmp_path_factory):
    """A cluster with cert-manager, and the API for its objects."""
    program = cert_manager.controller()
    if program is None:
        pytest.skip(f"cert-manager is not built: `{cert_manager.BUILD}` builds it in some minutes")
    cluster = Cluster(carico_cluster.kubeconfig)
    log = tmp_path_factory.mktemp("cert-manager") / "log"
    with ExitStack() as after:
        definitions = kubernetes.client.ApiextensionsV1Api(cluster.core.api_client)
        for definition in cert_manager.definitions():
            definitions.create_custom_resource_definition(definition)
            after.callback(definitions.delete_custom_resource_definition, definition["metadata"]["name"])
        custom = kubernetes.client.CustomObjectsApi(cluster.core.api_client)

        def established():
            try:
                return custom.list_cluster_custom_object(*GROUP, "clusterissuers") is not None
            except ApiException:
                return False

        until(established, "the kinds of cert-manager are known")
        process = after.enter_context(cert_manager.running(program, cluster.kubeconfig, log))
        cluster.custom = custom
        yield cluster
        assert process.poll() is None, log.read_text()[-3000:]


@pytest.fixture
def cluster(installed):
    """The cluster with two more nodes, and CARICO removed after the test."""
    for node in NODES:
        installed.add_node(node)
    yield installed
    installed.carico("undeploy", "--wait", "180")
    for node in NODES:
        installed.remove_node(node)


def deploy(cluster, *options):
    code, out = cluster.carico("deploy", "--wait", "180", *options)
    assert code == 0, out
    return out


def certificate_of(cluster, server):
    """Return a server's certificate, which the CA that pods mount must have signed."""
    certificate = x509.load_pem_x509_certificate(cluster.secret(f"carico-{server}-tls")["tls.crt"])
    certificate.verify_directly_issued_by(x509.load_pem_x509_certificate(cluster.cas()["ca.crt"]))
    return certificate


def names_in(certificate):
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {name.value for name in names}


def test_its_certificates_suffice_to_schedule_a_pod(cluster, tmp_path):
    """kube-scheduler and the extender, as in their pod, show each other what cert-manager has issued."""
    deploy(cluster, *WITH_AGGREGATORS, "--cert-manager")
    for server in [*SERVERS, "aggregator"]:
        assert f"carico:server:{server}" in names_in(certificate_of(cluster, server))
    with ExitStack() as running:
        process = running.enter_context(extender(cluster, tmp_path))
        log = running.enter_context(kube_scheduler(cluster, tmp_path, process.port))
        cluster.core.create_namespaced_pod("default", of_carico("issued"))
        running.callback(cluster.core.delete_namespaced_pod, "issued", "default", grace_period_seconds=0)

        def bound():
            asyncio.run(report(cluster, tmp_path, process.report_port, NODES[1], NODES[1], 3.0))
            return cluster.core.read_namespaced_pod("issued", "default").spec.node_name

        assert until(bound, f"the pod is bound; {log.read_text()[-2000:]}") == NODES[1]


def test_it_renews_them_and_a_running_extender_shows_the_new_one(cluster, tmp_path):
    """The certificate is to be renewed ten seconds after it was issued, in place of sixty days."""
    deploy(cluster, *WITH_AGGREGATORS, "--cert-manager")
    with extender(cluster, tmp_path) as process:
        first = certificate_of(cluster, "extender")
        assert shown(cluster, tmp_path, process.port) == first.serial_number
        cluster.custom.patch_namespaced_custom_object(
            *GROUP, NAMESPACE, "certificates", "carico-extender", {"spec": {"duration": "1h", "renewBefore": "59m50s"}}
        )

        def renewed():
            found = certificate_of(cluster, "extender")
            of_an_hour = found.not_valid_after_utc - found.not_valid_before_utc
            return found if of_an_hour.total_seconds() <= 3600 else None

        second = until(renewed, "the changed certificate is issued")
        third = until(
            lambda: found if (found := certificate_of(cluster, "extender")) != second else None, "it is renewed"
        )
        assert third.public_key() != second.public_key(), "with a new key"
        cluster.server_files("extender", tmp_path / "extender")
        in_secret = x509.load_pem_x509_certificate((tmp_path / "extender" / "tls.crt").read_bytes())
        assert shown(cluster, tmp_path, process.port) == in_secret.serial_number


def shown(cluster, folder, port):
    """Return the serial number of the certificate that a server shows to kube-scheduler."""
    files = cluster.server_files("kube-scheduler", folder / "asks")
    context = ssl.create_default_context(cafile=files.ca)
    context.load_cert_chain(files.certificate, files.key)
    with (
        socket.create_connection(("localhost", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        return x509.load_der_x509_certificate(secure.getpeercert(binary_form=True)).serial_number


def test_a_new_ca_of_carico_signs_all_of_them_anew(cluster):
    deploy(cluster, "--cert-manager")
    before = {server: certificate_of(cluster, server).serial_number for server in SERVERS}
    deploy(cluster, "--new-ca")
    for server in SERVERS:
        assert certificate_of(cluster, server).serial_number != before[server]


def test_an_issuer_of_the_users_signs_and_goes_again(cluster, tmp_path):
    authority = Authority(tmp_path, datetime.now(UTC))
    authority.make_ca("users")
    data = {f"tls.{kind}": base64.b64encode((tmp_path / f"ca.{kind}").read_bytes()).decode() for kind in ("crt", "key")}
    secret = {"metadata": {"name": "users-ca"}, "type": "kubernetes.io/tls", "data": data}
    issuer = {
        "apiVersion": "/".join(GROUP),
        "kind": "ClusterIssuer",
        "metadata": {"name": "users"},
        "spec": {"ca": {"secretName": "users-ca"}},
    }
    with ExitStack() as after:
        cluster.core.create_namespaced_secret("kube-system", secret)
        after.callback(cluster.core.delete_namespaced_secret, "users-ca", "kube-system")
        cluster.custom.create_cluster_custom_object(*GROUP, "clusterissuers", issuer)
        after.callback(cluster.custom.delete_cluster_custom_object, *GROUP, "clusterissuers", "users")
        deploy(cluster, "--cert-manager", "ClusterIssuer/users")
        assert cluster.cas()["ca.crt"] == (tmp_path / "ca.crt").read_bytes()
        for server in SERVERS:
            assert f"carico:server:{server}" in names_in(certificate_of(cluster, server))
        assert cluster.secret("carico-ca") is None
        out = deploy(cluster)
        assert "cert-manager issues servers' certificates, with ClusterIssuer/users" in out
        deploy(cluster, "--cert-manager", "none")
        assert cluster.cas()["ca.crt"] != (tmp_path / "ca.crt").read_bytes()
        assert certificate_of(cluster, "extender")
        assert cluster.custom.list_namespaced_custom_object(*GROUP, NAMESPACE, "certificates")["items"] == []


def test_an_issuer_that_there_is_not_is_an_error_with_its_reason(cluster, capsys):
    code, _ = cluster.carico("deploy", "--cert-manager", "ClusterIssuer/nobody", "--wait", "0")
    assert code == 1
    error = capsys.readouterr().err
    assert "ClusterIssuer/nobody has issued no certificate within 60 s: certificate.cert-manager.io/carico-" in error
    code, out = cluster.carico("status")
    assert (code, "certificate.cert-manager.io/carico-extender is not ready" in out) == (1, True), out


def test_removing_carico_leaves_no_certificate_and_no_secret(cluster):
    deploy(cluster, "--cert-manager")
    code, out = cluster.carico("undeploy", "--wait", "180")
    assert code == 0, out
    assert "certificate.cert-manager.io/carico-extender deleted" in out
    assert NAMESPACE not in [each.metadata.name for each in cluster.core.list_namespace().items]
