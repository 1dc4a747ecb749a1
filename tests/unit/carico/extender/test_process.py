"""The process: HTTP, reports, the watch, wake-ups, the journal and metrics together, and how it ends."""

import http.client
import json
import random
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import closing, contextmanager

import kubernetes.client
import msgspec
import pytest
from prometheus_client import CollectorRegistry

from carico.checkpoint import read_checkpoint, write_checkpoint
from carico.cli import main
from carico.clock import SystemClock
from carico.config import ExtenderConfig, KubernetesConfig, read_config
from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, WorkloadReport
from carico.errors import InvalidConfig, KubeRefused, KubeUnreachable, NoCluster, Refused
from carico.extender.kept_costs import OWNER
from carico.extender.metrics import ExtenderMetrics
from carico.extender.process import ANNOTATION, ExtenderProcess, kube_api, new_extender
from carico.kube.client import KubeClient
from carico.outliers import LASTING_S
from carico.rpc.clients import ReportClient
from carico.rpc.tls import ClientTls
from carico.scheduling.report import CapacityReport
from carico.scheduling.uncounted import UNCOUNTED_S
from carico.testing import ManualClock
from carico.variants import variant_named
from tests.kits.blocking import Blocking
from tests.kits.certificates import Certificates
from tests.kits.fake_api_server import FakeApiServer

from .conftest import request


class FakeReports:
    """Where agents would report; `on_report` is what they would reach."""

    port = 50052
    closed = False

    def __init__(self, config, on_report):
        self.on_report = on_report

    def say(self, node, pod_capacity, *counted):
        self.on_report(CapacityReport(node, pod_capacity, 0, 0.0, 0, counted=frozenset(counted)))

    def is_alive(self):
        return not self.closed

    def close(self):
        self.closed = True


class FakeKube:
    """Pods as listed and told, one stream for ever; what is annotated is kept."""

    def __init__(self, pods=()):
        self.listed = list(pods)
        self.events = []
        self.selected = None
        self.failures = []
        self.annotated = []
        self.was_annotated = threading.Event()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.told = threading.Event()
        self._over = threading.Event()

    def pods(self, field_selector):
        self.selected = field_selector
        return self

    def list(self):
        return self.listed, "1"

    def watch(self, version):
        while self.events:
            yield self.events.pop(0)
        self.told.set()
        self._over.wait(10)

    def annotate_node(self, node, annotations):
        self.annotated.append((node, annotations))
        self.was_annotated.set()
        assert self.goes_on.wait(5)
        if self.failures:
            raise self.failures.pop(0)

    @property
    def rooms(self):
        """What nodes were annotated with, without the times."""
        return [(node, annotations[ANNOTATION].partition(" at ")[0]) for node, annotations in self.annotated]

    def close(self):
        self._over.set()


def pod(uid, node="", phase="Pending"):
    return {
        "metadata": {"uid": uid, "name": uid, "resourceVersion": "2"},
        "spec": {"nodeName": node} if node else {},
        "status": {"phase": phase},
    }


def configuration(**settings):
    defaults = {
        "port": 0,
        "insecure_loopback": True,
        "kubernetes": None,
        "journal": None,
        "wake_up": {"node_interval_s": 0.01, "interval_s": 0.01},
    }
    return msgspec.convert(defaults | settings, ExtenderConfig)


@pytest.fixture
def started():
    """Return a function that starts a process within this one; all are closed afterwards."""
    running = []

    def start(kube=None, **settings):
        process = ExtenderProcess(configuration(**settings), SystemClock(), random.Random(1), kube, make_reports)
        running.append((process, kube))
        if kube is not None:
            assert kube.told.wait(5)
        return process

    def make_reports(config, on_report, *_):
        start.reports = FakeReports(config, on_report)
        return start.reports

    yield start
    for process, kube in running:
        process.close()
        if kube is not None:
            kube.close()


