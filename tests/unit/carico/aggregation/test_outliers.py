"""Which nodes are far from the others in what they exchange."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from carico.aggregation.outliers import ExchangeOutliers
from carico.model.subspace import Subspace
from carico.outliers import LASTING_S


def subspace(*usage):
    return Subspace.from_batch(np.tile(np.reshape(usage, (-1, 1)), 10))


def outliers_among(usages, rates=None, seconds=LASTING_S + 10):
    """Whom everybody is told of, where each node shows such a usage, and exchanges so often in five seconds."""
    outliers, told = ExchangeOutliers(), []
    for second in np.arange(0.0, seconds, 5.0):
        for node, usage in usages.items():
            for _ in range((rates or {}).get(node, 1)):
                outliers.note(node, subspace(*usage))
        told += outliers.look(float(second) + 5.0)
    return [(each.node, each.about, round(each.says, 2), round(each.others, 2)) for each in told]


def cluster(nodes=10, usage=(0.8, 0.3)):
    return {f"node-{number}": usage for number in range(nodes)}


def test_who_exchanges_35_times_a_second_is_one():
    told = outliers_among(cluster(), {"node-3": 175})
    assert told == [("node-3", "exchanges per second", 35.0, 0.2)]


def test_who_shows_what_nobody_else_shows_is_one():
    told = outliers_among(cluster() | {"node-3": (0.0, 1.0)})
    assert told == [("node-3", "usage of cpu", 0.0, 0.8), ("node-3", "usage of memory", 1.0, 0.3)]


@pytest.mark.parametrize("resources", [1, 3])
def test_other_resources_are_numbered(resources):
    usages = cluster(usage=(0.1,) * resources) | {"node-3": (0.1,) * (resources - 1) + (0.9,)}
    assert [about for _, about, *_ in outliers_among(usages)] == [f"usage of {resources - 1}"]


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=0, max_size=2))
def test_of_two_nodes_none_is_one(usages):
    assert outliers_among({f"node-{number}": usage for number, usage in enumerate(usages)}, {"node-0": 100}) == []


@pytest.mark.parametrize("idle", range(2, 9))
def test_a_part_of_the_cluster_that_is_idle_is_none(idle):
    usages = {f"node-{number}": (0.05 if number < idle else 0.95, 0.3) for number in range(10)}
    assert outliers_among(usages) == []


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=40))
def test_at_most_one_node_in_ten_is_one_for_its_usage(usages):
    nodes = {f"node-{number}": usage for number, usage in enumerate(usages)}
    of_each = [about for _, about, *_ in outliers_among(nodes)]
    most = max(len(nodes) - 1 - int(0.9 * (len(nodes) - 1)), 0)
    assert all(of_each.count(about) <= most for about in of_each)


def test_who_exchanges_at_every_step_while_others_have_no_news_is_none():
    assert outliers_among(cluster(), {"node-3": 6}) == []


def test_who_has_left_is_none_any_more():
    outliers = ExchangeOutliers()
    for second in np.arange(0.0, LASTING_S + 10, 5.0):
        for node, usage in (cluster() | {"node-3": (0.0, 1.0)}).items():
            outliers.note(node, subspace(*usage))
        outliers.look(float(second))
    assert outliers.present
    outliers.forget("node-3")
    outliers.look(LASTING_S + 10)
    assert outliers.present == []
