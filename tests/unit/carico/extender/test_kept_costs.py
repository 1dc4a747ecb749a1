"""What workloads cost, kept in a ConfigMap, over HTTP: nothing is lost, and nothing depends on it."""

import json
import logging
import threading

import kubernetes.client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.checkpoint import as_text
from carico.demand.memory import MOST_WORKLOADS
from carico.errors import InvalidState
from carico.extender import kept_costs
from carico.extender.kept_costs import KEY, MOST_BYTES, OWNER, KeptCosts, Leadership, fitting
from carico.kube.client import KubeClient
from tests.kits.fake_api_server import FakeApiServer

CONFIG_MAP = "/api/v1/namespaces/carico/configmaps/carico-costs"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/carico/leases/carico-kube-scheduler"
REPLICA = "carico-scheduler-1"
PI = [0.5, 0.01, 20.0, 0.0]


class Costs:
    """What an extender remembers, here by name only."""

    def __init__(self, **known):
        self.known = known

    def state(self):
        return {"cpu": dict(self.known), "memory": {}, "requests": {}, "at_unix_s": 1e9}

    def restore(self, state):
        if "damaged" in state["cpu"]:
            raise InvalidState("the saved state is damaged; delete it")
        self.known = state["cpu"] | self.known


@pytest.fixture
def server():
    server = FakeApiServer()
    server.put(CONFIG_MAP, metadata={"name": "carico-costs", "resourceVersion": "7"})
    lead(server, REPLICA)
    yield server
    server.close()


@pytest.fixture
def api(server):
    client = KubeClient(kubernetes.client.Configuration(host=server.url), connect_s=2, silence_s=2.0)
    yield client
    client.close()


def lead(server, replica):
    number = int(server.objects.get(LEASE, {"spec": {"renewTime": "0"}})["spec"]["renewTime"]) + 1
    server.put(LEASE, spec={"holderIdentity": f"{replica}_uid", "renewTime": str(number)})


def kept(api, costs, replica=REPLICA, lease="carico-kube-scheduler"):
    return KeptCosts(api, "carico", "carico-costs", costs, "demand", Leadership(api, "carico", lease, replica))


def run(server, keeper, times=0):
    """Run from the start to the end, with a number of minutes between."""

    class Stop(threading.Event):
        left = times

        def wait(self, timeout=None):
            lead(server, REPLICA)
            self.left -= 1
            return self.left < 0

    keeper.run(Stop())


def on_the_server(server):
    text = server.objects[CONFIG_MAP].get("data", {}).get(KEY)
    return None if text is None else json.loads(text)["state"]["cpu"]


def put(server, text):
    server.objects[CONFIG_MAP]["data"] = {KEY: text}


def test_the_next_pod_knows_what_the_one_before_had_learned(server, api):
    run(server, kept(api, Costs(pi=PI)))
    after = Costs()
    run(server, kept(api, after))
    assert after.known == {"pi": PI}


def test_what_is_learned_here_and_what_was_kept_are_joined(server, api):
    run(server, kept(api, Costs(pi=PI)))
    run(server, kept(api, Costs(web=PI)), times=3)
    assert on_the_server(server) == {"pi": PI, "web": PI}


@pytest.mark.parametrize(
    "failing", [{"statuses": [503]}, {"statuses": [403]}, {"refuse": {("GET", "costs"): (500, "no")}}]
)
def test_a_memory_that_could_not_be_read_is_not_written_over(server, api, caplog, failing):
    put(server, as_text("demand", Costs(pi=PI).state(), owner=OWNER))
    vars(server).update(failing)
    mine = Costs(web=PI)
    run(server, kept(api, mine), times=2)
    found = on_the_server(server)
    assert found == ({"pi": PI} if "refuse" in failing else {"pi": PI, "web": PI})
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1
    assert (
        "a new pod would not know what workloads cost, because the ConfigMap carico/carico-costs cannot be used"
        in caplog.text
    )


def test_an_api_server_that_comes_back_is_written_to(server, api, caplog):
    caplog.set_level(logging.INFO)
    server.refuse = {("PATCH", "costs"): (503, "busy")}
    keeper = kept(api, Costs(pi=PI))
    run(server, keeper, times=2)
    assert on_the_server(server) is None
    server.refuse = {}
    run(server, keeper)
    assert on_the_server(server) == {"pi": PI}
    assert "can be used again" in caplog.text


def test_a_missing_config_map_is_said_once(server, api, caplog):
    del server.objects[CONFIG_MAP]
    run(server, kept(api, Costs(pi=PI)), times=3)
    assert len(caplog.records) == 1
    assert "run `carico deploy` again, it makes the ConfigMap" in caplog.text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[" * 100_000,
        as_text("demand", Costs(pi=PI).state(), owner=OWNER).replace("0.5", "0.6"),
        as_text("thesis-rebased", Costs(pi=PI).state(), owner=OWNER),
        as_text("demand", Costs(pi=PI).state(), owner="node-3"),
        as_text("demand", Costs(damaged=PI).state(), owner=OWNER),
    ],
)
def test_damaged_content_is_said_once_and_replaced(server, api, caplog, text):
    put(server, text)
    run(server, kept(api, Costs(web=PI)), times=3)
    assert len(caplog.records) == 1
    assert "starting without the costs in a ConfigMap, which the leader will replace" in caplog.text
    assert on_the_server(server) == {"web": PI}


def test_no_replica_undoes_what_another_one_wrote(server, api):
    """Both believe to lead, as for a moment when the leader changes."""
    one, other = kept(api, Costs(pi=PI)), kept(api, Costs(web=PI))
    for each in (one, other, one):
        lead(server, REPLICA)
        each.keep()
    assert on_the_server(server) == {"pi": PI, "web": PI}
    assert server.objects[CONFIG_MAP]["metadata"]["resourceVersion"] != "7"


