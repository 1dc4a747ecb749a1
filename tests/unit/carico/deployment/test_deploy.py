"""Deploying to, and removing from, a fake API server that stores objects."""

import base64
import copy
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from carico.deployment.authority import Authority
from carico.deployment.deploy import ISSUED, Deployment
from carico.deployment.manifests import LABELS, Choices, manifests
from carico.errors import InvalidInput, KubeRefused, KubeUnreachable, NotReady
from carico.extender.process import ANNOTATION
from carico.testing import ManualClock

NOW = datetime(2030, 1, 1, tzinfo=UTC)
AGENTS = "/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"
SECRETS = "/api/v1/namespaces/carico/secrets"


SCHEDULERS = "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler"


def secret(cluster, name):
    return {key: base64.b64decode(value) for key, value in cluster.objects[f"{SECRETS}/{name}"]["data"].items()}


def annotations(cluster, path):
    return cluster.objects[path]["spec"]["template"]["metadata"]["annotations"]


def set_ready(cluster, ready):
    """Set how many pods of each DaemonSet and StatefulSet are ready."""
    for path, thing in cluster.objects.items():
        if path.rpartition("/")[0].endswith(("/daemonsets", "/statefulsets")):
            thing["status"] = {
                "observedGeneration": 1,
                "desiredNumberScheduled": 2,
                "updatedNumberScheduled": 2,
                "numberReady": ready,
                "readyReplicas": ready,
            }
            thing["metadata"]["generation"] = 1


class Deployed:
    def __init__(self, kube):
        self.lines = []
        self.clock = ManualClock()
        self.deployment = Deployment(kube, self.clock, self.lines.append)

    def deploy(self, choices=None, now=NOW, **options):
        self.deployment.deploy(choices or Choices(), now, **options)

    def undeploy(self, namespace="carico", **options):
        self.deployment.undeploy(namespace, **options)


@pytest.fixture
def deployed(kube):
    return Deployed(kube)


def test_the_namespace_comes_first_and_mounted_objects_before_their_pods(cluster, deployed):
    deployed.deploy()
    paths = [change.path for change in cluster.changes]
    assert paths[0] == "/api/v1/namespaces/carico"
    maps = "/api/v1/namespaces/carico/configmaps"
    for pods, mounted in {
        AGENTS: [f"{maps}/carico-agent", f"{maps}/carico-ca"],
        SCHEDULERS: [f"{SECRETS}/carico-nodes-ca", f"{SECRETS}/carico-signer-tls"],
    }.items():
        assert max(map(paths.index, mounted)) < paths.index(pods)
    assert {change.query["fieldManager"] for change in cluster.changes} == {"carico"}
    assert deployed.lines[0] == "namespace/carico serverside-applied"
    assert "daemonset.apps/carico-agent serverside-applied" in deployed.lines


def test_a_second_deployment_changes_nothing(cluster, deployed):
    deployed.deploy()
    before = dict(cluster.objects)
    deployed.deploy()
    assert cluster.objects == before


def test_with_a_folder_the_key_of_the_ca_stays_off_the_cluster(cluster, deployed, tmp_path):
    deployed.deploy(folder=tmp_path / "certs")
    assert f"{SECRETS}/carico-ca" not in cluster.objects
    assert (tmp_path / "certs" / "ca.key").exists()
    before = dict(cluster.objects)
    with pytest.raises(InvalidInput, match="give the folder of the last deployment"):
        deployed.deploy()
    deployed.deploy(folder=tmp_path / "certs")
    assert cluster.objects == before


def test_moving_to_a_folder_removes_the_key_of_the_ca_from_the_cluster(cluster, deployed, tmp_path):
    deployed.deploy()
    before = {path: thing for path, thing in cluster.objects.items() if path != f"{SECRETS}/carico-ca"}
    key = secret(cluster, "carico-ca")["tls.key"]
    deployed.deploy(folder=tmp_path / "certs")
    assert "secret/carico-ca deleted" in deployed.lines
    assert cluster.objects == before, "no pod is rolled"
    file = tmp_path / "certs" / "ca.key"
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (key, 0o600)
    assert file.parent.stat().st_mode & 0o777 == 0o700
    # A deployment that forgets the folder is refused.
    with pytest.raises(InvalidInput, match="give the folder of the last deployment"):
        deployed.deploy()