def call(port, method, path, body=None):
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as connection:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def chosen(process, uid, nodes):
    status, text = call(process.port, "POST", "/filter", request(uid, nodes))
    assert status == 200, text
    return json.loads(text)["NodeNames"]


def test_reports_come_in_and_pods_are_decided_on(started):
    process = started()
    started.reports.say("a", 2.0)
    started.reports.say("b", 1.0)
    assert [chosen(process, f"u{i}", ["a", "b"]) for i in range(4)] == [["a"], ["a"], ["b"], []]
    _, metrics = call(process.status_port, "GET", "/metrics")
    assert 'carico_extender_decisions_total{result="scheduled"} 3.0' in metrics
    assert call(process.status_port, "GET", "/readyz") == (200, "ok\n")
    assert call(process.status_port, "GET", "/healthz") == (200, "ok\n")


def test_what_is_on_its_way_when_it_starts_is_reserved(started):
    kube = FakeKube([pod("u1", "a"), pod("u2", "a", "Running"), pod("u3")])
    kube.events = [("MODIFIED", pod("u4", "a")), ("DELETED", pod("u4", "a")), ("BOOKMARK", pod("x"))]
    process = started(kube, kubernetes={})
    started.reports.say("a", 2.0, "u2")
    assert kube.selected == "spec.schedulerName=carico"
    assert [chosen(process, uid, ["a"]) for uid in ("u5", "u6")] == [["a"], []]


@pytest.mark.parametrize(("until_counted", "second"), [(True, []), (False, ["a"])])
def test_what_runs_and_is_not_counted_is_reserved_unless_the_thesis_rule_is_wanted(started, until_counted, second):
    process = started(FakeKube([pod("u1", "a", "Running")]), kubernetes={}, until_counted=until_counted)
    started.reports.say("a", 2.0)
    assert [chosen(process, uid, ["a"]) for uid in ("u2", "u3")] == [["a"], second]


@pytest.mark.parametrize("variant", ["thesis-rebased", "demand"])
def test_places_are_held_for_pods_that_run_only_in_namespaces_that_agents_count(variant):
    clock, registry = ManualClock(), CollectorRegistry()
    config = configuration(excluded_namespaces=["probes"])
    extender, _ = new_extender(
        config, variant_named(variant), None, clock, ExtenderMetrics(registry), lambda node, room: None
    )
    extender.pods_listed(True)
    demand = DemandReport("a", 4.0, 16.0, Estimate(1.0, 0.01), 2.0, 1.0, {}, {}) if variant == "demand" else None
    report = CapacityReport("a", 5.0, 0, 0.0, 0, demand=demand, counted=frozenset())
    extender.report(report)
    for uid, namespace in (("u1", "probes"), ("u2", "kube-system")):
        shown = pod(uid, "a", "Running")
        shown["metadata"]["namespace"], shown["spec"]["schedulerName"] = namespace, "carico"
        extender.pod_seen(shown)
    assert registry.get_sample_value("carico_extender_reservations") == 2
    for _ in range(int(UNCOUNTED_S)):
        clock.advance(1.0)
        extender.report(report)
    assert registry.get_sample_value("carico_extender_reservations") == 1


def test_refused_pods_are_woken_by_an_annotation(started):
    kube = FakeKube()
    process = started(kube, kubernetes={})
    started.reports.say("a", 0.5)
    assert chosen(process, "u1", ["a"]) == []
    started.reports.say("a", 1.25)
    assert kube.was_annotated.wait(5)
    assert kube.rooms == [("a", "1.25")]


def test_the_same_room_again_is_another_annotation(started):
    """An object that a patch leaves as it was is no event, and wakes nobody."""
    kube = FakeKube()
    process = started(kube, kubernetes={}, wake_up={"node_interval_s": 1e-9, "interval_s": 1e-9})
    for _ in range(2):
        kube.was_annotated.clear()
        started.reports.say("a", 0.5)
        assert chosen(process, "u1", ["a"]) == []
        started.reports.say("a", 1.25)
        assert kube.was_annotated.wait(5)
    first, second = (annotations[ANNOTATION] for _, annotations in kube.annotated)
    assert first != second


