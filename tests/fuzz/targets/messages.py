"""gRPC messages between the processes."""

from functools import partial

import numpy as np

from carico.demand.regression import Estimate
from carico.demand.report import DemandReport, DiskReport, WorkloadReport
from carico.demand.scheduler import DemandScheduler
from carico.demand.settings import DEMAND
from carico.demand.waiting import Kind
from carico.errors import InvalidInput
from carico.model.aggregator import ReplicaView
from carico.model.subspace import Subspace
from carico.rpc.messages import (
    read_exchange,
    read_reply,
    read_report,
    read_report_reply,
    read_view,
    write_exchange,
    write_reply,
    write_report,
    write_report_reply,
    write_view,
)
from carico.scheduling.report import CapacityReport, ReportReply
from tests.fuzz.target import Target

RESOURCES = 2
OWN = Subspace.from_batch(np.random.default_rng(1).random((RESOURCES, 10)))
KNOWN = WorkloadReport(2, 0.5, Estimate(0.5, 0.1), Estimate(0.2, 0.01), Estimate(0.8, 0.01), measured=True)
DEMANDS = DemandReport(
    "node-1",
    4.0,
    16.0,
    Estimate(1.5, 0.1),
    3.0,
    1.0,
    {"jobs/pi": KNOWN, "jobs/web": KNOWN},
    {"uid-0": None, "uid-1": "jobs/pi", "uid-2": "jobs/new"},
    DiskReport(1.7, 1.25),
)


def same(one, other):
    return np.array_equal(one.basis, other.basis) and np.array_equal(one.singular_values, other.singular_values)


def report_comes_back(read):
    report, silent = read
    assert read_report(write_report(report, silent)) == read
    if report.demand is not None:
        a_scheduler_decides_after(report)


def a_scheduler_decides_after(report):
    scheduler = DemandScheduler(DEMAND)
    scheduler.report(report.demand, 0.0)
    rows = scheduler.loads.rows([report.node])
    assert np.isfinite([scheduler.loads.cpu_load(rows), scheduler.loads.memory_load(rows)]).all()
    assert not np.isnan(scheduler.loads.reads_room(rows)).any()
    assert np.isfinite(scheduler.cost("jobs/pi")).all()
    assert scheduler.filter("uid", Kind("jobs/pi"), [report.node], 0.0).node in (None, report.node)


def report_reply_comes_back(reply):
    assert read_report_reply(write_report_reply(reply)) == reply


def is_sound(subspace):
    assert subspace.basis.shape[0] == RESOURCES
    assert np.isfinite(subspace.basis).all()
    values = subspace.singular_values
    assert (values >= 0).all()
    assert (np.diff(values) <= 0).all()
    merged = Subspace.merge(subspace, OWN, 0.5, 0.5)
    assert np.isfinite(merged.basis).all()
    assert np.isfinite(merged.singular_values).all()


def exchange_comes_back(read):
    node, subspace = read
    again = read_exchange(write_exchange(node, subspace), RESOURCES)
    assert again[0] == node
    assert same(again[1], subspace)
    is_sound(subspace)


def reply_comes_back(subspace):
    assert same(read_reply(write_reply(subspace), RESOURCES), subspace)
    is_sound(subspace)


def view_comes_back(view):
    again = read_view(write_view(view), RESOURCES)
    assert (again.replica, again.nodes) == (view.replica, view.nodes)
    if view.subspace is None:
        assert again.subspace is None
    else:
        assert same(again.subspace, view.subspace)
        is_sound(view.subspace)


TARGETS = [
    Target(
        "messages.report",
        "an agent's report, in both versions",
        read_report,
        (InvalidInput,),
        report_comes_back,
        (
            write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1)),
            write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1, counted=frozenset({"uid-1", "uid-2"}))),
            write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1, DEMANDS, "0.1.0"), silent=True),
        ),
    ),
    Target(
        "messages.report_reply",
        "a scheduler's answer to a report",
        read_report_reply,
        (InvalidInput,),
        report_reply_comes_back,
        (b"", write_report_reply(ReportReply({"u1": "jobs/pi", "u2": "jobs/web"}, "0.1.0"))),
    ),
    Target(
        "messages.exchange",
        "an agent's subspace",
        partial(read_exchange, resources=RESOURCES),
        (InvalidInput,),
        exchange_comes_back,
        (write_exchange("node-1", OWN),),
    ),
    Target(
        "messages.reply",
        "an aggregator's answer",
        partial(read_reply, resources=RESOURCES),
        (InvalidInput,),
        reply_comes_back,
        (write_reply(OWN),),
    ),
    Target(
        "messages.view",
        "a replica's view",
        partial(read_view, resources=RESOURCES),
        (InvalidInput,),
        view_comes_back,
        (write_view(ReplicaView("replica-1", 7, OWN)), write_view(ReplicaView("replica-1", 0, None))),
    ),
]