def test_the_folder_has_nothing_but_the_ca(deployed, tmp_path):
    deployed.deploy(folder=tmp_path / "certs")
    assert sorted(file.name for file in (tmp_path / "certs").iterdir()) == ["ca.crt", "ca.key"]
    assert any(f"kept in {tmp_path / 'certs'}" in line for line in deployed.lines)


def test_the_ca_of_a_folder_takes_over(cluster, deployed, tmp_path):
    Authority(tmp_path / "mine", NOW, 3650).make_ca()
    deployed.deploy()
    first = annotations(cluster, SCHEDULERS)[ISSUED]
    deployed.deploy(folder=tmp_path / "mine")
    noted = cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"]["data"]["ca.crt"]
    assert noted == (tmp_path / "mine" / "ca.crt").read_text()
    assert f"{SECRETS}/carico-ca" not in cluster.objects
    assert annotations(cluster, SCHEDULERS)[ISSUED] != first, "kube-scheduler reads the CA only when it starts"


@pytest.mark.parametrize("lost", ["ca.key", "ca.crt"])
def test_half_a_ca_is_refused_and_kept(cluster, deployed, tmp_path, lost):
    deployed.deploy(folder=tmp_path)
    (tmp_path / lost).unlink()
    before = dict(cluster.objects)
    with pytest.raises(InvalidInput, match=r"must hold both ca\.key and ca\.crt, or none of them: restore .*--new-ca"):
        deployed.deploy(folder=tmp_path)
    assert (len(list(tmp_path.iterdir())), cluster.objects) == (1, before)


def test_without_the_ca_the_error_names_the_folder_and_a_new_ca_is_made_only_on_request(cluster, deployed, tmp_path):
    deployed.deploy(folder=tmp_path / "lost")
    first = secret(cluster, "carico-extender-tls")
    with pytest.raises(InvalidInput, match=rf"not in {tmp_path}/empty or on the cluster: .*`carico deploy --new-ca`"):
        deployed.deploy(folder=tmp_path / "empty")
    assert secret(cluster, "carico-extender-tls") == first
    deployed.deploy(folder=tmp_path / "empty", new_ca=True)
    assert secret(cluster, "carico-extender-tls") != first
    key = (tmp_path / "empty" / "ca.key").read_bytes()
    deployed.deploy(folder=tmp_path / "empty")
    assert (tmp_path / "empty" / "ca.key").read_bytes() == key


def test_the_ca_is_in_its_folder_before_anything_on_the_cluster_depends_on_it(cluster, deployed, tmp_path):
    cluster.refuse["PATCH", "/carico-extender-tls"] = 500, "no such luck"
    with pytest.raises(KubeRefused, match="no such luck"):
        deployed.deploy(folder=tmp_path)
    cluster.refuse.clear()
    deployed.deploy(folder=tmp_path)
    noted = cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"]["data"]["ca.crt"]
    assert noted == (tmp_path / "ca.crt").read_text()


def test_the_key_of_the_status_is_random_and_stays(cluster, deployed):
    deployed.deploy()
    (key,) = secret(cluster, "carico-status-key").values()
    assert len(bytes.fromhex(key.decode())) == 32
    deployed.deploy()
    assert secret(cluster, "carico-status-key") == {"key": key}
    deployed.undeploy()
    deployed.deploy()
    assert secret(cluster, "carico-status-key") != {"key": key}


