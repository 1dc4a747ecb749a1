"""The rights of CARICO's accounts on a real API server: those that they need, and no others."""

import time

import kubernetes.client
import pytest
from kubernetes.client.exceptions import ApiException

from .deployed import NAMESPACE, WITH_AGGREGATORS, Cluster

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(carico_cluster):
    """A cluster with CARICO and at least one node."""
    cluster = Cluster(carico_cluster.kubeconfig)
    cluster.add_node("access-node")
    try:
        assert cluster.carico("deploy", *WITH_AGGREGATORS, "--wait", "0")[0] == 0
        wait_for_the_policy(cluster)
        yield cluster
    finally:
        cluster.carico("undeploy", "--wait", "180")
        cluster.remove_node("access-node")


def wait_for_the_policy(cluster, within_s=60.0):
    """Wait until the admission policies are in force, a moment after their creation."""
    deadline = time.monotonic() + within_s
    for account, forbidden in (
        (
            EXTENDER,
            lambda core: core.patch_node("access-node", {"metadata": {"labels": {"tried": "1"}}}, dry_run="All"),
        ),
        (SCHEDULER, lambda core: make_lease(core, NAMESPACE, "tried", dry_run="All")),
    ):
        with cluster.acting_as(account) as core:
            while not refused(forbidden, core):
                assert time.monotonic() < deadline, f"an admission policy was not in force within {within_s:g} s"
                time.sleep(0.2)


def refused(call, core):
    """Whether an admission policy refuses a call."""
    try:
        call(core)
    except ApiException as error:
        if error.status not in (403, 422):
            raise
        return error.status == 422
    return False


def make_lease(core, namespace, name, **options):
    api = kubernetes.client.CoordinationV1Api(core.api_client)
    lease = kubernetes.client.V1Lease(metadata={"name": name}, spec={"holderIdentity": "somebody"})
    return api.create_namespaced_lease(namespace, lease, **options)