def test_a_node_that_cannot_be_annotated_stops_nothing(started):
    kube = FakeKube()
    kube.failures = [KubeRefused("no", 403)] * 2
    process = started(kube, kubernetes={})
    for at in range(2):
        kube.was_annotated.clear()
        started.reports.say(f"n{at}", 0.5)
        assert chosen(process, "u1", [f"n{at}"]) == []
        while not kube.was_annotated.wait(0.02):  # the rate is limited: the next report makes up for it
            started.reports.say(f"n{at}", 1.5)
    assert call(process.status_port, "GET", "/healthz") == (200, "ok\n")


@pytest.mark.parametrize("failure", [KubeRefused("busy", 429), KubeRefused("broken", 500), KubeUnreachable("gone")])
def test_an_annotation_that_failed_is_made_up_for_without_another_report(started, monkeypatch, failure):
    monkeypatch.setattr("carico.extender.process.TICK_S", 0.01)
    kube = FakeKube()
    kube.failures = [failure]
    process = started(kube, kubernetes={})
    started.reports.say("a", 0.5)
    assert chosen(process, "u1", ["a"]) == []
    started.reports.say("a", 1.25)
    while 'carico_extender_wake_ups_total{result="done"} 1.0' not in call(process.status_port, "GET", "/metrics")[1]:
        pass
    assert kube.rooms == [("a", "1.25")] * 2


def test_an_annotation_that_would_be_refused_again_is_not_tried_again(started, monkeypatch):
    monkeypatch.setattr("carico.extender.process.TICK_S", 0.01)
    kube = FakeKube()
    kube.failures = [KubeRefused("there is no such node", 404)]
    process = started(kube, kubernetes={})
    for node in ("a", "b"):
        kube.was_annotated.clear()
        started.reports.say(node, 0.5)
        assert chosen(process, "u1", [node]) == []
        while not kube.was_annotated.wait(0.02):  # the rate is limited: the next report makes up for it
            started.reports.say(node, 1.25)
    assert [node for node, _ in kube.rooms] == ["a", "b"]


def test_nothing_gathers_where_nobody_annotates(started):
    process = started()
    started.reports.say("a", 0.5)
    assert chosen(process, "u1", ["a"]) == []
    started.reports.say("a", 1.25)
    assert process._to_wake.empty()


def test_an_api_server_that_was_slow_is_told_the_latest_of_a_node_only(started):
    kube = FakeKube()
    kube.goes_on.clear()
    process = started(kube, kubernetes={}, wake_up={"node_interval_s": 1e-9, "interval_s": 1e-9})
    for room in (1.0, 2.0, 3.0):
        started.reports.say("a", 0.5)
        assert chosen(process, "u1", ["a"]) == []
        started.reports.say("a", room)
        assert kube.was_annotated.wait(5)
    kube.was_annotated.clear()
    kube.goes_on.set()
    assert kube.was_annotated.wait(5)
    assert kube.rooms == [("a", "1.00"), ("a", "3.00")]


def test_a_listing_that_cannot_be_read_is_asked_for_again(started):
    kube = FakeKube([{"no": "pod"}])
    kube.told.set()
    process = started(kube, kubernetes={})
    kube.told.clear()
    kube.listed = []
    assert kube.told.wait(5), "pods are watched"
    assert call(process.status_port, "GET", "/healthz") == (200, "ok\n")


def test_it_is_unhealthy_where_nobody_takes_reports_any_more(started):
    process = started()
    started.reports.closed = True
    assert call(process.status_port, "GET", "/healthz") == (
        503,
        "has ended, the log says why: reports of agents\n",
    )


def test_a_report_that_makes_no_sense_is_not_passed_on(started):
    process = started()
    started.reports.say("a", float("nan"))
    assert chosen(process, "u1", ["a"]) == []