class TestRenewal:
    LATER = datetime(2030, 10, 1, tzinfo=UTC)

    def renew(self, deployed, now=LATER, **options):
        rolled = deployed.deployment.renew("carico", now, **options)
        return [thing["metadata"]["name"] for thing in rolled]

    def test_nothing_is_changed_while_nothing_expires_soon(self, cluster, deployed, tmp_path):
        deployed.deploy(folder=tmp_path)
        before = copy.deepcopy(cluster.objects)
        assert self.renew(deployed, NOW, folder=tmp_path) == []
        assert cluster.objects == before

    def test_certificates_that_expire_soon_are_renewed_and_no_pods_are_rolled(self, cluster, deployed, tmp_path):
        deployed.deploy(folder=tmp_path)
        first = secret(cluster, "carico-extender-tls")
        before = {path: copy.deepcopy(cluster.objects[path]) for path in (AGENTS, SCHEDULERS)}
        ca, nodes_ca = (tmp_path / "ca.crt").read_bytes(), secret(cluster, "carico-nodes-ca")
        assert self.renew(deployed, folder=tmp_path) == []
        assert secret(cluster, "carico-extender-tls") != first
        assert {path: cluster.objects[path] for path in before} == before
        assert ((tmp_path / "ca.crt").read_bytes(), secret(cluster, "carico-nodes-ca")) == (ca, nodes_ca)

    def test_the_nodes_ca_is_renewed_with_its_key(self, cluster, deployed):
        deployed.deploy()
        first = secret(cluster, "carico-nodes-ca")
        assert self.renew(deployed, datetime(2038, 1, 1, tzinfo=UTC)) == []
        second = secret(cluster, "carico-nodes-ca")
        assert second["tls.crt"] != first["tls.crt"]
        assert second["tls.key"] == first["tls.key"]
        noted = cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"]["data"]["nodes-ca.crt"]
        assert noted.encode() == second["tls.crt"]

    def test_agents_are_rolled_once_if_the_nodes_ca_was_lost(self, cluster, deployed):
        deployed.deploy()
        del cluster.objects[f"{SECRETS}/carico-nodes-ca"]
        assert self.renew(deployed) == ["carico-agent"]
        assert self.renew(deployed) == []
        there = annotations(cluster, AGENTS)
        deployed.deploy(now=self.LATER)
        assert annotations(cluster, AGENTS)[ISSUED] == there[ISSUED], "deploying does not roll them once more"

    def test_all_are_renewed_on_request(self, cluster, deployed):
        deployed.deploy()
        first = secret(cluster, "carico-extender-tls")
        assert self.renew(deployed, NOW + timedelta(days=1), every=True) == []
        assert secret(cluster, "carico-extender-tls") != first

    def test_a_key_that_is_kept_on_the_cluster_stays_there(self, cluster, deployed, tmp_path):
        deployed.deploy()
        assert self.renew(deployed, folder=tmp_path / "empty") == []
        assert f"{SECRETS}/carico-ca" in cluster.objects
        assert not (tmp_path / "empty").exists()

    def test_where_nothing_is_deployed_there_is_nothing_to_renew(self, deployed):
        with pytest.raises(InvalidInput, match="not deployed in the namespace carico: run `carico deploy`"):
            self.renew(deployed)


def test_the_nodes_ca_is_another_one_whose_key_stays_on_the_cluster(cluster, deployed, tmp_path):
    deployed.deploy(folder=tmp_path)
    nodes_ca = secret(cluster, "carico-nodes-ca")
    data = cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"]["data"]
    assert (data["nodes-ca.crt"].encode(), data["ca.crt"]) == (nodes_ca["tls.crt"], (tmp_path / "ca.crt").read_text())
    ours, theirs = (x509.load_pem_x509_certificate(data[name].encode()) for name in ("ca.crt", "nodes-ca.crt"))
    assert ours.subject != theirs.subject, "TLS tells CAs by their names"
    assert ours.public_key() != theirs.public_key()
    assert nodes_ca["tls.key"] != (tmp_path / "ca.key").read_bytes()
    before = annotations(cluster, AGENTS)[ISSUED]
    deployed.deploy(folder=tmp_path, new_ca=True)
    assert secret(cluster, "carico-nodes-ca") != nodes_ca
    assert annotations(cluster, AGENTS)[ISSUED] != before


