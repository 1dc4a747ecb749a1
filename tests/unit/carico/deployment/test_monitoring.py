"""Alerts and dashboard, against what the processes' /metrics really expose."""

import json
import logging
import random
import shutil
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.resources import files
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import msgspec
import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from carico.agent.process import run_agent
from carico.aggregation.process import run_aggregator
from carico.cli import main
from carico.clock import SystemClock
from carico.config import (
    AgentConfig,
    AggregatorConfig,
    ExtenderConfig,
    KubernetesConfig,
    PodEventsConfig,
    SignerConfig,
    StatusConfig,
)
from carico.deployment.authority import NODES_CA_NAME, Authority
from carico.deployment.manifests import Choices, containers, manifests
from carico.deployment.monitoring import alerts, dashboard, operator_objects
from carico.enrolment.process import run_signer
from carico.extender.process import ExtenderProcess
from carico.testing import FakeProc
from tests.kits.fake_api_server import FakeApiServer

PATIENCE_S = 20.0
ANY_PROCESS = StatusConfig(port=0)
OF_PROMETHEUS = {"cluster", "namespace", "pod", "node", "le"}
"""Labels that Prometheus adds to what it scrapes, or that histograms have."""
ROOT = Path(__file__).parents[4]
PROMTOOL = shutil.which("promtool")


class Ports(logging.Handler):
    """Notes the status ports that processes log when they serve."""

    def __init__(self):
        super().__init__(logging.INFO)
        self.came = threading.Condition()
        self.ports = {}

    def emit(self, record):
        if hasattr(record, "status_port"):
            with self.came:
                self.ports[record.threadName] = record.status_port
                self.came.notify_all()


@contextmanager
def served(**processes):
    """Run processes in threads; yields their status ports, by name."""
    handler, stop, logger = Ports(), threading.Event(), logging.getLogger("carico")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    threads = [threading.Thread(target=run, args=(stop,), name=name) for name, run in processes.items()]
    for thread in threads:
        thread.start()
    try:
        with handler.came:
            assert handler.came.wait_for(lambda: len(handler.ports) == len(processes), PATIENCE_S)
        yield handler.ports
    finally:
        stop.set()
        for thread in threads:
            thread.join(PATIENCE_S)
        logger.removeHandler(handler)
        logger.setLevel(level)


def metrics(port):
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return answer.read().decode()


