"""What `carico status` shows, and what it reports as a problem."""

import base64
import json
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from carico.cli import main
from carico.deployment.certificates import EXPIRE
from carico.deployment.manifests import LABELS, OBSERVES
from carico.deployment.status import as_json, read_status, show
from carico.errors import KubeRefused, KubeUnreachable

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
MADE = "2030-01-01T11:00:00Z"
NODES = "/api/v1/namespaces/carico/pods/https:carico-scheduler-1:9443/proxy/nodes"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/carico/leases/carico-kube-scheduler"


def known(node, age_s=0.5, capacity=3.25):
    return {"node": node, "pod_capacity": capacity, "reserved": 1, "age_s": age_s, "stale": age_s > 5}


def labels(component):
    return LABELS | {"app.kubernetes.io/component": component}


@pytest.fixture
def healthy(cluster):
    """A deployment of an agent on each of two nodes and two schedulers, the second of which leads."""
    template = {"spec": {"containers": [{"image": "carico:1"}, {"image": "carico:1"}]}}
    metadata = {"generation": 1, "creationTimestamp": MADE}
    cluster.put(
        "/apis/apps/v1/namespaces/carico/daemonsets/carico-agent",
        metadata=metadata | {"name": "carico-agent", "labels": labels("agent")},
        spec={"template": template},
        status={"observedGeneration": 1}
        | dict.fromkeys(["desiredNumberScheduled", "updatedNumberScheduled", "numberReady"], 2),
    )
    cluster.put(
        "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler",
        metadata=metadata | {"name": "carico-scheduler", "labels": labels("scheduler")},
        spec={"replicas": 2, "template": template},
        status={"observedGeneration": 1, "readyReplicas": 2},
    )
    for node in ("node-a", "node-b"):
        cluster.put(
            f"/api/v1/namespaces/carico/pods/agent-{node}",
            metadata={"name": f"agent-{node}", "labels": labels("agent")},
            spec={"nodeName": node},
            status={
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"restartCount": 2}],
            },
        )
    lead(cluster, 3)
    cluster.objects[NODES] = {"nodes": [known("node-a"), known("node-b")]}
    return cluster


def lead(cluster, seconds_ago):
    renewed = (NOW - timedelta(seconds=seconds_ago)).isoformat()
    cluster.put(
        LEASE, spec={"holderIdentity": "carico-scheduler-1_uid", "renewTime": renewed, "leaseDurationSeconds": 15}
    )


def test_nothing_that_the_cluster_says_moves_the_cursor(kube, healthy):
    healthy.objects[NODES] = "\x1b[2J"
    lead(healthy, 3)
    healthy.objects[LEASE]["spec"]["holderIdentity"] = "carico\x1b[2J-1_uid"
    template = {"spec": {"containers": [{"image": "carico\x1b[2J:1"}]}}
    healthy.objects["/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"]["spec"]["template"] = template
    shown = show(read_status(kube, "carico", NOW))
    assert "carico?[2J:1" in shown
    assert "leader: carico?[2J-1" in shown
    assert "the extender of carico?[2J-1 does not say" in shown
    assert "".join(shown.split("\n")).isprintable()


def test_a_healthy_deployment_has_no_problems(kube, healthy):
    status = read_status(kube, "carico", NOW)
    assert status.problems == []
    assert show(status) == "\n".join(
        [
            "COMPONENT                           DESIRED   UP-TO-DATE   READY   RESTARTS   AGE   IMAGE",
            "statefulset.apps/carico-scheduler   2         2            2       0          60m   carico:1",
            "daemonset.apps/carico-agent         2         2            2       4          60m   carico:1",
            "",
            "NODE     AGENT   POD-CAPACITY   RESERVED   REPORT-AGE",
            "node-a   ready   3.25           1          0.5s",
            "node-b   ready   3.25           1          0.5s",
            "",
            "leader: carico-scheduler-1",
        ]
    )