@pytest.mark.parametrize(("behind", "opened"), [(None, []), (6443, []), (8443, [8443])])
def test_agents_may_reach_the_port_that_the_api_server_has_here(cluster, deployed, behind, opened):
    if behind is not None:
        subsets = [{"addresses": [{"ip": "192.0.2.1"}], "ports": [{"name": "https", "port": behind}]}]
        cluster.put("/api/v1/namespaces/default/endpoints/kubernetes", subsets=subsets)
    deployed.deploy()
    policy = cluster.objects["/apis/networking.k8s.io/v1/namespaces/carico/networkpolicies/carico-agent"]
    (rule,) = [rule for rule in policy["spec"]["egress"] if {"port": 443} in rule["ports"]]
    assert [port["port"] for port in rule["ports"]] == [443, 6443, *opened]
    assert "to" not in rule


def test_tokens_of_an_earlier_version_are_removed_when_no_scheduler_mounts_them(cluster, deployed):
    tokens = [f"{SECRETS}/carico-extender-token", f"{SECRETS}/carico-signer-token"]
    for path in tokens:
        cluster.put(path, type="kubernetes.io/service-account-token")
    deployed.deploy()
    assert all(path in cluster.objects for path in tokens)
    assert "does not expire, stays until all schedulers are up to date: run `carico deploy` again" in deployed.lines[-1]
    deployed.clock.on_advance = lambda seconds: set_ready(cluster, 2)
    deployed.deploy(wait_s=60)
    assert not any(path in cluster.objects for path in tokens)
    assert deployed.lines[-2:] == ["secret/carico-extender-token deleted", "secret/carico-signer-token deleted"]


class TestUpgrade:
    """From a version that kept the keys of all nodes in one Secret."""

    KEYS = f"{SECRETS}/carico-agent-tls"

    @pytest.fixture
    def earlier(self, cluster, deployed, kube, monkeypatch):
        deployed.deploy()
        names = {"name": "carico-agent-tls", "namespace": "carico", "labels": LABELS}
        cluster.put(self.KEYS, data={"node-a": "eA=="}, metadata=names)
        spec = cluster.objects[AGENTS]["spec"]["template"]["spec"]
        spec["volumes"] = [*spec["volumes"], {"name": "all", "secret": {"secretName": "carico-agent-tls"}}]
        deployed.lines.clear()
        applied, self.up_to_date = kube.apply, 1

        def apply(thing, force=False):
            applied(thing, force)
            if thing["kind"] == "DaemonSet":
                self.set_up_to_date(cluster, self.up_to_date)

        monkeypatch.setattr(kube, "apply", apply)
        return cluster

    def set_up_to_date(self, cluster, agents):
        for path in (AGENTS, SCHEDULERS, SCHEDULERS.replace("scheduler", "aggregator")):
            thing = cluster.objects[path]
            thing["metadata"]["generation"] = 1
            wanted = {"desiredNumberScheduled": 2, "updatedNumberScheduled": agents, "numberReady": agents}
            thing["status"] = {"observedGeneration": 1, "readyReplicas": 2} | wanted

    def test_the_keys_stay_until_all_agents_have_their_own(self, earlier, deployed):
        deployed.deploy()
        assert self.KEYS in earlier.objects
        assert "stays until all agents have got keys of their own: run `carico deploy` again" in deployed.lines[-1]

    def test_then_they_are_removed(self, earlier, deployed):
        deployed.clock.on_advance = lambda seconds: self.set_up_to_date(earlier, 2)
        deployed.deploy(wait_s=60)
        assert self.KEYS not in earlier.objects
        assert "secret/carico-agent-tls deleted" in deployed.lines
        assert "`carico deploy --new-ca`" in deployed.lines[-1]

    def test_so_they_are_by_a_later_deployment(self, earlier, deployed):
        deployed.deploy()
        self.up_to_date = 2
        deployed.deploy()
        assert self.KEYS not in earlier.objects

    def test_renewing_is_refused_because_agents_would_keep_their_certificates(self, earlier, deployed):
        before = copy.deepcopy(earlier.objects)
        with pytest.raises(InvalidInput, match="all nodes' keys in one Secret: bring CARICO up to date with `carico d"):
            deployed.deployment.renew("carico", NOW)
        assert earlier.objects == before

    def test_removing_everything_removes_them_too(self, earlier, deployed):
        deployed.undeploy()
        assert self.KEYS not in earlier.objects


