"""An agent's sources, as its configuration names them; the API server is a fake one over real HTTP."""

import pytest

from carico.agent.sources import NodeSources
from carico.config import AgentConfig, KubernetesConfig, PodEventsConfig
from carico.errors import InvalidConfig, KubeRefused, TelemetryMalformed
from carico.model.variants import THESIS_REBASED, UTILISATION_ONLY
from carico.telemetry.metrics_poll import MetricsPoll
from carico.testing import FakeProc, ManualClock
from tests.kits.fake_api_server import FakeApiServer, pod

METRICS = "/apis/metrics.k8s.io/v1beta1/nodes/node-1"


@pytest.fixture
def server():
    server = FakeApiServer()
    server.put("/api/v1/nodes/node-1", status={"allocatable": {"cpu": "4", "memory": "8Gi"}})
    server.put(METRICS, timestamp="t0", window="15s", usage={"cpu": "1", "memory": "2Gi"})
    yield server
    server.close()


@pytest.fixture
def kubernetes(server, tmp_path):
    return KubernetesConfig(str(server.kubeconfig(tmp_path)))


def sources(**config):
    return NodeSources(AgentConfig(**config), "node-1", ManualClock())


def test_procfs_by_default(tmp_path):
    FakeProc(tmp_path)
    with sources(proc=str(tmp_path)).telemetry() as telemetry:
        assert telemetry.read().memory_total == 2**34
    assert sources().variant(THESIS_REBASED) == THESIS_REBASED


class TestMetricsServer:
    @pytest.fixture
    def config(self, kubernetes):
        return {"telemetry": "metrics-server", "kubernetes": kubernetes, "variant": "utilisation-only"}

    def test_a_node_on_which_nothing_is_installed(self, config):
        with sources(**config).telemetry() as telemetry:
            reading = telemetry.read()
        assert (reading.cpu_idle / reading.cpu_total, reading.memory_total) == (0.75, 8 * 2**30)

    def test_it_is_blind_after_three_periods_only(self, config):
        assert sources(**config, metrics_period_s=20.0).variant(UTILISATION_ONLY).blind_after_s == 60.0

    def test_a_variant_that_learns_from_pressure_is_refused(self, config):
        with pytest.raises(InvalidConfig, match="use the variant utilisation-only"):
            sources(**config).variant(THESIS_REBASED)

    def test_a_cluster_without_one_says_so(self, config, server):
        server.put(METRICS, usage={})
        with (
            pytest.raises(TelemetryMalformed, match="node-1 is not a NodeMetrics"),
            sources(**config).telemetry() as telemetry,
        ):
            telemetry.read()
        server.statuses = [404]
        with pytest.raises(KubeRefused, match="404"):
            sources(**config).telemetry()

    def test_while_it_does_not_answer_the_latest_stays(self, caplog):
        answers = iter([{"a": 1}, KubeRefused("the Kubernetes API answered 503: busy", 503), {"b": 2}])

        def ask():
            answer = next(answers, {"b": 2})
            if isinstance(answer, Exception):
                raise answer
            return answer

        poll = MetricsPoll(ask, period_s=0.001)
        while poll.latest() != {"b": 2}:
            pass
        poll.close()
        assert "503" in caplog.text


class TestPodEvents:
    @pytest.fixture
    def changes(self):
        return []

    def test_the_api_server_knows_which_pods_count(self, kubernetes, server, changes):
        server.set_pods(pod("a", node="node-1", phase="Running"), pod("b", node="node-1", phase="Succeeded"))
        events = sources(kubernetes=kubernetes, pod_events=PodEventsConfig(source="kubernetes")).pod_events()
        events.start(changes.append)
        assert [told.pod for told in changes] == ["jobs/a"]
        assert server.asked[0].query["fieldSelector"] == "spec.nodeName=node-1"
        events.close()

    @pytest.mark.parametrize(("logs", "counted"), [(True, ["jobs/pod"]), (False, ["", ""])])
    def test_control_groups_and_the_folders_of_logs(self, tmp_path, changes, logs, counted):
        uids = [f"{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}" for digit in "ab"]
        for namespace, uid in zip(["kube-system", "jobs"], uids, strict=True):
            tmp_path.joinpath("kubepods", f"pod{uid}").mkdir(parents=True)
            tmp_path.joinpath("pods", f"{namespace}_pod_{uid}").mkdir(parents=True)
        config = PodEventsConfig(cgroup_root=str(tmp_path), pod_logs=str(tmp_path / "pods") if logs else None)
        events = sources(pod_events=config).pod_events()
        events.start(changes.append)
        assert [told.pod for told in changes] == counted
        events.close()

    def test_with_names_a_control_group_counts_once_it_has_a_container(self, tmp_path, changes):
        uid = "-".join("a" * length for length in (8, 4, 4, 4, 12))
        tmp_path.joinpath("kubepods", f"pod{uid}").mkdir(parents=True)
        folder = tmp_path.joinpath("pods", f"jobs_pod_{uid}")
        folder.mkdir(parents=True)
        config = PodEventsConfig(cgroup_root=str(tmp_path), pod_logs=str(tmp_path / "pods"))
        for started in (False, True):
            if started:
                folder.joinpath("pi").mkdir()
            events = sources(pod_events=config).pod_events(named=True)
            events.start(changes.append)
            assert [told.pod for told in changes] == ["jobs/pod"] * started
            events.close()

    @pytest.mark.parametrize(
        ("config", "remedy"),
        [
            (PodEventsConfig(source="processes", pattern="pi"), "use the source cgroup"),
            (PodEventsConfig(pod_logs=None), "got pod_logs: null: give the folder"),
        ],
    )
    def test_a_source_that_knows_no_names_is_refused_where_they_are_needed(self, config, remedy):
        with pytest.raises(InvalidConfig, match=f"pod_events: the variant demand must tell pods apart.*{remedy}"):
            sources(pod_events=config).pod_events(named=True)
        sources(pod_events=config).pod_events().close()

    @pytest.mark.parametrize("source", ["containerd", "kubernetes"])
    def test_sources_that_always_know_names_need_nothing_else(self, kubernetes, source):
        config = PodEventsConfig(source=source, pod_logs=None)
        sources(kubernetes=kubernetes, pod_events=config).pod_events(named=True).close()
