"""Models of nodes for tests: histories to feed them, and their state and reports in comparable form."""

import copy
import dataclasses
import functools

import numpy as np
import pytest

from carico.model.capacity import MAX_PODS
from carico.model.estimators import ESTIMATORS
from carico.model.node_model import NodeModel
from carico.model.report import Report
from carico.model.subspace import Subspace
from carico.model.variants import DEFAULT_VARIANT, THESIS_LITERAL, THESIS_REBASED, VARIANTS

IDLE = (0.05, 0.20)
EVERY_VARIANT = pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS)
EVERY_FILTER = pytest.mark.parametrize(
    "variant",
    [
        THESIS_LITERAL,
        *(dataclasses.replace(THESIS_REBASED, estimator=name, name=f"rebased-{name}") for name in ESTIMATORS),
    ],
    ids=lambda variant: variant.name,
)


def varied(variant=DEFAULT_VARIANT, **changes):
    return dataclasses.replace(variant, **changes)


def run(model, usage, at, seconds=1, view=None):
    """Feed `usage` at 10 Hz from `at` on, step at every full second, and return the last report and the time."""
    if view is not None:
        model.adopt(view)
    for _ in range(seconds):
        for tick in range(1, 11):
            model.observe(usage, at=at + tick / 10)
        at += 1
        report = model.step(at=at)
    return report, at


def loaded(pods, cpu=0.1, memory=0.03):
    return (min(IDLE[0] + cpu * pods, 1.0), min(IDLE[1] + memory * pods, 1.0))


def warmed_up(variant=DEFAULT_VARIANT, max_pods=MAX_PODS):
    """Return the model of a node that has run 0 to 5 pods a few times and is idle now, and the time."""
    return copy.deepcopy(warm_up(variant, max_pods))


@functools.cache
def warm_up(variant, max_pods):
    model, at = NodeModel(variant, max_pods=max_pods), 0.0
    for _ in range(4):
        _, at = run(model, IDLE, at, 5)
        for n in range(1, 6):
            model.pod_event(+1, at=at)
            _, at = run(model, loaded(n), at, 5)
        model.pod_event(-5, at=at)
        _, at = run(model, IDLE, at, 5)
    return model, at


def values_of(report, index=...):
    """Return every number of a report, as bytes."""
    found = {}
    for field in dataclasses.fields(Report):
        value = getattr(report, field.name)
        if field.name == "subspace":
            found["basis"] = value.basis[index].tobytes()
            found["singular_values"] = value.singular_values[index].tobytes()
        elif field.name == "at_s":
            found[field.name] = value
        else:
            found[field.name] = np.asarray(value)[index].tobytes()
    return found


def state_of(model):
    return {name: array.tobytes() for name, array in model.save().items()}


class History:
    """A random history of `nodes` nodes from one seed: telemetry, lost samples, pod events and global subspaces."""

    def __init__(self, nodes, seconds, seed=1, resources=2, lost=0.1):
        rng = np.random.default_rng(seed)
        self.start = 0.0
        steps = rng.integers(-2, 3, (seconds, nodes))
        counts = np.zeros((seconds + 1, nodes), dtype=int)
        for second in range(seconds):
            counts[second + 1] = np.clip(counts[second] + np.where(rng.random(nodes) < 0.3, steps[second], 0), 0, 12)
        self.changes = np.diff(counts, axis=0)
        self.times = np.arange(seconds)[:, None] + rng.random((seconds, nodes))
        load = counts[:-1, None, :, None] * rng.uniform(0.02, 0.1, resources)
        noise = rng.normal(0, 0.01, (seconds, 10, nodes, resources))
        self.usage = np.clip(0.1 + load + noise, 0, 1)
        self.received = rng.random((seconds, 10, nodes)) >= lost
        self.views = [Subspace.from_batch(rng.random((resources, 10))) for _ in range(seconds)]

    def play(self, model, node=None, stepping=None):
        """Yield the model's report of every second; with `node`, of this node's history alone."""
        for second, usage in enumerate(self.usage):
            for tick, sample in enumerate(usage):
                at = self.start + second + tick / 10
                received = self.received[second, tick]
                if node is None:
                    model.observe(sample, at, received)
                else:
                    model.observe(sample[node], at, received[node])
            for i in range(self.changes.shape[1]) if node is None else [node]:
                change = int(self.changes[second, i])
                if change:
                    model.pod_event(change, self.start + self.times[second, i], node=i if node is None else None)
            if second % 3 == 0:
                model.adopt(self.views[second], stepping)
            yield model.step(self.start + second + 1.0, stepping)