class TestWithHelm:
    """Helm installs everything but the certificates."""

    @pytest.fixture
    def installed(self, cluster, deployed):
        deployed.deploy(only_certificates=True)
        for thing in manifests(Choices())[1:]:
            if thing["kind"] in ("DaemonSet", "StatefulSet"):
                labels = thing["metadata"]["labels"] | {"app.kubernetes.io/managed-by": "Helm"}
                path = f"/apis/apps/v1/namespaces/carico/{thing['kind'].lower()}s/{thing['metadata']['name']}"
                cluster.put(path, metadata={**thing["metadata"], "labels": labels}, spec=thing["spec"])
        return deployed

    def test_certificates_alone_are_made(self, cluster, deployed):
        deployed.deploy(only_certificates=True, wait_s=5.0)
        kinds = {path.split("/")[-2] for path in cluster.objects} - {"nodes"}
        assert kinds == {"namespaces", "configmaps", "secrets"}
        assert {"ca.crt", "nodes-ca.crt"} == cluster.objects["/api/v1/namespaces/carico/configmaps/carico-ca"][
            "data"
        ].keys()
        deployed.undeploy()
        assert not any(path.startswith(SECRETS) for path in cluster.objects)

    def test_other_commands_leave_it_to_helm(self, cluster, installed):
        before = copy.deepcopy(cluster.objects)
        with pytest.raises(InvalidInput, match="Helm has installed CARICO in the namespace carico: use `helm upgrade`"):
            installed.deploy()
        with pytest.raises(InvalidInput, match="use `helm uninstall`"):
            installed.undeploy()
        assert cluster.objects == before

    def test_renewing_rolls_pods_only_for_another_ca_and_once(self, cluster, installed):
        renewal = TestRenewal()
        first = secret(cluster, "carico-extender-tls")
        assert renewal.renew(installed) == []
        assert secret(cluster, "carico-extender-tls") != first
        del cluster.objects[f"{SECRETS}/carico-nodes-ca"]
        assert renewal.renew(installed) == ["carico-agent"]
        assert renewal.renew(installed) == []


def test_demand_is_deployed_without_aggregators(cluster, deployed):
    deployed.deploy(Choices(variant="demand"))
    assert not [path for path in cluster.objects if "aggregator" in path]
    assert f"{SECRETS}/carico-extender-tls" in cluster.objects


def test_another_variant_leaves_nothing_of_the_one_before(cluster, deployed):
    deployed.deploy()
    aggregators = [path for path in cluster.objects if "carico-aggregator" in path]
    assert aggregators
    deployed.deploy(Choices(variant="demand"))
    assert not [path for path in cluster.objects if "carico-aggregator" in path and "/secrets/" not in path]
    deployed.deploy()
    assert [path for path in cluster.objects if "carico-aggregator" in path] == aggregators