def test_decisions_are_written_down(started, tmp_path):
    process = started(journal={"file": str(tmp_path / "journal.jsonl")})
    chosen(process, "u1", ["a"])
    process.close()
    assert json.loads((tmp_path / "journal.jsonl").read_bytes())["pod"]["uid"] == "u1"


def test_nothing_is_left_behind_when_a_port_is_taken(started):
    process = started()
    with pytest.raises(InvalidConfig, match=r"extender: nothing can be served on 127.0.0.1:\d+: .*; is the port taken"):
        started(port=process.port)
    assert started.reports.closed


def test_a_journal_needs_a_folder(started, tmp_path):
    with pytest.raises(InvalidConfig, match=r"journal\.file needs a folder that exists"):
        started(journal={"file": str(tmp_path / "no" / "journal")})


def test_a_journal_is_no_symbolic_link(started, tmp_path):
    file = tmp_path / "journal.jsonl"
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InvalidConfig, match=r"journal\.file must not be a symbolic link, .* is one: name the file"):
        started(journal={"file": str(file)})


def test_a_journal_that_is_deleted_is_begun_anew_and_counted(started, tmp_path, monkeypatch, until):
    monkeypatch.setattr("carico.extender.journal._LOOK_EVERY_S", 0.0)
    file = tmp_path / "journal.jsonl"
    process = started(journal={"file": str(file)})
    chosen(process, "u1", ["a"])
    until(file.exists)
    file.unlink()
    chosen(process, "u2", ["a"])
    until(file.exists)
    assert "carico_extender_journal_reopened_total 1.0" in call(process.status_port, "GET", "/metrics")[1]
    process.close()
    assert json.loads(file.read_bytes())["pod"]["uid"] == "u2"


def test_what_workloads_cost_outlives_the_process(started, tmp_path):
    file = tmp_path / "costs.json"
    state = {"cpu": {"jobs/pi": [0.5, 0.01, 5.0, 60.0]}, "memory": {}, "at_unix_s": time.time()}
    write_checkpoint(file, "demand", state, owner=OWNER)
    for _ in range(2):
        process = started(variant="demand", checkpoint=str(file))
        _, costs = call(process.status_port, "GET", "/costs")
        (cost,) = json.loads(costs)["workloads"]
        assert (cost["workload"], cost["cores"]) == ("jobs/pi", 0.5)
        process.close()
    assert read_checkpoint(file, "demand", owner=OWNER)["cpu"]["jobs/pi"][0] == 0.5


def test_a_checkpoint_that_cannot_be_used_is_moved_aside(started, tmp_path, caplog):
    file = tmp_path / "costs.json"
    write_checkpoint(file, "demand", {"cpu": {}, "memory": {"jobs/pi": []}}, owner=OWNER)
    started(variant="demand", checkpoint=str(file)).close()
    assert "starting without the checkpoint, which is" in caplog.text
    assert sorted(path.name for path in tmp_path.iterdir()) == ["costs.json", "costs.json.unusable"]


def test_a_checkpoint_that_can_no_longer_be_written_stops_nothing(started, tmp_path, caplog):
    folder = tmp_path / "full"
    folder.mkdir()
    process = started(variant="demand", checkpoint=str(folder / "costs.json"))
    folder.rmdir()
    process.close()
    assert "a restart would forget what workloads cost: cannot write" in caplog.text


def test_a_process_that_cannot_start_ends_with_a_checkpoint_too(started, tmp_path):
    first = started()
    with pytest.raises(InvalidConfig):
        started(variant="demand", checkpoint=str(tmp_path / "costs.json"), port=first.port)