def test_under_demand_the_load_of_every_node_is_shown(kube, healthy):
    loads = {"cores": 4.0, "load_cores": 3.2, "level_cores": 5.0, "gib": 16.0, "load_gib": 7.25}
    healthy.objects[NODES] = {"nodes": [known("node-a", capacity=None) | loads, known("node-b", capacity=1.5)]}
    assert show(read_status(kube, "carico", NOW)).splitlines()[4:7] == [
        "NODE     AGENT   LOAD   LEVEL   CPUS   MEMORY   OF        RESERVED   REPORT-AGE",
        "node-a   ready   3.20   5.00    4.00   7.25Gi   16.00Gi   1          0.5s",
        "node-b   ready   -      -       -      -        -         1          0.5s",
    ]


class TestOnATerminalOf80Columns:
    REGISTRY = "registry.example.com/cluster-services/carico"
    KUBE = "registry.k8s.io/kube-scheduler@sha256:" + "0123456789abcdef" * 4
    NODES = ("ip-10-0-123-45.eu-central-1.compute.internal", "ip-10-0-123-46.eu-central-1.compute.internal")

    @pytest.fixture
    def long_names(self, healthy):
        template = {"spec": {"containers": [{"image": f"{self.REGISTRY}:v1.2.3"}, {"image": self.KUBE}]}}
        healthy.objects["/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler"]["spec"]["template"] = template
        for old, new in zip(("node-a", "node-b"), self.NODES, strict=True):
            healthy.objects[f"/api/v1/nodes/{old}"]["metadata"]["name"] = new
            healthy.objects[f"/api/v1/namespaces/carico/pods/agent-{old}"]["spec"]["nodeName"] = new
        healthy.objects[NODES] = {"nodes": [known(node) for node in self.NODES]}
        return healthy

    def shown(self, kube):
        whole, fitted = (show(read_status(kube, "carico", NOW), width) for width in (None, 80))
        assert max(map(len, whole.splitlines())) > 80
        assert max(map(len, fitted.splitlines())) <= 80
        return whole, fitted.splitlines()

    def test_images_and_nodes_have_lines_of_their_own(self, kube, long_names):
        whole, fitted = self.shown(kube)
        assert self.KUBE in whole, "in a pipe nothing is cut"
        assert fitted == [
            "COMPONENT                          DESIRED  UP-TO-DATE  READY  RESTARTS  AGE",
            "  IMAGE",
            "statefulset.apps/carico-scheduler  2        2           2      0         60m",
            f"  {self.REGISTRY}:v1.2.3",
            f"  {self.KUBE[:39]}…{self.KUBE[-38:]}",
            "daemonset.apps/carico-agent        2        2           2      4         60m",
            "  carico:1",
            "",
            "NODE",
            "  AGENT  POD-CAPACITY  RESERVED  REPORT-AGE",
            self.NODES[0],
            "  ready  3.25          1         0.5s",
            self.NODES[1],
            "  ready  3.25          1         0.5s",
            "",
            "leader: carico-scheduler-1",
        ]

    def test_so_have_nodes_under_demand(self, kube, long_names):
        long_names.objects["/api/v1/namespaces/carico/pods/agent-node-a"]["status"]["conditions"] = []
        loads = {"cores": 128.0, "load_cores": 103.25, "level_cores": 120.0, "gib": 1024.0, "load_gib": 512.5}
        long_names.objects[NODES]["nodes"] = [known(node, age_s=1234.5) | loads for node in self.NODES]
        counts = {"running": 1200, "waiting": 200, "unknown": 30, "remembered": 4000}
        long_names.objects[NODES]["workloads"] = counts
        _, fitted = self.shown(kube)
        assert fitted[8:12] == [
            "NODE",
            "  AGENT      LOAD    LEVEL   CPUS    MEMORY    OF         RESERVED  REPORT-AGE",
            self.NODES[0],
            "  not ready  103.25  120.00  128.00  512.50Gi  1024.00Gi  1         1234.5s",
        ]
        assert "workloads: 1200 running, 200 waiting, 30 of these of unknown cost; 4000 more" in fitted

    def test_so_have_outliers(self, kube, long_names):
        about = "cores of a pod of batch/image-resize-nightly"
        long_names.objects[NODES]["outliers"] = [OUTLIER | {"node": self.NODES[0], "about": about}]
        _, fitted = self.shown(kube)
        assert fitted[-4:] == [
            "OUTLIER                                       SAYS  OTHERS  FOR",
            "  ABOUT",
            f"{self.NODES[0]}  9     1       45s",
            f"  {about}",
        ]

    def test_names_that_no_line_has_room_for_are_cut_in_the_middle(self, kube, long_names):
        longest = f"{'a' * 63}.{'b' * 63}"
        long_names.objects["/api/v1/nodes/node-a"]["metadata"]["name"] = longest
        assert f"\n{longest[:40]}…{longest[-39:]}\n" in show(read_status(kube, "carico", NOW), 80)

    def test_problems_are_wrapped_but_no_name_is_broken(self, kube, long_names):
        long_names.objects[NODES]["nodes"] = [known(node, age_s=60.0) for node in self.NODES]
        _, fitted = self.shown(kube)
        assert fitted[-2:] == [f"2 of 2 nodes do not report: {self.NODES[0]},", f"  {self.NODES[1]}"]