def run_until(machine, port, *names):
    """Let time pass on a machine until an agent shows metrics."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_S / 0.05)):
        machine.elapse(0.05)
        text = metrics(port)
        if all(f"\n{name}" in text for name in names):
            return
        pause.wait(0.05)
    raise AssertionError(f"{names} never came")


@pytest.fixture(scope="module")
def pages(tmp_path_factory, pki):
    """What every kind of process shows, by its name."""
    folder = tmp_path_factory.mktemp("processes")
    authority = Authority(folder / "nodes", datetime.now(UTC), 365)
    authority.make_ca(NODES_CA_NAME)
    pods = folder / "cgroup" / "kubepods" / "podaaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    pods.mkdir(parents=True)
    (folder / "logs").mkdir()
    machine = FakeProc(folder / "proc")
    agent = AgentConfig(
        node="node-a",
        proc=str(folder / "proc"),
        pod_events=PodEventsConfig(cgroup_root=str(folder / "cgroup"), pod_logs=str(folder / "logs")),
        insecure_loopback=True,
        status=ANY_PROCESS,
        schedulers=("127.0.0.1:1",),
    )
    with ExitStack() as opened:
        cluster = FakeApiServer()
        opened.callback(cluster.close)
        signer = SignerConfig(
            str(authority.folder),
            "carico",
            kubernetes=KubernetesConfig(str(cluster.kubeconfig(folder))),
            status=ANY_PROCESS,
        )
        extender = msgspec.convert(
            {
                "port": 0,
                "report_port": 0,
                "status": {"port": 0},
                "insecure_loopback": True,
                "kubernetes": None,
                "journal": None,
            },
            ExtenderConfig,
        )
        extenders = [
            opened.enter_context(
                ExtenderProcess(msgspec.structs.replace(extender, variant=name), SystemClock(), random.Random(1), None)
            )
            for name in ("thesis-rebased", "demand")
        ]
        ports = opened.enter_context(
            served(
                agent=partial(run_agent, agent),
                demand=partial(run_agent, msgspec.structs.replace(agent, variant="demand")),
                aggregator=partial(
                    run_aggregator, AggregatorConfig(port=0, tls=pki.server("aggregator"), status=ANY_PROCESS)
                ),
                signer=partial(run_signer, signer),
            )
        )
        with pytest.raises(HTTPError):
            urlopen(f"http://127.0.0.1:{extenders[0].port}/nothing", timeout=PATIENCE_S)
        run_until(machine, ports["agent"], "carico_agent_pod_capacity", "carico_agent_usage_ratio")
        run_until(machine, ports["demand"], "carico_agent_demand_cores", "carico_agent_disk_reads")
        return [metrics(port) for port in (*ports.values(), *(each.status_port for each in extenders))]


@pytest.fixture(scope="module")
def exposed(pages):
    """The labels of every metric, by its name; those of counters that have not counted yet are declared below."""
    found = {"carico_extender_released_total": {"reason"}, "carico_aggregator_refused_total": {"why"}}
    for page in pages:
        for family in text_string_to_metric_families(page):
            if family.type == "counter":
                found.setdefault(f"{family.name}_total", set())
            for sample in family.samples:
                if not sample.name.endswith("_created"):
                    found.setdefault(sample.name, set()).update(sample.labels)
    return found


def rules():
    return [rule for group in yaml.safe_load(alerts())["groups"] for rule in group["rules"]]


def panels():
    return [panel for panel in json.loads(dashboard())["panels"] if panel["type"] != "row"]


def queries():
    """Every expression, by where it is."""
    found = {rule["alert"]: rule["expr"] for rule in rules()}
    for panel in panels():
        for target in panel["targets"]:
            found[f"{panel['title']} {target['refId']}"] = target["expr"].replace("$__rate_interval", "5m")
    return found


def parts(expression):
    """The selectors of an expression, and the labels that it groups or joins by."""
    selectors, labels = [], set()

    def visit(part):
        if isinstance(part, promql_parser.VectorSelector):
            selectors.append(part)
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            labels.update(part.modifier.labels)

    promql_parser.walk(promql_parser.parse(expression), visit)
    return selectors, labels


def test_every_expression_is_about_metrics_and_labels_that_exist(exposed):
    for where, expression in queries().items():
        selectors, grouped = parts(expression)
        assert selectors, where
        labels = set()
        for selector in selectors:
            assert selector.name in exposed, f"{where}: no process exposes {selector.name}"
            named = {matcher.name for matcher in selector.matchers.matchers}
            assert named <= exposed[selector.name] | OF_PROMETHEUS, where
            labels |= exposed[selector.name]
        assert grouped <= labels | OF_PROMETHEUS, where


def test_values_of_labels_exist(pages):
    """A typing mistake in {result="failed"} would keep an alert silent for ever."""
    text = "".join(pages)
    for where, expression in queries().items():
        for selector in parts(expression)[0]:
            for matcher in selector.matchers.matchers:
                for value in () if matcher.name == "namespace" else matcher.value.split("|"):
                    assert f'{matcher.name}="{value}"' in text, f"{where}: no process has {matcher.name}={value!r}"


def test_all_metrics_are_on_the_dashboard(exposed):
    assert all(name.startswith("carico_") for name in exposed), "names of others would be counted twice in sums"
    histograms = {name.removesuffix("_bucket") for name in exposed if name.endswith("_bucket")}
    with_their_buckets = {name + part for name in histograms for part in ("_count", "_sum")}
    shown = {
        selector.name
        for panel in panels()
        for target in panel["targets"]
        for selector in parts(target["expr"].replace("$__rate_interval", "5m"))[0]
    }
    assert exposed.keys() - with_their_buckets == shown


def test_panels_can_be_read():
    board = json.loads(dashboard())
    assert [variable["type"] for variable in board["templating"]["list"]] == ["datasource", "query"]
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in panels():
        assert panel["description"].endswith("."), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    places = [(each["gridPos"]["x"], each["gridPos"]["y"]) for each in board["panels"]]
    assert len(set(places)) == len(places)


def test_every_alert_says_what_to_do_and_is_explained():
    page = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert set(rule["annotations"]) == {"summary", "description"}
        assert f"`{rule['alert']}`" in page, f"{rule['alert']} is not explained in docs/how-to/monitor.md"


def test_every_metric_is_explained(exposed):
    page = (ROOT / "docs/how-to/monitor.md").read_text(encoding="utf-8")
    for name in {name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum") for name in exposed}:
        assert f"`{name}`" in page, f"{name} is not explained in docs/how-to/monitor.md"


@pytest.mark.skipif(
    PROMTOOL is None, reason="promtool is not on PATH; github.com/prometheus/prometheus/cmd/promtool has its source"
)
def test_alerts_are_raised_when_they_should_and_only_then(tmp_path):
    cases = tmp_path / "alerts.test.yaml"
    shutil.copy(Path(__file__).parent / "alerts.test.yaml", cases)
    (tmp_path / "alerts.yaml").write_text(alerts(), encoding="utf-8")
    for command in (["check", "rules", "alerts.yaml"], ["test", "rules", cases.name]):
        done = subprocess.run([PROMTOOL, *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_operator_gets_the_same_and_scrapes_ports_that_pods_have():
    monitor, rule, grafana = operator_objects("elsewhere")
    assert rule["spec"] == yaml.safe_load(alerts())
    assert grafana["data"] == {"carico.json": dashboard()}
    assert {each["metadata"]["namespace"] for each in (monitor, rule, grafana)} == {"elsewhere"}
    templates = [thing["spec"]["template"] for thing in manifests(Choices()) if "template" in thing.get("spec", {})]
    ports = {port["name"] for each in templates for one in containers(each) for port in one.get("ports", ())}
    assert {each["port"] for each in monitor["spec"]["podMetricsEndpoints"]} == {"status", "signer-status"} <= ports
    wanted = monitor["spec"]["selector"]["matchLabels"].items()
    assert all(wanted <= each["metadata"]["labels"].items() for each in templates)


@pytest.mark.parametrize(
    ("what", "file"), [("alerts", "alerts.yaml"), ("dashboard", "dashboard.json")], ids=["alerts", "dashboard"]
)
def test_the_command_prints_the_files(what, file, capsys):
    assert main(["monitoring", what]) == 0
    assert capsys.readouterr().out == (files("carico") / "manifests/monitoring" / file).read_text(encoding="utf-8")


def test_the_command_prints_objects(capsys):
    assert main(["monitoring", "operator", "--namespace", "elsewhere"]) == 0
    assert list(yaml.safe_load_all(capsys.readouterr().out)) == operator_objects("elsewhere")
