"""A node's capacity signal when its peers run another workload (thesis §3.4.1, §4.2.3, Fig 3.1, 3.2, 4.6, 4.7)."""

from __future__ import annotations

import pytest

from testbed.measurement.utilisation import median_between

from .predictions import ALL, cases, claim

pytestmark = pytest.mark.cluster

PUBLISHED_S = 30
"""When the scenarios publish the job on the other nodes."""
VISIBLE = 0.2
"""The figures have curves but no numbers; a change of one fifth would be visible in them."""


def change_of_signal(seed, carico_paper, scenario, carico):
    """Return k of the observed node late in the job on its peers, relative to k before the job."""
    # The job takes about 100 s; in between all peers are busy with it.
    spans = (PUBLISHED_S - 8, PUBLISHED_S), (PUBLISHED_S + 40, PUBLISHED_S + 60)
    (run,) = seed.run(scenario, carico.scheduler, settings=carico.settings)
    before, after = (median_between(run.nodes[0], "capacity_signal", *span) for span in spans)
    carico_paper.row("k before the peers' job", before, None)
    carico_paper.row("k during the peers' job", after, None)
    carico_paper.row("k during / before", after / before, None)
    return after / before


@claim("§4.2.3, Fig 4.6", "a node under CPU load offers less once its peers run a heavier CPU workload")
@pytest.mark.parametrize("carico", cases(ALL))
def test_conflicting_capacity(carico_seeds, carico_paper, carico):
    """A node's k falls when its peers run a workload that conflicts with its own, whose usage is unchanged."""
    for seed in carico_seeds:
        with seed:
            assert change_of_signal(seed, carico_paper, "conflicting-capacity", carico) < 1 - VISIBLE


@claim("§4.2.3, Fig 4.7", "a node under memory load offers more once its peers run a CPU workload")
@pytest.mark.parametrize("carico", cases(ALL))
def test_complementary_capacity(carico_seeds, carico_paper, carico):
    """A node's k rises when its peers run a workload that wants what the node has free."""
    for seed in carico_seeds:
        with seed:
            assert change_of_signal(seed, carico_paper, "complementary-capacity", carico) > 1 + VISIBLE
