"""What `carico costs` shows: what pods demand, beside what they request."""

import json
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.cli import main
from carico.demand.workload import workload_of
from carico.deployment.costs import Known, KnownAtNode, join, read_costs
from carico.deployment.costs_table import show, show_by_node
from carico.deployment.manifests import LABELS, OBSERVES
from carico.errors import KubeUnreachable, NotReady
from carico.extender.requests import requests_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
WIDE = 200
COSTS = "/api/v1/namespaces/carico/pods/https:carico-scheduler-0:9443/proxy/costs"


def pod(name, image="pi:1", job="pi", phase="Running", **requests):
    resources = {"requests": requests} if requests else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "jobs",
            "ownerReferences": [{"kind": "Job", "name": job, "controller": True}],
        },
        "spec": {"containers": [{"name": "pi", "image": image, "resources": resources}]},
        "status": {"phase": phase},
    }


PI, WEB = workload_of(pod("x")), workload_of(pod("x", image="web:1"))
KNOWN = [
    Known(WEB, cores=0.25, cores_doubt=0.01, gib=0.5, gib_doubt=0.05, pods=2, nodes=1),
    Known(PI, cores=1.0, cores_doubt=0.05, gib=0.02, gib_doubt=0.01, pods=3, nodes=2),
]
PODS = [
    pod("pi-1", cpu="100m", memory="20Mi"),
    pod("pi-2", job="pi-again", cpu="100m", memory="20Mi"),
    pod("pi-3", cpu="100m", memory="20Mi"),
    pod("pi-0", cpu="4", phase="Succeeded"),
    pod("web-1", image="web:1", job="web", cpu="1", memory="1Gi"),
    pod("web-2", image="web:1", job="web", cpu=1, memory="1Gi"),
]


def test_the_table_says_what_requests_waste_and_risk():
    assert show(join(KNOWN, PODS), WIDE).splitlines() == [
        f"{'WORKLOAD':{len(PI)}}   OF                  PODS   NODES   CORES         REQUESTED   GIB           "
        "REQUESTED   RAN   ALL PODS",
        f"{PI}   Job/pi and 1 more   3      2       1.00 ± 0.05   0.10        0.02 ± 0.01   0.02        now   "
        "2.7 cores at risk",
        f"{WEB}   Job/web             2      1       0.25 ± 0.01   1.00        0.50 ± 0.05   1.00        now   "
        "1.5 cores wasted, 1.0 GiB wasted",
    ]


def test_the_table_says_what_pods_read_where_any_is_known_to():
    web, pi = KNOWN
    pi = msgspec.structs.replace(pi, reads=0.9, reads_doubt=0.1)
    header, first, second = show(join([web, pi], PODS), WIDE).splitlines()
    assert header.split()[-5:] == ["REQUESTED", "READS", "RAN", "ALL", "PODS"]
    at = header.index("READS")
    assert (first[at : at + 11], second[at : at + 11].rstrip()) == ("0.90 ± 0.10", "-")
    at_nodes = show_by_node([KnownAtNode(PI, "a", 1.0, 0.05, 0.02, 0.01, 3, 0.9, 0.1)], WIDE).splitlines()
    assert at_nodes[1].endswith("0.90 ± 0.10")


def test_on_80_columns_a_workload_has_a_few_short_lines():
    web, pi = KNOWN
    long_ago = msgspec.structs.replace(web, workload="shop/night-0c1d2e3f", pods=0, nodes=0, idle_s=33000.0)
    assert show(join([web, pi, long_ago], PODS), 80).splitlines() == [
        "WORKLOAD   OF",
        "  PODS  NODES  CORES        REQUESTED  GIB          REQUESTED  RAN",
        f"{PI}   Job/pi and 1 more",
        "  3     2      1.00 ± 0.05  0.10       0.02 ± 0.01  0.02       now",
        "  all pods: 2.7 cores at risk",
        f"{WEB}   Job/web",
        "  2     1      0.25 ± 0.01  1.00       0.50 ± 0.05  1.00       now",
        "  all pods: 1.5 cores wasted, 1.0 GiB wasted",
        "shop/night-0c1d2e3f   -",
        "  0     0      0.25 ± 0.01  -          0.50 ± 0.05  -          9h ago",
    ]


LONG = "a-namespace/" + "of-somebody-" * 5
NODES = [f"ip-10-0-{number}-1.a-region.{'of-a-cloud.' * number}internal" for number in range(5)]


