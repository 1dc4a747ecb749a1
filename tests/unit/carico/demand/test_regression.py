"""The regression of demand on pods, against Bayesian least squares of all observations at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.demand.regression import BASELINE_VARIANCE, MOST_WORKLOADS, Estimate, Regression

FIRST = Estimate(1.0, 0.8)
NOISE = 0.3

observations = st.lists(st.tuples(st.floats(0, 8), st.floats(0, 8), st.floats(0, 20)), min_size=1, max_size=10)


def regression(first=FIRST, noise=NOISE, drift=0.0, fade_s=1e12):
    return Regression(first, noise, drift, fade_s)


@given(observations)
def test_it_is_bayesian_least_squares_of_all_observations(observations):
    learned = regression()
    for pi, web, demand in observations:
        learned.advance(1.0)
        learned.learn({"pi": pi, "web": web}, demand)
    design = np.array([(1.0, pi, web) for pi, web, _ in observations])
    seen = np.array([demand for *_, demand in observations])
    prior = np.diag([1 / BASELINE_VARIANCE, 1 / FIRST.variance, 1 / FIRST.variance])
    covariance = np.linalg.inv(prior + design.T @ design / NOISE**2)
    mean = covariance @ (prior @ [0.0, FIRST.mean, FIRST.mean] + design.T @ seen / NOISE**2)
    assert learned.baseline == pytest.approx((mean[0], covariance[0, 0]), rel=1e-4, abs=1e-6)
    for row, name in enumerate(("pi", "web"), 1):
        assert learned.cost(name) == pytest.approx((max(mean[row], 0.0), covariance[row, row]), rel=1e-4, abs=1e-6)
    wanted = np.array([1.0, 3.0, 2.0])
    expected = (wanted @ mean, wanted @ covariance @ wanted)
    assert learned.demand({"pi": 3, "web": 2}) == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_an_unknown_workload_is_what_is_assumed_and_its_pods_are_alike():
    learned = regression()
    learned.learn({}, 0.5)
    assert learned.cost("new") == FIRST
    mean, variance = learned.demand({"new": 3})
    assert mean == pytest.approx(0.5 + 3 * FIRST.mean, rel=1e-3)
    assert variance == pytest.approx(9 * FIRST.variance + learned.baseline.variance)


def test_what_was_learned_fades_to_what_is_assumed():
    learned = regression(fade_s=100.0)
    for pods in (0, 4) * 10:
        learned.learn({"pi": pods}, 0.5 * pods)
    assert learned.cost("pi").mean == pytest.approx(0.5, abs=0.01)
    learned.advance(100.0)
    kept = np.exp(-1)
    assert learned.cost("pi").mean == pytest.approx(kept * 0.5 + (1 - kept) * FIRST.mean, abs=0.01)
    assert learned.cost("pi").variance == pytest.approx((1 - kept**2) * FIRST.variance, rel=0.02)
    learned.advance(1e4)
    assert learned.cost("pi") == pytest.approx(FIRST)
    learned.forget()
    assert learned.workloads == []


def test_what_pods_demand_by_themselves_corrects_the_baseline_too():
    learned = regression(noise=0.01)
    learned.learn({"web": 2}, 5.0)
    before = learned.cost("web")
    learned.learn_cost("web", 2.0, noise=0.5)
    precision = 1 / before.variance + 1 / 0.5**2
    expected = (before.mean / before.variance + 2.0 / 0.5**2) / precision, 1 / precision
    assert learned.cost("web") == pytest.approx(expected)
    assert learned.baseline.mean == pytest.approx(5.0 - 2 * learned.cost("web").mean, abs=0.01)
    assert learned.demand({"web": 2}).mean == pytest.approx(5.0, abs=0.01), "that was known"


def test_what_pods_demand_by_themselves_is_taken_in_for_a_new_workload():
    learned = regression()
    learned.learn_cost("web", 0.2, noise=0.01)
    assert learned.cost("web").mean == pytest.approx(0.2, abs=0.01)


def test_a_demand_is_exposed_to_the_costs_of_pods_that_were_not_observed_yet():
    learned = regression()
    assert learned.exposure({"new": 3}) == {"new": 3}, "they count as what is assumed"
    learned.learn({"pi": 2}, 2.5)
    assert learned.exposure({"pi": 2})["pi"] < 0.1, "what the node demands with them was observed"
    assert learned.exposure({"pi": 3})["pi"] == pytest.approx(1.0, abs=0.2), "the third one was not"
    assert learned.exposure({"pi": 3, "new": 1})["new"] == 1


@given(observations, st.floats(0, 8), st.floats(0, 8))
def test_a_demand_is_exposed_to_no_more_pods_than_there_are(observations, pi, web):
    learned = regression(drift=0.05, fade_s=300.0)
    for more, others, demand in observations:
        learned.advance(1.0)
        learned.learn({"pi": more, "web": others}, demand)
    exposed = learned.exposure({"pi": pi, "web": web})
    assert 0 <= exposed["pi"] <= pi
    assert 0 <= exposed["web"] <= web


def test_an_observation_may_be_doubted_more_than_others():
    doubted, usual = regression(), regression()
    for each, extra_variance in ((doubted, 1.0), (usual, 0.0)):
        each.learn({}, 0.5)
        each.learn({"pi": 1}, 0.5, extra_variance=extra_variance)
    assert usual.cost("pi").variance < 0.2 < doubted.cost("pi").variance


def test_a_censored_observation_teaches_only_upwards():
    learned = regression()
    for _ in range(20):
        learned.learn({"pi": 0}, 0.0)
        learned.learn({"pi": 4}, 6.0)
    before = learned.cost("pi")
    learned.learn({"pi": 8}, 7.9, censored=True)
    assert learned.cost("pi") == before, "more may be demanded than is seen"
    learned.learn({"pi": 4}, 7.9, censored=True)
    assert learned.cost("pi").mean > before.mean


def test_the_baseline_strays_no_further_than_not_to_be_known():
    learned = regression(drift=1.0)
    learned.learn({}, 0.2)
    learned.advance(1e9)
    assert learned.baseline.variance == BASELINE_VARIANCE


def test_a_node_tells_so_many_workloads_apart_and_the_least_known_gives_way():
    learned = regression()
    for pods in (0, 1) * 50:
        learned.learn({"known": pods}, 2.0 * pods)
    for number in range(3 * MOST_WORKLOADS):
        learned.learn({f"passing-{number}": 1}, 1.0)
    assert len(learned.workloads) <= MOST_WORKLOADS
    assert learned.cost("known").mean == pytest.approx(2.0, abs=0.1)


def test_more_workloads_at_once_than_are_told_apart_count_as_assumed():
    learned = regression()
    for _ in range(50):
        learned.learn({}, 0.5)
    running = {f"job-{number}": 1 for number in range(MOST_WORKLOADS + 20)}
    for _ in range(50):
        learned.learn(running, 0.5 + 1.0 * len(running))
    assert len(learned.workloads) == MOST_WORKLOADS
    assert learned.demand(running).mean == pytest.approx(0.5 + len(running), rel=0.05)
    assert learned.demand({}).mean == pytest.approx(0.5, abs=0.5), (
        "the others are not taken for the empty node's demand"
    )