class TestObserving:
    OBSERVE = Choices(variant="demand", observe=True)
    RBAC = "/apis/rbac.authorization.k8s.io/v1"
    POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
    TO_SCHEDULE = (
        f"{RBAC}/clusterrolebindings/carico-scheduler",
        f"{RBAC}/clusterrolebindings/carico-scheduler-volumes",
        f"{RBAC}/clusterrolebindings/carico-extender-nodes",
        f"{RBAC}/namespaces/kube-system/rolebindings/carico-scheduler-authentication",
    )

    def test_rights_to_schedule_come_and_go_with_scheduling(self, cluster, deployed):
        deployed.deploy(self.OBSERVE)
        fresh = set(cluster.objects)
        assert not fresh.intersection(self.TO_SCHEDULE)
        deployed.deploy(Choices(variant="demand"))
        assert fresh < set(cluster.objects)
        assert set(self.TO_SCHEDULE) < set(cluster.objects)
        deployed.deploy(self.OBSERVE)
        assert set(cluster.objects) == fresh

    def test_no_right_outlives_the_policy_that_limits_it(self, cluster, deployed):
        deployed.deploy(Choices(variant="demand"))
        deployed.deploy(self.OBSERVE)
        gone = [change.path for change in cluster.changes if change.method == "DELETE"]
        policies = [f"{self.POLICIES}/{name}" for name in ("carico-scheduler-lock", "carico-node-annotations")]
        assert max(map(gone.index, self.TO_SCHEDULE)) < min(map(gone.index, policies))

    def test_rights_that_an_earlier_version_gave_go_too(self, cluster, deployed):
        deployed.deploy(Choices(variant="demand"))
        for path in self.TO_SCHEDULE:
            cluster.objects[path]["metadata"]["labels"]["app.kubernetes.io/component"] = "scheduler"
        deployed.deploy(self.OBSERVE)
        assert not set(cluster.objects).intersection(self.TO_SCHEDULE)

    def test_somebody_elses_binding_of_that_name_stays(self, cluster, deployed):
        theirs = self.TO_SCHEDULE[0]
        cluster.put(theirs, roleRef={"name": "view"})
        deployed.deploy(self.OBSERVE)
        assert theirs in cluster.objects

    def test_making_certificates_for_helm_removes_no_rights(self, cluster, deployed):
        deployed.deploy(Choices(variant="demand"))
        deployed.deploy(self.OBSERVE, only_certificates=True)
        assert set(self.TO_SCHEDULE) < set(cluster.objects)


class TestRefused:
    @pytest.mark.parametrize(
        ("status", "remedy"), [(403, "cluster administrator"), (409, "--force-conflicts"), (422, "before it stay")]
    )
    def test_the_error_names_the_object_the_reason_and_the_remedy(self, cluster, deployed, status, remedy):
        cluster.refuse["PATCH", "/carico-scheduler"] = status, "no such luck"
        with pytest.raises(
            KubeRefused, match=f"carico-scheduler was not applied: .*{status}: no such luck; .*{remedy}"
        ):
            deployed.deploy()
        assert "namespace/carico serverside-applied" in deployed.lines
        assert "/api/v1/namespaces/carico" in cluster.objects
        cluster.refuse.clear()
        deployed.deploy()
        assert AGENTS in cluster.objects

    def test_fields_are_taken_over_on_request(self, cluster, deployed):
        deployed.deploy(force=True)
        assert {change.query["force"].lower() for change in cluster.changes} == {"true"}

    def test_an_unreachable_server_is_an_error(self, cluster, deployed):
        cluster.close()
        with pytest.raises(KubeUnreachable, match="cannot be reached"):
            deployed.deploy()
        assert deployed.lines == []

    def test_a_second_deployment_elsewhere_is_refused(self, cluster, deployed):
        deployed.deploy(Choices("batch"))
        changes = len(cluster.changes)
        with pytest.raises(InvalidInput, match="in the namespace batch, not carico: give --namespace batch"):
            deployed.deploy()
        with pytest.raises(InvalidInput, match="give --namespace batch"):
            deployed.undeploy()
        assert len(cluster.changes) == changes