@pytest.mark.parametrize("terminal", [True, False])
def test_only_a_terminal_is_fitted(kube, healthy, monkeypatch, terminal, capsys):
    healthy.objects["/api/v1/nodes/node-a"]["metadata"]["name"] = longest = "a" * 100
    monkeypatch.setattr("carico.commands.deploy.connected", lambda options: nullcontext(kube))
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):  # node-a does not report
        main(["status"])
    printed = capsys.readouterr().out
    assert (longest in printed.partition("leader:")[0]) is not terminal


def test_how_many_workloads_are_known_is_shown(kube, healthy):
    counts = {"running": 12, "waiting": 2, "unknown": 3, "remembered": 40}
    healthy.objects[NODES]["workloads"] = counts
    status = read_status(kube, "carico", NOW)
    assert show(status).splitlines()[-2:] == [
        "leader: carico-scheduler-1",
        "workloads: 12 running, 2 waiting, 3 of these of unknown cost; 40 more remembered",
    ]
    assert json.loads(as_json(status))["workloads"] == counts
    healthy.objects[NODES]["workloads"] = counts | {"running": -1}
    assert "does not say what it knows" in read_status(kube, "carico", NOW).problems[0]


OUTLIER = {"node": "node-b", "about": "cores of a pod of jobs/pi", "says": 9.0, "others": 1.0, "for_s": 45.0}
AGGREGATOR = "/api/v1/namespaces/carico/pods/https:carico-aggregator-0:9443/proxy/outliers"


def test_outliers_are_named_with_what_they_and_the_others_say(kube, healthy):
    healthy.objects[NODES]["outliers"] = [OUTLIER]
    status = read_status(kube, "carico", NOW)
    assert status.problems == [], "limits hold for outliers, too: nothing has to be done at once"
    assert show(status).splitlines()[-3:] == [
        "",
        "OUTLIER   ABOUT                       SAYS   OTHERS   FOR",
        "node-b    cores of a pod of jobs/pi   9      1        45s",
    ]
    assert json.loads(as_json(status))["outliers"] == [OUTLIER]


def test_pods_that_their_nodes_should_count_are_a_problem(kube, healthy):
    uncounted = {"pod": "jobs/pi-1", "node": "node-b", "for_s": 600.0}
    healthy.objects[NODES]["uncounted"] = [uncounted]
    status = read_status(kube, "carico", NOW)
    (problem,) = status.problems
    assert "running pods that their nodes do not count: 1" in problem
    assert "jobs/pi-1 on node-b for 10m" in problem
    assert "container pod-names in the agent's pod on node-b" in problem
    assert json.loads(as_json(status))["uncounted"] == [uncounted]