def test_on_80_columns_everything_fits():
    known = Known(
        f"{LONG}1234abcd", cores=128.0, cores_doubt=12.0, gib=1024.0, gib_doubt=100.0, pods=9000, nodes=1000, reads=0.9
    )
    (cost,) = join([known], [])
    cost = msgspec.structs.replace(cost, owners=[f"ReplicaSet/{LONG[12:]}"], requested_cores=1.0, requested_gib=2048.0)
    lines = show([cost], 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[2].endswith(known.workload[-20:])
    assert lines[3] == f"  of ReplicaSet/{LONG[12:]}"
    assert lines[5:] == [
        "  a pod has 0.90 ± 0.00 reads under way",
        "  all pods: 1143000.0 cores at risk, 9216000.0 GiB wasted",
    ]
    longer = show([msgspec.structs.replace(cost, workload=known.workload + known.workload)], 80)
    assert max(map(len, longer.splitlines())) <= 80
    assert "…" in longer


def test_on_80_columns_nodes_are_below_their_workload():
    known = [
        KnownAtNode(workload, node, 1.0, 0.05, 0.02, 0.01, 3, 0.9, 0.1)
        for node in NODES
        for workload in (PI, f"{LONG}{LONG}")
    ]
    lines = show_by_node(known, 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0] == "WORKLOAD"
    assert lines[1].split() == ["NODE", "PODS", "CORES", "GIB", "READS"]
    assert lines[2] == PI
    assert lines[3].startswith(f"  {NODES[0]} ")
    assert [line.split()[0][:12] for line in lines[3:8]] == [node[:12] for node in NODES]
    assert lines[8][:12] == LONG[:12]
    assert len(lines) == 2 + 2 * (1 + len(NODES))


def test_what_is_in_doubt_is_neither_waste_nor_risk():
    unsure = [Known(PI, cores=1.0, cores_doubt=0.6, gib=0.02, gib_doubt=0.5, pods=3, nodes=2)]
    (cost,) = join(unsure, PODS)
    assert cost.requested_cores == pytest.approx(0.1)
    assert show([cost], WIDE).splitlines()[1].endswith("0.02        now")


def test_what_is_only_assumed_of_a_workload_is_no_ground_for_a_verdict():
    assumed = {"cores": 1.0, "cores_doubt": 1.0, "gib": 0.5, "gib_doubt": 0.6}
    (row,) = show(
        join([Known(WEB, pods=2, nodes=1, **assumed)], [pod("w", image="web:1", cpu="8", memory="9Gi")]), WIDE
    ).splitlines()[1:]
    assert row.endswith("9.00        now"), "nothing is said to be wasted"


@pytest.mark.parametrize(
    ("idle_s", "ran"),
    [(None, "-"), (0.4, "0s ago"), (59.9, "59s ago"), (61.0, "1m ago"), (7200.0, "2h ago"), (2e5, "2d ago")],
)
def test_the_table_says_when_a_workload_ran_whose_pods_have_ended(idle_s, ran):
    ended = Known(PI, cores=1.0, cores_doubt=0.1, gib=0.02, gib_doubt=0.01, pods=0, nodes=0, idle_s=idle_s)
    assert show(join([ended], []), WIDE).splitlines()[1].endswith(f"-           {ran}")


def test_a_workload_without_pods_requests_nothing_known():
    (cost,) = join(KNOWN[:1], [])
    assert (cost.owners, cost.requested_cores, cost.requested_gib) == ([], None, None)
    assert show([cost], WIDE)
    assert show([], WIDE) == "no workload is known yet: agents learn what workloads cost from running pods"


def test_a_workload_whose_pods_have_ended_requested_what_the_last_one_did():
    ended = msgspec.structs.replace(KNOWN[1], pods=0, last_requested_cores=0.5, last_requested_gib=None)
    (cost,) = join([ended], PODS[3:4])
    assert (cost.requested_cores, cost.requested_gib) == (0.5, None)
    (running,) = join([ended], PODS)
    assert running.requested_cores == pytest.approx(0.1), "what runs counts"


def test_a_limit_counts_where_nothing_is_requested():
    limited = pod("pi-1")
    limited["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "2"}}
    known = Known(workload_of(limited), cores=1.0, cores_doubt=0.1, gib=0.1, gib_doubt=0.1, pods=1, nodes=1)
    assert join([known], [limited])[0].requested_cores == 2.0


def asks(cpu, **fields):
    return {"resources": {"requests": {"cpu": cpu}}} | fields


@pytest.mark.parametrize(
    ("spec", "cores"),
    [
        ({"containers": [asks("1"), asks("500m"), {}]}, 1.5),
        ({"initContainers": [asks("200m", restartPolicy="Always")]}, 1.2),
        ({"initContainers": [asks("3")]}, 3.0),
        ({"initContainers": [asks("900m", restartPolicy="Always"), asks("400m")]}, 1.9),
        ({"initContainers": [asks("900m", restartPolicy="Always"), asks("2")]}, 2.9),
        ({"initContainers": [asks("2"), asks("900m", restartPolicy="Always")]}, 2.0),
        ({"resources": {"requests": {"cpu": "4"}}, "overhead": {"cpu": "250m"}}, 4.25),
        ({"resources": {"requests": {"memory": "1Gi"}}, "overhead": {"cpu": "250m"}}, 1.25),
    ],
    ids=["containers", "sidecar", "init", "sidecar beside", "init after sidecar", "init before sidecar", "pod", "part"],
)
def test_a_pod_requests_what_kube_scheduler_counts(spec, cores):
    assert requests_of({"spec": {"containers": [asks("1")]} | spec}).cores == pytest.approx(cores)


@given(st.text() | st.integers() | st.floats() | st.none())
def test_requests_that_cannot_be_read_are_unknown(anything):
    (cost,) = join(KNOWN[1:], [pod("pi-1", cpu=anything, memory="20Mi")])
    assert cost.requested_cores is None or cost.requested_cores >= 0
    assert cost.requested_gib == pytest.approx(20 / 1024)
    assert show([cost], WIDE)


def test_what_can_be_read_is_judged():
    (cost,) = join(KNOWN[1:], [pod("pi-1", cpu="100m", memory="1e9")])
    assert cost.requested_gib is None
    assert show([cost], WIDE).splitlines()[1].endswith("2.7 cores at risk")


def test_an_exponent_is_not_taken_for_nothing():
    (cost,) = join(KNOWN[1:], [pod("pi-1", cpu="1e0", memory="20Mi"), pod("pi-2", cpu="500m", memory="20Mi")])
    assert cost.requested_cores == 0.5


class TestOnACluster:
    @pytest.fixture
    def observing(self, cluster):
        cluster.put(
            "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler",
            metadata={
                "name": "carico-scheduler",
                "labels": LABELS | {"app.kubernetes.io/component": "scheduler"},
                "annotations": {OBSERVES: "true"},
            },
            spec={"replicas": 2, "template": {"spec": {"containers": [{"image": "carico:1"}]}}},
        )
        cluster.objects[COSTS] = {
            "workloads": [
                {"workload": PI, "cores": 1.0, "cores_doubt": 0.1, "gib": 0.1, "gib_doubt": 0.1, "pods": 1, "nodes": 1}
            ]
        }
        return cluster

    def test_any_extender_is_asked_while_nothing_is_scheduled(self, kube, observing):
        (cost,) = read_costs(kube, "carico", NOW)
        assert (cost.workload, cost.cores) == (PI, 1.0)

    def test_an_extender_without_a_valid_answer_is_an_error(self, kube, observing):
        observing.objects[COSTS] = {"workloads": [{}]}
        with pytest.raises(KubeUnreachable, match="does not say what workloads cost"):
            read_costs(kube, "carico", NOW)

    def test_without_a_deployment_the_remedy_is_told(self, kube, cluster):
        with pytest.raises(NotReady, match="run `carico deploy`"):
            read_costs(kube, "carico", NOW)

    @pytest.mark.parametrize(("columns", "lines"), [("40", 4), ("200", 2)])
    def test_the_command_prints_what_the_terminal_has_room_for(
        self, observing, tmp_path, capsys, monkeypatch, columns, lines
    ):
        monkeypatch.setenv("COLUMNS", columns)
        assert main(["costs", "--kubeconfig", str(observing.kubeconfig(tmp_path))]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == lines
        assert max(map(len, printed)) <= max(80, int(columns))

    def test_the_command_prints_a_table_or_json(self, observing, tmp_path, capsys):
        kubeconfig = str(observing.kubeconfig(tmp_path))
        assert main(["costs", "--kubeconfig", kubeconfig]) == 0
        assert PI in capsys.readouterr().out
        assert main(["costs", "--json", "--kubeconfig", kubeconfig]) == 0
        assert json.loads(capsys.readouterr().out)["workloads"][0]["workload"] == PI

    def test_what_each_node_knows_is_shown_on_request(self, observing, tmp_path, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "200")
        known = {"workload": PI, "cores": 0.9, "cores_doubt": 0.2, "gib": 0.1, "gib_doubt": 0.05, "pods": 2}
        observing.objects[COSTS.removesuffix("costs") + "node-costs"] = {"workloads": [{**known, "node": "node-a"}]}
        kubeconfig = str(observing.kubeconfig(tmp_path))
        assert main(["costs", "--by-node", "--kubeconfig", kubeconfig]) == 0
        header, row = capsys.readouterr().out.splitlines()
        assert header.split() == ["WORKLOAD", "NODE", "PODS", "CORES", "GIB"]
        assert row.split() == [PI, "node-a", "2", "0.90", "±", "0.20", "0.10", "±", "0.05"]
        assert main(["costs", "--by-node", "--json", "--kubeconfig", kubeconfig]) == 0
        assert json.loads(capsys.readouterr().out)["workloads"][0]["node"] == "node-a"
