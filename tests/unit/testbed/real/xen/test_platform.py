"""Scenarios on Xen guests: what is refused before guests are made, and what is prepared on them."""

from types import SimpleNamespace

import msgspec
import pytest

from carico.testing import ManualClock
from testbed.errors import ClusterError, InvalidSetting, UsageError
from testbed.real.xen.description import XenApiHost
from testbed.real.xen.platform import XenPlatform
from testbed.schedulers.spec import parse_spec
from workloads.scenario import ClusterShape, JobSpec, Scenario


class FakeCarico:
    """Records the calls of a `DeployedCarico`."""

    def __init__(self):
        self.done = []

    def __getattr__(self, name):
        return lambda cluster, *arguments: self.done.append((name, *arguments))


def scenario(nodes=1, **job):
    shape = ClusterShape(nodes=nodes)
    return Scenario("tried", "a trial", [JobSpec(**{"name": "pi", "workload": "pi", "pods": 2} | job)], shape)


@pytest.fixture
def platform(made):
    def new(count=3, **fields):
        platform = XenPlatform(made(count, **fields).maker, ManualClock())
        platform._carico = FakeCarico()
        return platform

    return new


@pytest.fixture
def cluster():
    cordoned = {}
    api = SimpleNamespace(cordon=cordoned.__setitem__)
    return SimpleNamespace(name="carico-xen-run-1", api=api, cordoned=cordoned)


@pytest.mark.parametrize(
    ("wanted", "scheduler", "settings", "error", "said"),
    [
        (scenario(nodes=3), "kube-scheduler", {}, UsageError, "wants 3 nodes, the description has 2 guests for pods"),
        (scenario(work=[1.0, 2.0]), "kube-scheduler", {}, UsageError, "leave out `work`"),
        (scenario(), "carico:variant=thesis-rebased,hold_off_s=3", {}, UsageError, "agents on xen take a named"),
        (scenario(), "carico", {"agents": "false"}, UsageError, "cannot work without agents"),
        (
            scenario(),
            "carico",
            {"agent": "false"},
            InvalidSetting,
            "settings of the provider xen: there is no field 'agent', did you mean 'agents'. Known: agents",
        ),
        (scenario(), "kube-scheduler:cpu=1500m", {}, UsageError, "1500"),
    ],
)
def test_what_the_guests_cannot_run_is_refused(platform, wanted, scheduler, settings, error, said):
    with pytest.raises(error, match=said):
        platform().check(wanted, parse_spec(scheduler), settings)


def test_results_have_the_guests_size_and_that_they_are_emulated(platform):
    setup = platform(emulated=True, guests={"cores": 2, "cap": 150}).check(scenario(), parse_spec("carico"), {})
    wanted = {
        "cores": None,
        "memory": None,
        "guest_cores": 2,
        "guest_memory": "1Gi",
        "guest_cap": 150,
        "emulated": True,
    }
    assert {name: setup.settings[name] for name in wanted} == wanted


def test_results_of_a_pool_say_nothing_of_what_its_template_settles(platform):
    under_test = platform()
    pool = XenApiHost("https://pool")
    under_test._maker._description = msgspec.structs.replace(under_test._maker.description, host=pool)
    assert under_test.check(scenario(), parse_spec("carico"), {}).settings["guest_type"] is None


def test_workers_that_are_not_needed_are_cordoned_and_pods_run_from_the_guests_images(platform, cluster):
    under_test = platform()
    setup = under_test.check(scenario(), parse_spec("carico:variant=thesis-literal"), {"warm_up_s": "5"})
    prepared = setup.prepare(cluster)
    assert prepared.names == {"carico-xen-run-1-1": "node-0"}
    assert cluster.cordoned == {"carico-xen-run-1-1": False, "carico-xen-run-1-2": True}
    assert [done[0] for done in under_test._carico.done] == ["begin", "telemetry"]
    assert under_test._carico.done[0][:2] == ("begin", "thesis-literal")
    (container,) = prepared.template(setup.scenario.jobs[0], [1.0])["spec"]["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("carico.local/workloads:2", "Never")


def test_an_image_that_the_guests_lack_is_named(platform, cluster):
    setup = platform().check(scenario(workload="mlp"), parse_spec("carico"), {})
    with pytest.raises(ClusterError, match=r"no image workloads-sklearn, it has .*carico-testbed images guest"):
        setup.prepare(cluster)