@pytest.mark.parametrize(
    ("answer", "about", "problems"),
    [
        ({"outliers": [OUTLIER | {"about": "usage of memory"}]}, ["usage of memory"], 0),
        (None, [], 0),
        ({"outliers": [{"node": 3}]}, [], 1),
    ],
    ids=["outliers", "older version", "no answer"],
)
def test_so_are_those_that_aggregation_servers_know(kube, healthy, answer, about, problems):
    for name, ready in (("carico-aggregator-0", "True"), ("carico-aggregator-1", "False")):
        healthy.put(
            f"/api/v1/namespaces/carico/pods/{name}",
            metadata={"name": name, "labels": labels("aggregator")},
            status={"conditions": [{"type": "Ready", "status": ready}]},
        )
    if answer is not None:
        healthy.objects[AGGREGATOR] = answer
    status = read_status(kube, "carico", NOW)
    assert [outlier.about for outlier in status.outliers] == about
    assert len(status.problems) == problems


def test_who_observes_needs_no_leader(kube, healthy):
    path = "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler"
    healthy.objects[path]["metadata"]["annotations"] = {OBSERVES: "true"}
    del healthy.objects[LEASE]
    healthy.objects[NODES.replace("scheduler-1", "scheduler-0")] = healthy.objects.pop(NODES)
    status = read_status(kube, "carico", NOW)
    assert status.problems == []
    assert show(status).splitlines()[-1] == "observing: nothing is scheduled"


def test_pods_that_are_not_ready_are_a_problem(kube, healthy):
    healthy.objects["/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"]["status"]["numberReady"] = 1
    assert read_status(kube, "carico", NOW).problems == ["daemonset.apps/carico-agent: 1 of 2 pods ready"]


def ask(cluster, name, made, signer="carico.dev/node", **status):
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{name}"
    cluster.put(path, metadata={"name": name, "creationTimestamp": made}, spec={"signerName": signer}, status=status)


LATELY = "2030-01-01T11:55:00Z"


class TestCertificatesOfNodes:
    def test_requests_that_are_signed_or_quite_new_are_no_problem(self, kube, healthy):
        ask(healthy, "signed", MADE, conditions=[{"type": "Approved"}], certificate="eA==")
        ask(healthy, "new", "2030-01-01T11:59:30Z")
        ask(healthy, "others", MADE, signer="kubernetes.io/kubelet-serving")
        ask(healthy, "refused-long-ago", MADE, conditions=[{"type": "Denied", "message": "no"}])
        assert read_status(kube, "carico", NOW).problems == []

    def test_requests_without_an_answer_are_one(self, kube, healthy):
        ask(healthy, "one", LATELY)
        ask(healthy, "approved", LATELY, conditions=[{"type": "Approved"}])
        (problem,) = read_status(kube, "carico", NOW).problems
        assert problem.startswith("2 requests for nodes' certificates have no answer: see `kubectl -n carico logs")

    @pytest.mark.parametrize("kind", ["Denied", "Failed"])
    def test_so_are_refused_ones_with_the_reason(self, kube, healthy, kind):
        ask(healthy, "one", LATELY, conditions=[{"type": kind, "reason": "NoNode", "message": "names no node"}])
        assert read_status(kube, "carico", NOW).problems == [
            "1 requests for nodes' certificates were refused of late, for example: names no node"
        ]

    def test_who_may_not_read_requests_and_keys_sees_the_rest(self, kube, healthy):
        ask(healthy, "one", LATELY)
        for path in ("/certificatesigningrequests", "/secrets/carico-agent-tls"):
            healthy.refuse["GET", path] = 403, "not you"
        assert read_status(kube, "carico", NOW).problems == []
        healthy.refuse["GET", "/certificatesigningrequests"] = 500, "no such luck"
        with pytest.raises(KubeRefused, match="no such luck"):
            read_status(kube, "carico", NOW)

    def test_the_keys_of_an_earlier_version_are_a_problem_while_they_are_there(self, kube, healthy):
        healthy.put("/api/v1/namespaces/carico/secrets/carico-agent-tls", data={"node-a": "eA=="})
        (problem,) = read_status(kube, "carico", NOW).problems
        assert problem.startswith("secret/carico-agent-tls still holds the keys of all nodes")
        assert "run `carico deploy` again" in problem


def test_a_rollout_that_has_not_started_is_a_problem(kube, healthy):
    healthy.objects["/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"]["metadata"]["generation"] = 2
    assert len(read_status(kube, "carico", NOW).problems) == 1