def test_who_changes_other_things_about_the_config_map_costs_nothing(server, api):
    keeper = kept(api, Costs(pi=PI))
    keeper.keep()
    server.objects[CONFIG_MAP]["metadata"] |= {"resourceVersion": "9", "annotations": {"of": "somebody"}}
    lead(server, REPLICA)
    keeper.keep()
    assert on_the_server(server) == {"pi": PI}
    assert server.objects[CONFIG_MAP]["metadata"]["annotations"] == {"of": "somebody"}


class TestWrites:
    """Most minutes bring no news; each write would wake whoever watches ConfigMaps, and change the cluster's state."""

    @pytest.fixture
    def keeper(self, server, api):
        keeper = kept(api, Costs(pi=PI))
        self.minute(server, keeper)
        return keeper

    def minute(self, server, keeper, at_end=False):
        before = len(server.changes)
        lead(server, REPLICA)
        keeper.keep(at_end)
        return len(server.changes) - before

    def test_nothing_if_nothing_is_new(self, server, keeper):
        keeper._costs.known = {"pi": [0.51, 0.012, 19.9, 0.0]}
        assert [self.minute(server, keeper) for _ in range(3)] == [0, 0, 0]

    @pytest.mark.parametrize(
        "known",
        [
            {"pi": PI, "web": PI},
            {},
            {"pi": [0.54, 0.01, 20.0, 0.0]},
            {"pi": [0.5, 0.021, 20.0, 0.0]},
            {"pi": [0.5, 0.01, 18.0, 0.0]},
            {"pi": [0.5, 0.01, 20.0, 3601.0]},
        ],
    )
    def test_what_is_new_once(self, server, keeper, known):
        keeper._costs.known = known
        assert [self.minute(server, keeper) for _ in range(3)] == [1, 0, 0]
        assert on_the_server(server) == known

    def test_small_changes_once_they_add_up(self, server, keeper):
        written = 0
        for step in range(20):
            keeper._costs.known = {"pi": [0.5 + 0.005 * step, 0.01, 20.0, 0.0]}
            written += self.minute(server, keeper)
        assert 2 <= written <= 4
        assert on_the_server(server)["pi"][0] == pytest.approx(0.595, rel=kept_costs.CHANGE)

    def test_everything_at_the_end(self, server, keeper):
        keeper._costs.known = {"pi": [0.51, 0.01, 20.0, 0.0]}
        assert self.minute(server, keeper, at_end=True) == 1
        assert on_the_server(server) == keeper._costs.known

    def test_nothing_after_reading_what_is_known_anyway(self, server, api, keeper):
        assert self.minute(server, kept(api, Costs())) == 0


class TestTheLeader:
    def writes(self, api, server, replica, lease="carico-kube-scheduler"):
        before = len(server.changes)
        kept(api, Costs(pi=PI), replica, lease).keep()
        return len(server.changes) > before

    def test_alone_writes(self, api, server):
        assert self.writes(api, server, "carico-scheduler-1")
        assert not self.writes(api, server, "carico-scheduler-0")
        assert not self.writes(api, server, "carico-scheduler-10")

    def test_is_the_first_replica_if_nothing_is_scheduled(self, api, server):
        del server.objects[LEASE]
        assert self.writes(api, server, "carico-scheduler-0")
        assert not self.writes(api, server, "carico-scheduler-1")

    def test_is_nobody_who_does_not_renew_the_lease(self, api, server):
        first = Leadership(api, "carico", "carico-kube-scheduler", "carico-scheduler-0")
        assert not first.leads()
        assert first.leads(), "nobody has renewed it since"
        lead(server, REPLICA)
        assert not first.leads()

    def test_is_everybody_without_a_lease(self, api, server):
        del server.objects[LEASE]
        assert self.writes(api, server, "anybody", lease=None)


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1, max_size=300)
numbers = st.floats(0, 1e9)
known = st.dictionaries(names, st.tuples(numbers, numbers, numbers, numbers).map(list), max_size=12)
requests = st.dictionaries(names, st.tuples(numbers | st.none(), numbers | st.none()).map(list), max_size=12)


@given(known, known, requests, st.integers(100, 5000))
def test_what_does_not_fit_is_what_has_not_run_for_longest(cpu, memory, asked, most):
    state = {"cpu": cpu, "memory": memory, "requests": asked, "at_unix_s": 1e9}
    kept = fitting(state, most)
    assert kept.keys() == state.keys()
    assert len(json.dumps(kept)) <= most
    idle_s = {name: min(part[name][3] for part in (cpu, memory) if name in part) for name in cpu | memory}
    left = kept["cpu"] | kept["memory"]
    lost = idle_s.keys() - left.keys()
    assert max((idle_s[name] for name in left), default=0) <= min((idle_s[name] for name in lost), default=1e9)
    assert fitting(kept, most) == kept, "what was short enough stays as it is"


def test_thousands_of_workloads_fit_and_the_rest_is_left_out():
    learned = {
        f"namespace-{number}/container-{number}-0a1b2c3d": [0.123456, 0.00123456, 20.0, float(number)]
        for number in range(MOST_WORKLOADS)
    }
    text = as_text("demand", fitting({"cpu": learned, "memory": learned, "at_unix_s": 1e9}, MOST_BYTES), owner=OWNER)
    assert 0.9 * MOST_BYTES < len(text) < 1 << 20
    kept = json.loads(text)["state"]["cpu"]
    assert len(kept) > 4000
    assert max(values[3] for values in kept.values()) == len(kept) - 1


def test_the_constants_fit_together():
    assert kept_costs.END_S + 5 < 10, "less than the pod's grace, with the journal's end"