class TestKeptCosts:
    """In a ConfigMap of a fake API server."""

    PATH = "/api/v1/namespaces/carico/configmaps/carico-costs"

    @pytest.fixture
    def server(self):
        server = FakeApiServer()
        server.put(self.PATH, metadata={"name": "carico-costs", "resourceVersion": "1"})
        yield server
        server.close()

    @pytest.fixture
    def process(self, server):
        """A function that runs a process until the end of a `with` block."""

        @contextmanager
        def run(**settings):
            config = configuration(variant="demand", **{"kept_costs": {"config_map": "carico-costs"}} | settings)
            client = KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=5)
            make_reports = lambda config, on_report, *_: FakeReports(config, on_report)  # noqa: E731
            with (
                closing(client),
                ExtenderProcess(config, SystemClock(), random.Random(1), client, make_reports) as one,
            ):
                yield one

        return run

    def test_are_known_to_the_next_pod(self, process, server, tmp_path, monkeypatch):
        monkeypatch.setenv("NAMESPACE", "carico")
        file = tmp_path / "costs.json"
        state = {"cpu": {"jobs/pi": [0.5, 0.01, 5.0, 60.0]}, "memory": {}, "at_unix_s": time.time()}
        write_checkpoint(file, "demand", state, owner=OWNER)
        with process(checkpoint=str(file)):
            pass
        with process() as after:
            (cost,) = after.extender.costs()
        assert (cost["workload"], cost["cores"]) == ("jobs/pi", 0.5)
        assert 59 < cost["idle_s"] < 120

    def test_delay_the_first_answer_for_a_moment_only(self, process, server, monkeypatch, caplog):
        monkeypatch.setattr("carico.extender.process.START_S", 0.05)
        monkeypatch.setattr("carico.extender.process.END_S", 0.05)
        asked = threading.Event()
        server.silent = self.PATH, asked
        with process(kept_costs={"config_map": "carico-costs", "namespace": "carico"}) as one:
            assert one.healthy() == ""
            asked.set()
        assert "starting without what workloads used to cost" in caplog.text

    def test_need_an_api_server_and_a_namespace(self, process, started, monkeypatch):
        monkeypatch.delenv("NAMESPACE", raising=False)
        with pytest.raises(InvalidConfig, match="give `namespace`, or set NAMESPACE"), process():
            pass
        with pytest.raises(InvalidConfig, match="give `kubernetes`, too"):
            started(variant="demand", kept_costs={"config_map": "carico-costs", "namespace": "carico"})


def test_agents_report_and_kube_scheduler_asks_over_mutual_tls(tmp_path):
    certificates = Certificates(tmp_path / "ca")
    config = configuration(tls=msgspec.to_builtins(certificates.server("extender")), report_port=0)
    process = ExtenderProcess(config, SystemClock(), random.Random(1), None)
    agent = Blocking(ReportClient(f"127.0.0.1:{process.report_port}", ClientTls(certificates.node("a")), 5.0))
    mine = certificates.server("kube-scheduler")
    context = ssl.create_default_context(cafile=mine.ca)
    context.load_cert_chain(mine.certificate, mine.key)
    scheduler = http.client.HTTPSConnection("127.0.0.1", process.port, timeout=5, context=context)
    with closing(process), closing(scheduler), agent:
        with pytest.raises(Refused, match="pod_capacity must be finite"):
            agent.report(CapacityReport("a", -1.0, 0, 1e9, 1))
        agent.report(CapacityReport("a", 1.5, 0, 1e9, 2))
        scheduler.request("POST", "/filter", request("u1", ["a", "b"]))
        assert json.loads(scheduler.getresponse().read()) == {"NodeNames": ["a"]}
        assert 'carico_extender_reports_total{result="refused"} 1.0' in call(process.status_port, "GET", "/metrics")[1]


