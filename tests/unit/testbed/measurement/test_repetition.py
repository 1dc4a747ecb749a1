"""A repetition is put together from pods and series: completion times and data items follow from them."""

from testbed.measurement.repetition import repetition_of
from testbed.results.schema import DataItem, PodResult
from testbed.schedulers.spec import parse_spec
from workloads.scenario import JobSpec, Scenario

LATER = JobSpec(name="later", workload="pi", pods=2, start_s=10.0)
SCENE = JobSpec(name="scene", workload="pi", pods=1, disturbance=True)
SCENARIO = Scenario("small", "a test's", [LATER, SCENE])


def pod(job, finished_s):
    return PodResult("a", job, "node-0", 10.0, 10.1, 10.1234567, finished_s, "succeeded")


def measured(pods, **more):
    return repetition_of(SCENARIO, parse_spec("carico"), 3, settings={"speed": 2}, pods=pods, nodes=[], **more)


def test_a_job_completes_with_its_last_pod_counted_from_its_publication():
    pods = [pod("later", 17.0), pod("later", 15.0), pod("scene", 99.0)]
    assert measured(pods).job_completion_time_s == {"later": 7.0}
    assert measured(pods, published_s={"later": 11.0}).job_completion_time_s == {"later": 6.0}
    assert measured(pods[1:]).job_completion_time_s == {"later": None}


def test_times_are_rounded_to_microseconds():
    (one,) = measured([pod("later", None)]).pods
    assert (one.started_s, one.finished_s) == (10.123457, None)


def test_items_of_the_provider_come_last():
    own = DataItem({"value": 0.1}, "share", {"metric": "own"})
    items = measured([pod("later", 17.0)], more_items=[own]).data_items
    assert items[0].labels["metric"] == "pod_completion_time"
    assert items[-1] == own


def test_the_settings_say_what_the_scenario_is():
    settings = measured([]).settings
    assert (settings["speed"], settings["nodes"]) == (2, 19)
    assert [job["name"] for job in settings["jobs"]] == ["later", "scene"]
