"""Checkpoints: the file, and the state of everything that continues from one."""

import hashlib
import json
import math
import tempfile
from pathlib import Path

import numpy as np

from carico.checkpoint import continue_from, read_checkpoint, write_checkpoint
from carico.demand.node import NodeDemand
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.errors import InvalidState
from carico.model.node_model import NodeModel
from carico.rpc.messages import read_report, write_report
from carico.scheduling.report import CapacityReport
from carico.telemetry.counters import DiskUse
from tests.fuzz.target import Target
from tests.fuzz.targets.messages import DEMANDS

FILE = Path(tempfile.mkdtemp()) / "checkpoint.json"
VARIANT, OWNER = "demand", "node-1"


def as_json(state):
    write_checkpoint(FILE, VARIANT, state, owner=OWNER)
    return read_checkpoint(FILE, VARIANT, owner=OWNER)


def read_file(data):
    """A file as it is; whatever state it holds is also read with the right checksum."""
    FILE.write_bytes(data)
    try:
        return read_checkpoint(FILE, VARIANT, owner=OWNER)
    except InvalidState:
        signed = with_checksum(data)
        if signed is None:
            raise
        FILE.write_bytes(signed)
        return read_checkpoint(FILE, VARIANT, owner=OWNER)


def with_checksum(data):
    try:
        document = json.loads(data.decode())
        text = json.dumps(document["state"], sort_keys=True, separators=(",", ":"))
        return json.dumps(document | {"sha256": hashlib.sha256(text.encode()).hexdigest()}).encode()
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def state_comes_back(state):
    if all(math.isfinite(number) for number in numbers_in(state)):  # others become null
        assert as_json(state) == state
    restored = []
    write_checkpoint(FILE, VARIANT, state, owner=OWNER)
    continue_from(FILE, VARIANT, restored.append, owner=OWNER)
    assert len(restored) == 1


def numbers_in(value):
    if isinstance(value, (dict, list)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)
    elif isinstance(value, float):
        yield value


def loaded(data):
    """Return a state as `read_checkpoint` does, which lets only objects pass."""
    try:
        state = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise InvalidState("no JSON") from error
    if not isinstance(state, dict):
        raise InvalidState("no object")
    return state


def a_model():
    model = NodeModel()
    for second in range(3):
        model.observe_series(np.full((10, 2), 0.3), second + np.arange(1, 11) / 10)
        model.step(second + 1.0)
    return model


def read_model(data):
    model = NodeModel()
    before = {name: array.tobytes() for name, array in model.save().items()}
    try:
        model.restore(loaded(data), now=100.0)
    except InvalidState:
        assert {name: array.tobytes() for name, array in model.save().items()} == before
        raise
    return model


def model_works(model):
    for second in (100, 101):
        model.observe_series(np.full((10, 2), 0.6), second + np.arange(1, 11) / 10)
        report = model.step(second + 1.0)
    assert 0 <= float(report.pod_capacity) <= 110
    assert not math.isnan(float(report.capacity_signal))


def a_node():
    node = NodeDemand("node-1", 4.0, 16.0, DEMAND, 0.0)
    for second in range(1, 4):
        node.observe(0.2, 1.0, at=float(second))
    node.pod_started("pod-a", "jobs/pi", at=3.0)
    for second in range(4, 30):
        node.observe(0.7, 1.1, at=float(second), disk=DiskUse(0.1 * second, 1e4 * second))
    return node


def read_node(data):
    node = NodeDemand("node-1", 4.0, 16.0, DEMAND, 0.0)
    before = node.save()
    try:
        node.restore(loaded(data), 10.0)
    except InvalidState:
        assert str(node.save()) == str(before)
        raise
    return node


def node_works(node):
    """A node goes on from whatever it takes, and what it reports is sound."""
    assert read_report(write_report(CapacityReport("node-1", 1.0, 1, 1.7e9, 1, node.report(0.5))))
    node.pod_started("pod-b", "jobs/pi", at=1.0)
    for second in range(2, 5):
        node.observe(0.7, 1.1, at=float(second))
    report = CapacityReport("node-1", 1.0, 1, 1.7e9, 1, node.report(5.0))
    assert read_report(write_report(report)) == (report, False)


def read_scheduler(data):
    scheduler = DemandScheduler(DEMAND)
    scheduler.restore(loaded(data), 10.0, 100.0)
    return scheduler


def scheduler_works(scheduler):
    for workload in scheduler.loads.remembered[0].workloads[:3]:
        assert np.isfinite(scheduler.cost(workload)).all()
    scheduler.report(DEMANDS, 101.0)
    scheduler.tick(102.0)
    assert scheduler.filter("uid", Kind("jobs/pi"), ["node-1"], 102.0).node in (None, "node-1")
    for cost in scheduler.costs(103.0):
        assert all(math.isfinite(number) for number in (cost.cores, cost.gib))
    saved = json.loads(json.dumps(scheduler.save(103.0)))
    again = DemandScheduler(DEMAND)
    again.restore(saved, 0.0, 103.0)


def _seed(state):
    write_checkpoint(FILE, VARIANT, state, owner=OWNER)
    return json.dumps(json.loads(FILE.read_bytes())["state"]).encode()


NODE_STATE = a_node().save()
write_checkpoint(FILE, VARIANT, NODE_STATE, owner=OWNER)
TARGETS = [
    Target(
        "saved_state.file",
        "the file of a checkpoint",
        read_file,
        (InvalidState,),
        state_comes_back,
        (FILE.read_bytes(),),
        form="json",
    ),
    Target(
        "saved_state.model",
        "the saved state of the thesis's model",
        read_model,
        (InvalidState,),
        model_works,
        (_seed(a_model().save()),),
        form="json",
    ),
    Target(
        "saved_state.node",
        "what a node has learned under `demand`",
        read_node,
        (InvalidState,),
        node_works,
        (_seed(NODE_STATE),),
        form="json",
    ),
    Target(
        "saved_state.scheduler",
        "what the extender remembers under `demand`",
        read_scheduler,
        (InvalidState,),
        scheduler_works,
        (
            json.dumps(
                {
                    "cpu": {"jobs/pi": [0.5, 0.01, 3.0, 60.0], "jobs/web": [2.0, 0.5, 20.0, 0.0]},
                    "memory": {"jobs/pi": [0.2, 0.01, 3.0, 60.0]},
                }
            ).encode(),
        ),
        form="json",
    ),
]