def test_nodes_that_do_not_report_are_a_problem(kube, healthy):
    healthy.objects[NODES] = {"nodes": [known("node-a", age_s=60.0)]}
    status = read_status(kube, "carico", NOW)
    assert status.problems == ["2 of 2 nodes do not report: node-a, node-b"]
    assert show(status).splitlines()[6].split() == ["node-b", "ready", "-", "-", "-"]


@pytest.mark.parametrize("seconds_ago", [None, 16])
def test_no_leader_is_a_problem(kube, healthy, seconds_ago):
    if seconds_ago is None:
        del healthy.objects[LEASE]
    else:
        lead(healthy, seconds_ago)
    assert read_status(kube, "carico", NOW).problems == [
        "no kube-scheduler leads: pods with schedulerName: carico wait"
    ]


@pytest.mark.parametrize("answer", [None, {}, {"nodes": [{"node": 3}]}])
def test_an_extender_without_a_valid_answer_is_a_problem(kube, healthy, answer):
    del healthy.objects[NODES]
    if answer is not None:
        healthy.objects[NODES] = answer
    (problem,) = read_status(kube, "carico", NOW).problems
    assert problem.startswith("the extender of carico-scheduler-1 does not say what it knows about nodes: ")


def test_no_deployment_is_a_problem(kube, cluster):
    status = read_status(kube, "carico", NOW)
    assert status.problems == ["CARICO is not deployed in the namespace carico: run `carico deploy`"]
    assert show(status) == status.problems[0]


def test_missing_rights_are_an_error(kube, cluster):
    cluster.refuse["GET", "/pods"] = 403, "pods is forbidden"
    with pytest.raises(KubeRefused, match="403: pods is forbidden"):
        read_status(kube, "carico", NOW)


def test_an_invalid_answer_of_the_api_is_an_error(kube, healthy):
    healthy.objects["/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"]["metadata"]["creationTimestamp"] = "soon"
    with pytest.raises(KubeUnreachable, match="sent 'soon' for a time"):
        read_status(kube, "carico", NOW)


@pytest.mark.parametrize(
    ("expire", "said"),
    [
        ("2030-01-15T13:00:00Z", []),
        (
            "2030-01-15T11:00:00Z",
            ["certificates expire in 13d (the first one at 2030-01-15T11:00:00Z): run `carico renew`"],
        ),
        (
            "2030-01-01T11:00:00Z",
            ["certificates have expired (the first one at 2030-01-01T11:00:00Z): run `carico renew`"],
        ),
    ],
    ids=["later", "soon", "past"],
)
def test_certificates_that_expire_within_14_days_are_a_problem(kube, healthy, expire, said):
    noted = {"annotations": {EXPIRE: expire}}
    healthy.put("/api/v1/namespaces/carico/configmaps/carico-ca", metadata=noted)
    status = read_status(kube, "carico", NOW)
    assert status.problems == said
    assert all(line in show(status) for line in said)


@pytest.mark.parametrize("key", [b"of-the-test", b"of-the-test\n"])
def test_the_extender_is_asked_with_the_key_of_the_deployment(kube, healthy, key):
    data = {"key": base64.b64encode(key).decode()}
    healthy.put("/api/v1/namespaces/carico/secrets/carico-status-key", data=data)
    assert read_status(kube, "carico", NOW).problems == []
    (asked,) = [request for request in healthy.asked if request.path == NODES]
    assert asked.key == "of-the-test"


@pytest.mark.parametrize(
    "data",
    [{"key": 7}, {"key": "!"}, {"key": "4pyT"}, {"key": "YQpi"}, ["key"]],
    ids=["no text", "no base64", "not ASCII", "two lines", "no data"],
)
def test_a_secret_without_a_key_is_a_problem(kube, healthy, data):
    healthy.put("/api/v1/namespaces/carico/secrets/carico-status-key", data=data)
    (problem,) = read_status(kube, "carico", NOW).problems
    assert "secret/carico-status-key holds no key" in problem


def test_so_is_an_account_that_may_not_read_it(kube, healthy):
    healthy.refuse["GET", "/carico-status-key"] = 403, "not you"
    (problem,) = read_status(kube, "carico", NOW).problems
    assert "403: not you" in problem
