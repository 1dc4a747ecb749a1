"""A node's capacity signal when its peers run another workload (thesis §3.4.1, §4.2.3, Fig 3.1, 3.2, 4.6, 4.7)."""

from __future__ import annotations

import numpy as np
import pytest

from testbed.measurement.utilisation import median_between

pytestmark = pytest.mark.cluster

PUBLISHED_S = 30
"""When the scenarios publish the job on the other nodes."""
VISIBLE = 0.2
"""The figures have curves but no numbers; a change by a fifth would be visible in them."""


def signal_of_first_node(carico_experiment, scenario, prediction):
    """Return k of the observed node before the job on its peers, and late in this job."""
    # The job takes about 100 s; in the second span all peers are busy with it.
    spans = (PUBLISHED_S - 8, PUBLISHED_S), (PUBLISHED_S + 40, PUBLISHED_S + 60)
    runs = carico_experiment.run(scenario, prediction.scheduler, settings=prediction.settings)
    return np.mean([[median_between(run.nodes[0], "capacity_signal", *span) for span in spans] for run in runs], axis=0)


def test_conflicting_capacity(carico_experiment, carico_paper, prediction):
    """A node under light CPU load offers less once its peers run a heavier CPU workload; its own usage is unchanged."""
    before, after = signal_of_first_node(carico_experiment, "conflicting-capacity", prediction)
    carico_paper.row("k before the peers' job", before, None)
    carico_paper.row("k during the peers' job", after, None)
    assert after < (1 - VISIBLE) * before


def test_complementary_capacity(carico_experiment, carico_paper, prediction):
    """A node under memory load offers more once its peers run a CPU workload, because its CPU is free."""
    before, after = signal_of_first_node(carico_experiment, "complementary-capacity", prediction)
    carico_paper.row("k before the peers' job", before, None)
    carico_paper.row("k during the peers' job", after, None)
    assert after > (1 + VISIBLE) * before
