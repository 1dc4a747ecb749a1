"""The markers: `cluster` says that a test needs a cluster, `carico` names the experiment to run there."""

from __future__ import annotations

import re

import pytest

CLUSTER = "cluster"
CARICO = "carico"


def declare_markers(config: pytest.Config) -> None:
    """Register the markers."""
    config.addinivalue_line(
        "markers", "cluster: needs a cluster; is left out unless asked for with -m cluster, by name, or by an option"
    )
    config.addinivalue_line(
        "markers",
        "carico(scenario, scheduler=('carico', 'kube-scheduler'), repetitions=None, fail_on=None, providers=None): "
        "the experiment that the fixture carico_results runs for the test; scheduler is one spec or a list of them; "
        "fail_on are conditions of a gate, by --carico-baseline or else by the first scheduler; providers are the "
        "kinds of cluster that the test is for, any by default",
    )
    config.addinivalue_line(
        "markers",
        "carico_claim(source, statement, columns=('variant',)): the test asks whether a statement of a paper holds; "
        "columns are its parameters that name the variant of a scheduler",
    )
    config.addinivalue_line(
        "markers", "carico_calibration: the test asks for figures that the simulator was calibrated on"
    )


def is_cluster(item: pytest.Item) -> bool:
    """Whether a test is marked `cluster` (a folder of that name is not enough)."""
    return item.get_closest_marker(CLUSTER) is not None


def are_asked_for(config: pytest.Config) -> bool:
    """Whether an ``-m`` asks for tests that have one of these markers."""
    return re.search(rf"(?<!not )\b({CLUSTER}|{CARICO})\b", config.option.markexpr or "") is not None


def concerns_the_testbed(item: pytest.Item) -> bool:
    """Whether a test has one of the two markers that the testbed acts on."""
    return is_cluster(item) or item.get_closest_marker(CARICO) is not None