class TestWaiting:
    def test_until_all_pods_are_ready(self, cluster, deployed):
        deployed.clock.on_advance = lambda seconds: set_ready(cluster, min(2, int(deployed.clock.now())))
        deployed.deploy(wait_s=60)
        assert "daemonset.apps/carico-agent: 1 of 2 pods ready, 2 up to date" in deployed.lines
        assert deployed.clock.now() < 10

    def test_ends_at_the_deadline(self, cluster, deployed):
        deployed.clock.on_advance = lambda seconds: set_ready(cluster, 1)
        with pytest.raises(NotReady, match=r"not done within 5 s: .*carico-agent: 1 of 2 pods ready.*kubectl describe"):
            deployed.deploy(wait_s=5)
        assert deployed.clock.now() <= 5

    @pytest.mark.parametrize("error", [KubeUnreachable("timed out"), KubeRefused("it starts", 503)])
    def test_goes_on_while_the_server_does_not_answer(self, kube, deployed, monkeypatch, error):
        def fail(thing):
            raise error

        deployed.clock.on_advance = lambda seconds: monkeypatch.setattr(kube, "read", fail)
        with pytest.raises(NotReady, match=f"not done within 5 s: {error}"):
            deployed.deploy(wait_s=5)

    def test_ends_when_the_server_refuses(self, kube, deployed, monkeypatch):
        def refuse(thing):
            raise KubeRefused("not you", 403)

        deployed.clock.on_advance = lambda seconds: monkeypatch.setattr(kube, "read", refuse)
        with pytest.raises(KubeRefused, match="not you"):
            deployed.deploy(wait_s=5)


class TestRemoved:
    def test_undeploy_leaves_nothing_behind(self, cluster, deployed):
        deployed.deploy()
        cluster.put("/api/v1/namespaces/default/configmaps/mine")
        cluster.objects["/api/v1/nodes/node-a"]["metadata"]["annotations"] = {ANNOTATION: "1.00", "other": "1"}
        cluster.changes.clear()
        deployed.undeploy(wait_s=10)
        assert sorted(cluster.objects) == [
            "/api/v1/namespaces/default/configmaps/mine",
            "/api/v1/nodes/node-a",
            "/api/v1/nodes/node-b",
        ]
        assert cluster.objects["/api/v1/nodes/node-a"]["metadata"]["annotations"] == {"other": "1"}
        assert "daemonset.apps/carico-agent deleted" in deployed.lines
        deleted = [change.path for change in cluster.changes if change.method == "DELETE"]
        assert deleted[-1] == "/api/v1/namespaces/carico"
        bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system/rolebindings"
        assert f"{bindings}/carico-scheduler-authentication" in deleted

    def test_a_second_time_there_is_nothing_to_remove(self, cluster, deployed):
        deployed.deploy()
        deployed.undeploy()
        deployed.lines.clear()
        deployed.undeploy()
        assert deployed.lines == ["nothing to remove"]

    def test_a_namespace_that_existed_before_stays(self, cluster, deployed):
        cluster.put("/api/v1/namespaces/shared")
        deployed.deploy(Choices("shared"))
        cluster.put("/apis/coordination.k8s.io/v1/namespaces/shared/leases/carico-kube-scheduler")
        assert "namespace/shared is not CARICO's: left as it is" in deployed.lines
        deployed.undeploy("shared")
        assert "/api/v1/namespaces/shared" in cluster.objects
        assert not [path for path in cluster.objects if "/namespaces/shared/" in path]

    def test_a_namespace_with_pods_of_others_stays(self, cluster, deployed):
        deployed.deploy()
        cluster.put("/api/v1/namespaces/carico/pods/guest")
        deployed.undeploy()
        assert "namespace/carico stays: 1 pods in it are not CARICO's" in deployed.lines
        assert "/api/v1/namespaces/carico/pods/guest" in cluster.objects

    def test_a_refused_removal_is_an_error(self, cluster, deployed):
        deployed.deploy()
        cluster.refuse["DELETE", "/carico-agent"] = 403, "not you"
        with pytest.raises(KubeRefused, match=r"carico-agent was not removed: .*403: not you; .*cluster administrator"):
            deployed.undeploy()
