"""CARICO begins every repetition without what it learned before, whatever was deployed and saved until then."""

from types import SimpleNamespace

import kubernetes.client
import pytest

from carico.kube.client import KubeClient
from carico.testing import ManualClock
from testbed.real.api import ClusterApi
from testbed.real.carico import DeployedCarico
from tests.kits.fake_api_server import FakeApiServer

AGENTS = "/apis/apps/v1/namespaces/carico/daemonsets/carico-agent"
SCHEDULERS = "/apis/apps/v1/namespaces/carico/statefulsets/carico-scheduler"
COSTS = "/api/v1/namespaces/carico/configmaps/carico-costs"


class AgileServer(FakeApiServer):
    """A server whose pods are ready, or gone, at once."""

    def put(self, path, **content):
        super().put(path, **content)
        thing = self.objects[path]
        if path.rpartition("/")[0].endswith(("/daemonsets", "/statefulsets")):
            thing["status"] = {
                "observedGeneration": 1,
                "desiredNumberScheduled": 1,
                "updatedNumberScheduled": 1,
                "numberReady": 1,
                "readyReplicas": 2,
            }
            thing["metadata"]["generation"] = 1


class Machines:
    """Notes how many changes the API server had taken when a command ran."""

    def __init__(self, server):
        self._server = server
        self.removed_after = []

    def provided_image(self, cluster, name):
        return "carico:tried"

    def run_on_nodes(self, cluster, *command):
        assert command == ("rm", "-f", "/var/lib/carico/state.json")
        self.removed_after.append(len(self._server.changes))


@pytest.fixture
def server():
    server = AgileServer()
    server.put("/api/v1/nodes/node-a")
    yield server
    server.close()


@pytest.fixture
def machines(server):
    return Machines(server)


@pytest.fixture
def begin(server, machines, monkeypatch):
    client = KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=5.0)
    api = ClusterApi(client)
    monkeypatch.setattr(api, "version", lambda: "v1.34.4+tried")
    status = SimpleNamespace(nodes=[SimpleNamespace(name="node-a", stale=False)])
    monkeypatch.setattr("testbed.real.carico.read_status", lambda *_: status)
    monkeypatch.setattr("testbed.real.waiting.POLL_S", 0.02)
    cluster = SimpleNamespace(api=api)
    made = {}

    def begin(variant="demand", **options):
        carico = made.setdefault(tuple(options), DeployedCarico(machines, ManualClock(), **options))
        carico.begin(cluster, variant, {"node-a": "node-00"})
        return server.objects

    yield begin
    api.close()


def test_a_first_deployment_finds_no_checkpoint_and_is_not_restarted(begin, server, machines):
    begin()
    assert machines.removed_after == [0]
    assert [change.path for change in server.changes].count(SCHEDULERS) == 1


def test_costs_that_ending_schedulers_have_saved_are_removed_before_others_start(begin, server, machines):
    begin()
    server.objects[COSTS]["data"] = {"costs.json": "of the repetition before"}
    before = len(server.changes)
    objects = begin()
    assert not objects[COSTS].get("data")
    later = [(change.path, change.body) for change in server.changes[before:]]
    ended = later.index((SCHEDULERS, {"spec": {"replicas": 0}}))
    begun = later.index((SCHEDULERS, {"spec": {"replicas": 2}}))
    assert ended < later.index((COSTS, {"data": None})) < begun
    assert ended < machines.removed_after[-1] - before <= begun
    assert objects[SCHEDULERS]["spec"]["replicas"] == 2


def test_the_thesiss_variants_forget_what_aggregation_servers_know(begin, server):
    begin("thesis-rebased")
    before = len(server.changes)
    begin("thesis-rebased")
    changed = [change.path for change in server.changes[before:]]
    assert SCHEDULERS.replace("scheduler", "aggregator") in changed
    assert SCHEDULERS not in changed


def test_another_variant_is_deployed_and_forgets_too(begin, server, machines):
    begin("thesis-rebased")
    begin("thesis-literal")
    configuration = server.objects["/api/v1/namespaces/carico/configmaps/carico-agent"]["data"]["agent.yaml"]
    assert "variant: thesis-literal" in configuration
    assert len(machines.removed_after) == 2


def test_emulated_machines_get_one_replica_and_patient_probes(begin, server):
    spec = begin("thesis-rebased", patience=5.0)[SCHEDULERS]["spec"]
    assert spec["replicas"] == 1
    (extender,) = [each for each in spec["template"]["spec"]["containers"] if each["name"] == "extender"]
    usual = {"timeoutSeconds": 5, "failureThreshold": 3}
    assert {limit: extender["livenessProbe"][limit] for limit in usual} == {
        limit: 5 * value for limit, value in usual.items()
    }