SCHEDULER = "carico-scheduler"
EXTENDER = "carico-extender"
SIGNER = "carico-signer"
AGENT = "carico-agent"
ALLOWED = [
    # kube-scheduler: reads pods and nodes, binds pods, says why pods wait, takes the lock.
    ("list", "", "pods", {}),
    ("watch", "", "pods", {}),
    ("create", "", "pods", {"subresource": "binding", "namespace": "default"}),
    ("patch", "", "pods", {"subresource": "status", "namespace": "default"}),
    ("list", "", "nodes", {}),
    ("create", "events.k8s.io", "events", {"namespace": "default"}),
    ("update", "", "persistentvolumeclaims", {"namespace": "default"}),
    ("create", "coordination.k8s.io", "leases", {"namespace": NAMESPACE}),
    ("get", "coordination.k8s.io", "leases", {"namespace": NAMESPACE, "name": "carico-kube-scheduler"}),
    ("update", "coordination.k8s.io", "leases", {"namespace": NAMESPACE, "name": "carico-kube-scheduler"}),
    ("create", "authentication.k8s.io", "tokenreviews", {}),
    ("create", "authorization.k8s.io", "subjectaccessreviews", {}),
    ("get", "", "configmaps", {"namespace": "kube-system", "name": "extension-apiserver-authentication"}),
    # The container `tokens`, with the same account.
    ("create", "", "serviceaccounts", {"subresource": "token", "namespace": NAMESPACE, "name": "carico-extender"}),
    ("create", "", "serviceaccounts", {"subresource": "token", "namespace": NAMESPACE, "name": "carico-signer"}),
]
ALLOWED_TO_THE_EXTENDER = [
    ("list", "", "pods", {}),
    ("watch", "", "pods", {}),
    ("patch", "", "nodes", {"name": "access-node"}),
    ("get", "", "configmaps", {"namespace": NAMESPACE, "name": "carico-costs"}),
    ("patch", "", "configmaps", {"namespace": NAMESPACE, "name": "carico-costs"}),
    ("get", "coordination.k8s.io", "leases", {"namespace": NAMESPACE, "name": "carico-kube-scheduler"}),
]
ALLOWED_TO_NONE = [
    ("get", "", "secrets", {"namespace": NAMESPACE, "name": "carico-ca"}),
    ("list", "", "secrets", {"namespace": NAMESPACE}),
    ("list", "", "secrets", {}),
    ("get", "", "configmaps", {"namespace": NAMESPACE, "name": "carico-agent"}),
    ("list", "", "configmaps", {"namespace": NAMESPACE}),
    ("create", "", "configmaps", {"namespace": NAMESPACE}),
    ("delete", "", "configmaps", {"namespace": NAMESPACE, "name": "carico-costs"}),
    ("patch", "", "configmaps", {"namespace": NAMESPACE, "name": "carico-scheduler"}),
    ("patch", "", "configmaps", {"namespace": "default", "name": "carico-costs"}),
    ("create", "", "pods", {"namespace": NAMESPACE}),
    ("patch", "", "pods", {"namespace": "default"}),
    ("get", "", "secrets", {"namespace": NAMESPACE, "name": "carico-status-key"}),
    ("create", "", "pods", {"subresource": "exec", "namespace": NAMESPACE}),
    ("update", "", "nodes", {}),
    ("delete", "", "nodes", {}),
    ("patch", "", "nodes", {"subresource": "status"}),
    ("get", "", "nodes", {"subresource": "proxy"}),
    ("update", "coordination.k8s.io", "leases", {"namespace": "kube-node-lease", "name": "access-node"}),
    ("create", "apps", "daemonsets", {"namespace": NAMESPACE}),
    ("list", "", "configmaps", {}),
    ("delete", "certificates.k8s.io", "certificatesigningrequests", {}),
    ("update", "certificates.k8s.io", "certificatesigningrequests", {}),
    ("patch", "certificates.k8s.io", "certificatesigningrequests", {"subresource": "approval"}),
    ("approve", "certificates.k8s.io", "signers", {"name": "kubernetes.io/kube-apiserver-client"}),
    ("sign", "certificates.k8s.io", "signers", {"name": "kubernetes.io/kubelet-serving"}),
    ("attest", "certificates.k8s.io", "signers", {"name": "carico.dev/node"}),
    ("get", "", "secrets", {"namespace": NAMESPACE, "name": "carico-nodes-ca"}),
    ("create", "", "serviceaccounts", {"subresource": "token", "namespace": NAMESPACE}),
    ("create", "", "serviceaccounts", {"subresource": "token", "namespace": NAMESPACE, "name": "carico-scheduler"}),
    ("create", "", "serviceaccounts", {"subresource": "token", "namespace": "kube-system", "name": "carico-signer"}),
    ("create", "rbac.authorization.k8s.io", "clusterrolebindings", {}),
    ("escalate", "rbac.authorization.k8s.io", "clusterroles", {}),
    ("impersonate", "", "users", {}),
    ("patch", "admissionregistration.k8s.io", "validatingadmissionpolicies", {}),
]
ALLOWED_TO_THE_SIGNER = [
    ("list", "certificates.k8s.io", "certificatesigningrequests", {}),
    ("watch", "certificates.k8s.io", "certificatesigningrequests", {}),
    ("update", "certificates.k8s.io", "certificatesigningrequests", {"subresource": "approval"}),
    ("update", "certificates.k8s.io", "certificatesigningrequests", {"subresource": "status"}),
    ("approve", "certificates.k8s.io", "signers", {"name": "carico.dev/node"}),
    ("sign", "certificates.k8s.io", "signers", {"name": "carico.dev/node"}),
]
ALLOWED_TO_AGENTS = [
    ("create", "certificates.k8s.io", "certificatesigningrequests", {}),
    ("get", "certificates.k8s.io", "certificatesigningrequests", {"name": "any"}),
]
ALLOWED_TO_THE_SCHEDULER = [
    ("get", "", "pods", {"namespace": NAMESPACE}),
    ("list", "", "pods", {}),
    ("watch", "", "pods", {}),
    ("list", "", "nodes", {}),
    ("get", "", "nodes", {"name": "access-node"}),
    ("patch", "", "nodes", {"name": "access-node"}),
    ("create", "", "events", {"namespace": NAMESPACE}),
    ("get", "coordination.k8s.io", "leases", {"namespace": NAMESPACE, "name": "carico-kube-scheduler"}),
    ("create", "authentication.k8s.io", "tokenreviews", {}),
]


def named(right):
    verb, group, resource, where = right
    return " ".join([verb, resource + (f".{group}" if group else ""), *where.values()])


@pytest.mark.parametrize("right", ALLOWED, ids=named)
def test_the_scheduler_may(cluster, right):
    *what, where = right
    assert cluster.may(SCHEDULER, *what, **where)


@pytest.mark.parametrize("right", ALLOWED_TO_THE_EXTENDER, ids=named)
def test_the_extender_may(cluster, right):
    *what, where = right
    assert cluster.may(EXTENDER, *what, **where)


@pytest.mark.parametrize("right", [each for each in ALLOWED if each not in ALLOWED_TO_THE_EXTENDER], ids=named)
def test_the_extender_may_not_what_only_kube_scheduler_needs(cluster, right):
    """Its token is exposed to whoever takes over the process that agents connect to."""
    *what, where = right
    assert not cluster.may(EXTENDER, *what, **where)