class TestConfiguration:
    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("scheduler_name: 'a,b'", "line 1: scheduler_name: "),
            ("stale_after_s: 0", "line 1: stale_after_s: "),
        ],
    )
    def test_what_is_no_good_is_told(self, tmp_path, content, message):
        (tmp_path / "extender.yaml").write_text(content)
        with pytest.raises(InvalidConfig, match=message):
            read_config(tmp_path / "extender.yaml", ExtenderConfig)

    def test_without_an_api_server_the_remedy_is_in_words_of_the_file(self, tmp_path):
        config = ExtenderConfig(kubernetes=KubernetesConfig(kubeconfig=str(tmp_path / "gone")))
        remedy = r"there is no such file; .*`kubernetes: {kubeconfig: FILE}`.*, or do without \(`kubernetes: null`\)"
        with pytest.raises(NoCluster, match=remedy):
            kube_api(config)

    @pytest.mark.parametrize(
        "settings", [{"insecure_loopback": False}, {"host": "0.0.0.0"}, {"host": "example.org"}], ids=str
    )
    def test_plain_text_is_for_loopback_and_those_who_ask_for_it(self, started, settings):
        with pytest.raises(InvalidConfig, match="loopback"):
            started(**settings)

    def test_so_are_reports(self):
        with pytest.raises(InvalidConfig, match="loopback"):
            ExtenderProcess(configuration(report_host="0.0.0.0"), SystemClock(), random.Random(1), None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_serves_until_it_is_asked_to_end(tmp_path, number):
    file = tmp_path / "extender.yaml"
    file.write_text(
        "{insecure_loopback: true, port: 0, report_port: 0, kubernetes: null, journal: null, logs: {format: json}}"
    )
    command = [sys.executable, "-m", "carico", "extender", "--config", str(file)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        serving = json.loads(process.stderr.readline())
        assert call(serving["port"], "POST", "/filter", request("u1", ["a"]))[0] == 200
        process.send_signal(number)
        _, rest = process.communicate(timeout=10)
    assert (process.returncode, json.loads(rest)["message"]) == (0, "stopped")


def test_the_command_says_what_is_wrong_with_its_configuration(tmp_path, capsys):
    assert main(["extender", "--config", str(tmp_path / "none.yaml")]) == 1
    assert "cannot read the configuration" in capsys.readouterr().err


def test_what_is_known_of_nodes_is_shown(started):
    process = started()
    started.reports.say("node-1", 2.5)
    connection = http.client.HTTPConnection("127.0.0.1", process.status_port, timeout=5)
    with closing(connection):
        connection.request("GET", "/nodes")
        (node,) = json.loads(connection.getresponse().read())["nodes"]
    assert node.pop("age_s") < 5
    assert node == {"node": "node-1", "pod_capacity": 2.5, "reserved": 0, "stale": False}


def test_nodes_that_are_far_from_the_others_are_shown_at_the_status_port():
    clock, made = ManualClock(), []

    def reports(config, on_report, *_):
        made.append(FakeReports(config, on_report))
        return made[0]

    gib, config = Estimate(0.5, 1e-6), configuration(variant="demand")
    with ExtenderProcess(config, clock, random.Random(1), None, reports) as process:
        for _ in range(round(LASTING_S / 5) + 2):
            for node, cores in {"node-a": 1.0, "node-b": 1.0, "node-c": 1.1, "node-d": 30.0}.items():
                pi = WorkloadReport(1, 0.0, Estimate(cores, 1e-6), gib)
                demand = DemandReport(
                    node, 4.0, 16.0, Estimate(1.0, 0.01), 2.0, 1.0, {"jobs/pi": pi}, {node: "jobs/pi"}
                )
                made[0].on_report(CapacityReport(node, 0.0, 1, clock.now(), 0, demand))
            clock.advance(5.0)
            process.extender.tick()
        with closing(http.client.HTTPConnection("127.0.0.1", process.status_port, timeout=5)) as connection:
            connection.request("GET", "/nodes")
            (outlier,) = json.load(connection.getresponse())["outliers"]
            connection.request("GET", "/metrics")
            assert b"carico_extender_outliers 1.0" in connection.getresponse().read()
    assert (outlier["node"], outlier["about"], outlier["says"]) == ("node-d", "cores of a pod of jobs/pi", 30.0)
    assert outlier["others"] == pytest.approx(1.05)