def test_kube_scheduler_may_not_what_only_the_extender_needs(cluster):
    assert not cluster.may(SCHEDULER, "patch", "", "nodes", name="access-node")


@pytest.mark.parametrize("right", ALLOWED_TO_THE_SIGNER, ids=named)
def test_the_signer_alone_may_sign(cluster, right):
    *what, where = right
    may = {account for account in (SCHEDULER, EXTENDER, SIGNER, AGENT) if cluster.may(account, *what, **where)}
    assert may == {SIGNER}


@pytest.mark.parametrize("right", ALLOWED_TO_AGENTS, ids=named)
def test_agents_alone_may_ask_for_certificates(cluster, right):
    *what, where = right
    may = {account for account in (SCHEDULER, EXTENDER, SIGNER, AGENT) if cluster.may(account, *what, **where)}
    assert may == {AGENT}


@pytest.mark.parametrize("account", [SCHEDULER, EXTENDER, SIGNER, "carico-aggregator", AGENT])
@pytest.mark.parametrize("right", ALLOWED_TO_NONE, ids=named)
def test_no_account_may(cluster, account, right):
    *what, where = right
    assert not cluster.may(account, *what, **where)


@pytest.mark.parametrize("account", ["carico-aggregator", AGENT, SIGNER])
@pytest.mark.parametrize("right", ALLOWED_TO_THE_SCHEDULER, ids=named)
def test_other_accounts_have_none_of_the_schedulers_rights(cluster, account, right):
    *what, where = right
    assert not cluster.may(account, *what, **where)


class TestLocksOfTheScheduler:
    def test_it_may_create_its_own_lock(self, cluster):
        """No scheduler runs here, so the test takes the lock in its place."""
        with cluster.acting_as(SCHEDULER) as core:
            assert make_lease(core, NAMESPACE, "carico-kube-scheduler", dry_run="All").metadata.name

    @pytest.mark.parametrize(
        ("namespace", "name"),
        [("kube-system", "kube-scheduler"), ("kube-system", "carico-kube-scheduler"), (NAMESPACE, "other")],
    )
    def test_it_may_create_no_other_lock(self, cluster, namespace, name):
        with cluster.acting_as(SCHEDULER) as core, pytest.raises(ApiException) as failed:
            make_lease(core, namespace, name, dry_run="All")
        assert failed.value.status == 422
        assert "may hold no lock but its own" in failed.value.body

    def test_it_may_not_take_the_lock_of_the_clusters_own_scheduler(self, cluster):
        """The lock exists, and the role that kube-scheduler needs would allow CARICO's scheduler to take it."""
        with cluster.acting_as(SCHEDULER) as core:
            api = kubernetes.client.CoordinationV1Api(core.api_client)
            status = 409
            while status == 409:  # its holder has renewed the lock since the test read it
                lease = api.read_namespaced_lease("kube-scheduler", "kube-system")
                lease.spec.holder_identity = "somebody"
                with pytest.raises(ApiException) as failed:
                    api.replace_namespaced_lease("kube-scheduler", "kube-system", lease, dry_run="All")
                status = failed.value.status
        assert status == 422
        assert "may hold no lock but its own" in failed.value.body


class TestPatchesOfNodesByTheExtender:
    def patch(self, cluster, body):
        with cluster.acting_as(EXTENDER) as core:
            return core.patch_node("access-node", body)

    def test_it_may_change_its_annotation(self, cluster):
        for value in ("1.50", "2.00", None):
            node = self.patch(cluster, {"metadata": {"annotations": {"carico.dev/capacity": value}}})
            assert (node.metadata.annotations or {}).get("carico.dev/capacity") == value

    @pytest.mark.parametrize(
        ("body", "what"),
        [
            ({"metadata": {"annotations": {"example.com/other": "1"}}}, "annotations"),
            ({"metadata": {"annotations": {"kwok.x-k8s.io/node": None}}}, "annotations"),
            ({"metadata": {"labels": {"zone": "b"}}}, "labels"),
            ({"metadata": {"finalizers": ["example.com/hold"]}}, "owns"),
            ({"spec": {"unschedulable": True}}, "spec"),
            ({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, "spec"),
        ],
        ids=str,
    )
    def test_it_may_change_nothing_else(self, cluster, body, what):
        with pytest.raises(ApiException) as refused:
            self.patch(cluster, body)
        assert refused.value.status == 422
        assert "CARICO's extender may" in refused.value.body
        assert what in refused.value.body

    def test_other_accounts_are_not_affected(self, cluster):
        node = cluster.core.patch_node("access-node", {"metadata": {"labels": {"zone": "b"}}})
        assert node.metadata.labels["zone"] == "b"
