"""Whatever comes over the wire is a sound value or refused, and what is sent comes back as it was."""

import dataclasses
import math
from contextlib import suppress
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.demand.regression import Estimate
from carico.demand.report import MOST_CORES, MOST_GIB, MOST_PODS, MOST_READS, DemandReport, DiskReport, WorkloadReport
from carico.demand.workload import workload_named
from carico.errors import InvalidInput
from carico.model.aggregator import Aggregator, ReplicaView, impossible
from carico.model.subspace import Subspace
from carico.rpc import aggregation_pb2, capacity_pb2
from carico.rpc.identity import node_name
from carico.rpc.messages import (
    MAX_MESSAGE_BYTES,
    read_exchange,
    read_reply,
    read_report,
    read_report_reply,
    read_subspace,
    read_view,
    write_exchange,
    write_reply,
    write_report,
    write_report_reply,
    write_view,
)
from carico.scheduling.report import MOST_PODS_NAMED, CapacityReport, ReportReply

telemetry = st.integers(1, 5).flatmap(
    lambda d: arrays(np.float64, (d, 10), elements=st.floats(0, 1)).map(Subspace.from_batch)
)
uids = st.text("abcXYZ019._-", min_size=1, max_size=128)
names = st.text(min_size=1, max_size=60).filter(lambda name: name.isprintable() and " " not in name)
cores, gib = st.floats(0, MOST_CORES), st.floats(0, MOST_GIB)
costs = st.builds(
    lambda pods, share, *others, measured: WorkloadReport(pods, *others, pods * share, measured=measured),
    st.integers(0, MOST_PODS),
    st.floats(0, 1),
    st.floats(0, MOST_PODS),
    st.builds(Estimate, cores, st.floats(0, MOST_CORES**2)),
    st.builds(Estimate, gib, st.floats(0, MOST_GIB**2)),
    st.none() | st.builds(Estimate, st.floats(0, MOST_READS), st.floats(0, MOST_READS**2)),
    measured=st.booleans(),
)
demands = st.builds(
    DemandReport,
    st.just("node-1"),
    cores.filter(bool),
    gib.filter(bool),
    st.builds(Estimate, cores, st.floats(0, MOST_CORES**2)),
    gib,
    gib,
    st.dictionaries(names, costs, max_size=4),
    st.lists(names, max_size=3).flatmap(
        lambda others: st.dictionaries(uids, st.none() | st.sampled_from([*others, "jobs/pi"]), max_size=5)
    ),
    st.none() | st.builds(DiskReport, st.floats(0, MOST_READS), st.floats(0, MOST_READS)),
)
any_number = st.floats() | st.sampled_from([0.0, 1.0, -1.0, 0.5**0.5, 1e308, -1e308, math.nan, math.inf])


def same(one, other):
    return np.array_equal(one.basis, other.basis) and np.array_equal(one.singular_values, other.singular_values)


class TestRoundTrip:
    @given(telemetry)
    def test_a_subspace_of_any_telemetry_comes_back_bit_for_bit(self, own):
        d = own.basis.shape[0]
        node, read = read_exchange(write_exchange("node-1.example", own), d)
        assert node == "node-1.example"
        assert same(read, own)
        assert same(read_reply(write_reply(own), d), own)
        view = read_view(write_view(ReplicaView("replica-1", 7, own)), d)
        assert (view.replica, view.nodes) == ("replica-1", 7)
        assert same(view.subspace, own)

    def test_a_truncated_one_too(self):
        own = Subspace.from_batch(np.random.default_rng(1).random((4, 10)), rank=2)
        assert same(read_reply(write_reply(own), 4), own)

    def test_a_replica_that_knows_nothing_yet(self):
        nothing = ReplicaView("replica-1", 0, None)
        assert read_view(write_view(nothing), 2) == nothing

    @given(st.floats(0, 1e6), st.integers(0, 1_000_000), st.floats(0, 1e11), st.integers(0, 2**64 - 1), st.booleans())
    def test_a_report(self, pod_capacity, pods, at_unix_s, sequence, silent):
        report = CapacityReport("node-1", pod_capacity, pods, at_unix_s, sequence)
        assert read_report(write_report(report, silent)) == (report, silent)

    @given(demands, st.text("0123456789.abc+-", max_size=64))
    def test_a_report_with_demand(self, demand, version):
        report = CapacityReport("node-1", 2.5, 3, 1.7e9, 1, demand, version)
        assert read_report(write_report(report)) == (report, False)

    @given(st.none() | st.frozensets(uids, max_size=5))
    def test_a_report_that_says_which_pods_it_counts(self, counted):
        """None of them is another thing than not saying so."""
        report = CapacityReport("node-1", 2.5, 3, 1.7e9, 1, counted=counted)
        assert read_report(write_report(report)) == (report, False)

    def test_pods_of_workloads_of_which_nothing_is_known(self):
        known = {"jobs/pi": WorkloadReport(1, 0.5, Estimate(0.5, 0.1), Estimate(0.2, 0.1))}
        counted = {"uid-1": "jobs/new", "uid-2": None, "uid-3": "jobs/pi", "uid-4": "jobs/newer", "uid-5": "jobs/new"}
        demand = DemandReport("node-1", 4.0, 16.0, Estimate(1.0, 0.1), 2.0, 1.0, known, counted)
        read, _ = read_report(write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1, demand)))
        assert read.demand == demand

    @given(st.dictionaries(uids, names, max_size=5), st.text("0123456789.abc+-", max_size=64))
    def test_an_answer_to_a_report(self, workloads, version):
        reply = ReportReply(workloads, version)
        assert read_report_reply(write_report_reply(reply)) == reply

    def test_a_full_nodes_report_and_its_answer_fit_well(self):
        names = [f"{'w' * 57}-{number:02}" for number in range(64)]
        some = Estimate(0.123, 0.123)
        known = WorkloadReport(4, 0.123, some, some, some, exposed=0.123, measured=True)
        counted = {f"{number:036}": names[number % 64] for number in range(250)}
        demand = DemandReport(
            "n" * 63, 64.0, 256.0, Estimate(1.23, 0.123), 1.23, 1.23, dict.fromkeys(names, known), counted,
            DiskReport(0.123, 0.123),
        )  # fmt: skip
        assert len(write_report(CapacityReport("n" * 63, 1.23, 250, 1.7e9, 10**9, demand))) < MAX_MESSAGE_BYTES / 3
        assert len(write_report_reply(ReportReply(counted, "0.1.0"))) < MAX_MESSAGE_BYTES / 2

    def test_so_does_one_of_250_workloads_with_the_longest_names(self):
        """Before any scheduler has told the workloads of the pods, an agent takes their names for them."""
        pods = {f"{number:036}": workload_named(f"{'n' * 63}/{number:03}{'p' * 250}") for number in range(250)}
        some = Estimate(1.23, 0.123)
        known = WorkloadReport(1, 0.123, some, some, some, exposed=0.123, measured=True)
        size, disk = Estimate(1.23, 0.123), DiskReport(1.23, 1.23)
        demand = DemandReport("n" * 63, 64.1, 256.1, size, 1.23, 1.23, dict.fromkeys(pods.values(), known), pods, disk)
        assert len(demand.workloads) == 250
        assert len(write_report(CapacityReport("n" * 63, 1.23, 250, 1.7e9, 10**9, demand))) < MAX_MESSAGE_BYTES

    def test_a_report_that_counts_as_many_pods_as_it_may_name_fits(self):
        counted = frozenset(f"{number:036}" for number in range(MOST_PODS_NAMED))
        assert (
            len(write_report(CapacityReport("n" * 63, 1.23, 1000, 1.7e9, 10**9, counted=counted))) < MAX_MESSAGE_BYTES
        )

    def test_the_longest_name_of_a_pod_is_a_workload(self):
        """Until a scheduler tells it better, an agent takes a pod's namespace and name for it."""
        reply = ReportReply({"uid-1": f"{'n' * 63}/{'p' * 253}"}, "")
        assert read_report_reply(write_report_reply(reply)) == reply

    def test_a_node_that_is_full_and_one_that_rounds_to_single_precision_are_heard(self):
        full = Subspace.from_batch(np.ones((5, 10)))
        rounded = Subspace(
            np.float64(np.float32(full.basis)), np.float64(np.float32(full.singular_values)) * (1 + 1e-7)
        )
        for own in (full, rounded):
            assert same(read_exchange(write_exchange("node-1", own), 5)[1], own)

    def test_the_largest_subspace_fits(self):
        own = Subspace.from_batch(np.random.default_rng(1).random((64, 100)))
        assert len(write_exchange("n" * 63, own)) < MAX_MESSAGE_BYTES


class TestHostileSubspace:
    @given(
        st.integers(0, 4),
        st.lists(any_number, max_size=6),
        st.lists(any_number, max_size=3),
    )
    def test_is_one_that_telemetry_can_have_or_refused(self, resources, basis, values):
        message = aggregation_pb2.Subspace(resources=resources, basis=basis, singular_values=values)
        with suppress(InvalidInput):
            read = read_subspace(message, 2)
            rank = read.singular_values.size
            np.testing.assert_allclose(read.basis.T @ read.basis, np.eye(rank), atol=1e-6)
            assert (np.diff(read.singular_values) <= 0).all()
            assert read.singular_values.min() >= 0
            assert not impossible(read)
            assert np.square(read.singular_values).sum() <= 20 * (1 + 1e-6)
            aggregator = Aggregator(2)
            aggregator.exchange("node-1", read)
            aggregator.merge(aggregator.take_waiting())
            assert np.isfinite(aggregator.view.columns).all()

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"resources": 3}, "subspaces of 2 resources are exchanged here, got one of 3"),
            ({"basis": [1, 0, 0]}, "got 2 and 3"),
            ({"basis": [], "singular_values": []}, "got 0 and 0"),
            ({"singular_values": [3, 2, 1], "basis": [1, 0, 0, 1, 0, 0]}, "got 3 and 6"),
            ({"singular_values": [1, 2]}, "must descend"),
            ({"singular_values": [1, -1]}, "must descend"),
            ({"singular_values": [4.4, 1]}, "the energy of a resource is at most 10, got 19.36, 1$"),
            ({"singular_values": [3.2, 3.2]}, "the energy of a resource is at most 10, got 10.24, 10.24"),
            ({"singular_values": [1e200, 1]}, "the energy of a resource is at most 10, got inf, 1"),
            ({"singular_values": [math.nan, 1]}, "must descend"),
            ({"singular_values": [1, math.nan]}, "must descend"),
            ({"singular_values": [math.inf, 1]}, "singular_values must be finite"),
            ({"basis": [1, 0, 0, math.nan]}, "must be orthonormal"),
            ({"basis": [math.nan, 0, 0, 1]}, r"in \[-1, 1\]"),
            ({"basis": [1e200, 0, 0, 1]}, r"in \[-1, 1\]"),
            ({"basis": [1, 0, 0, 0.99]}, "must be orthonormal"),
            ({"basis": [1, 0.1, 0, 1]}, "must be orthonormal"),
        ],
    )
    def test_the_reason_is_given(self, changes, message):
        sound = {"resources": 2, "basis": [1, 0, 0, 1], "singular_values": [2, 1]}
        read_subspace(aggregation_pb2.Subspace(**sound), 2)
        with pytest.raises(InvalidInput, match=message):
            read_subspace(aggregation_pb2.Subspace(**sound | changes), 2)


class TestHostileBytes:
    @given(st.binary(max_size=200))
    def test_any_bytes_are_a_message_or_refused(self, data):
        for read in (lambda: read_exchange(data, 2), lambda: read_reply(data, 2), lambda: read_view(data, 2)):
            with suppress(InvalidInput):
                read()
        with suppress(InvalidInput):
            report, _ = read_report(data)
            assert 0 <= report.pod_capacity <= 1e6
        with suppress(InvalidInput):
            assert len(read_report_reply(data).version) <= 64

    @given(telemetry, st.data())
    def test_so_are_those_cut_short_or_with_a_byte_changed(self, own, data):
        d, whole = own.basis.shape[0], write_exchange("node-1", own)
        cut = whole[: data.draw(st.integers(0, len(whole) - 1))]
        with suppress(InvalidInput):
            node, _ = read_exchange(cut, d)
            assert node == node_name(node)
        place, byte = data.draw(st.integers(0, len(whole) - 1)), data.draw(st.integers(0, 255))
        with suppress(InvalidInput):
            _, read = read_exchange(whole[:place] + bytes([byte]) + whole[place + 1 :], d)
            assert np.isfinite(read.columns).all()


class TestHostileReport:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"node": "Node_1"}, "DNS-1123"),
            ({"pod_capacity": -0.5}, "pod_capacity"),
            ({"pod_capacity": math.nan}, "pod_capacity"),
            ({"pod_capacity": math.inf}, "pod_capacity"),
            ({"pod_capacity": 1e7}, "pod_capacity"),
            ({"pods": 2**32 - 1}, "pods"),
            ({"at_unix_s": -1.0}, "at_unix_s"),
            ({"at_unix_s": math.nan}, "at_unix_s"),
            ({"at_unix_s": 1e300}, "at_unix_s"),
            ({"version": "1" * 65}, "at most 64 printable characters"),
            ({"version": "1\n0"}, "at most 64 printable characters"),
            ({"counted": {"uids": ["uid-1", "uid-1"]}}, "every pod once, got 2 pods of 1 UIDs"),
            ({"counted": {"uids": ["uid 1"]}}, "got 'uid 1'"),
            ({"counted": {"uids": [str(uid) for uid in range(MOST_PODS_NAMED + 1)]}}, "at most 1000 counted pods"),
        ],
    )
    def test_the_reason_is_given(self, changes, message):
        sound = dataclasses.asdict(CapacityReport("node-1", 2.5, 3, 1.7e9, 1))
        read_report(capacity_pb2.CapacityReport(**sound).SerializeToString())
        with pytest.raises(InvalidInput, match=message):
            read_report(capacity_pb2.CapacityReport(**sound | changes).SerializeToString())

    @pytest.mark.parametrize("numbers", [(1.0, -1, 0.0, 0), (1.0, 1, 0.0, -1), (1.0, 1, 0.0, 2**64), ("x", 1, 0.0, 0)])
    def test_what_does_not_fit_is_not_sent(self, numbers):
        with pytest.raises(InvalidInput, match="cannot be sent"):
            write_report(CapacityReport("node-1", *numbers))


def pod(number=1, workload=1):
    return {"uid": f"uid-{number}", "workload": workload}


class TestHostileDemand:
    SOUND: ClassVar = {"cores": 4.0, "gib": 16.0, "workloads": [{"name": "jobs/pi"}], "counted": [pod()]}

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"cores": 0.0}, "node-1: cores must be more than 0"),
            ({"gib": math.nan}, "node-1: gib must be in"),
            ({"demand_cores": math.inf}, "node-1: demand_cores must be in"),
            ({"demand_cores_variance": -1.0}, "demand_cores must be in"),
            ({"held_gib": -1.0}, "held_gib must be in"),
            ({"baseline_gib": 1e300}, "baseline_gib must be in"),
            ({"workloads": [{"name": "jobs/pi", "cores_variance": math.nan}]}, "a pod's cores must be in"),
            ({"workloads": [{"name": "jobs/pi", "gib": -1.0}]}, "a pod's GiB must be in"),
            ({"workloads": [{"name": "jobs/pi", "reads": -1.0}]}, "a pod's reads must be in"),
            (
                {"workloads": [{"name": "jobs/pi", "reads": 1.0, "reads_variance": math.inf}]},
                "a pod's reads must be in",
            ),
            ({"disk": {"reads": math.nan}}, "reads under way must be in"),
            ({"disk": {"level": 1e7}}, "level of reads must be in"),
            ({"workloads": [{"name": "jobs/pi", "pods": 2**32 - 1}]}, "pods must be in"),
            ({"workloads": [{"name": ""}]}, "the name of a workload is 1 to 317 printable characters"),
            ({"workloads": [{"name": "a" * 318}]}, "the name of a workload"),
            ({"workloads": [{"name": "jobs pi"}]}, "the name of a workload"),
            ({"workloads": [{"name": "jobs\u2028pi"}]}, "the name of a workload"),
            ({"unknown_workloads": ["jobs/\n"]}, "the name of a workload"),
            ({"workloads": [{"name": "jobs/pi"}] * 2}, "names every workload once"),
            ({"unknown_workloads": ["jobs/pi"]}, "names every workload once"),
            ({"unknown_workloads": ["jobs/a", "jobs/a"]}, "names every workload once"),
            ({"workloads": [{"name": f"w{number}"} for number in range(1001)]}, "at most 1000 workloads, got 1001"),
            ({"unknown_workloads": [f"w{number}" for number in range(1000)]}, "at most 1000 workloads, got 1001"),
            ({"counted": [pod(workload=2)]}, "the number of one of the 1 that the report names, or 0, got 2"),
            ({"counted": [pod(workload=2**32 - 1)]}, "or 0, got 4294967295"),
            ({"workloads": []}, "the number of one of the 0 that the report names, or 0, got 1"),
            ({"counted": [pod(), pod(workload=0)]}, "counts every pod once, got 2 pods of 1 UIDs"),
            ({"counted": [{"uid": ""}]}, "the UID of a pod is 1 to 128 letters"),
            ({"counted": [{"uid": "a" * 129}]}, "the UID of a pod"),
            ({"counted": [{"uid": "a b"}]}, "the UID of a pod"),
            ({"counted": [{"uid": "a\n"}]}, "the UID of a pod"),
            ({"counted": [{"uid": "ä"}]}, "the UID of a pod"),
            ({"counted": [pod(number) for number in range(1001)]}, "at most 1000 counted pods, got 1001"),
        ],
    )
    def test_the_reason_is_given(self, changes, message):
        read_report(capacity_pb2.CapacityReport(node="node-1", demand=self.SOUND).SerializeToString())
        with pytest.raises(InvalidInput, match=message):
            read_report(capacity_pb2.CapacityReport(node="node-1", demand=self.SOUND | changes).SerializeToString())

    def test_an_empty_one_has_no_size(self):
        with pytest.raises(InvalidInput, match="cores must be more than 0"):
            read_report(capacity_pb2.CapacityReport(node="node-1", demand={}).SerializeToString())

    def test_that_of_another_node_is_not_sent(self):
        demand = DemandReport("node-2", 4.0, 16.0, Estimate(1.0, 0.1), 2.0, 1.0, {}, {})
        with pytest.raises(InvalidInput, match="node-1 reports its own demand only, got that of node-2"):
            write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1, demand))

    @pytest.mark.parametrize("counted", [{"uid-1": "\ud800"}, {"\ud800": None}, {1: None}])
    def test_what_does_not_fit_is_not_sent(self, counted):
        demand = DemandReport("node-1", 4.0, 16.0, Estimate(1.0, 0.1), 2.0, 1.0, {}, counted)
        with pytest.raises(InvalidInput, match="cannot be sent"):
            write_report(CapacityReport("node-1", 2.5, 3, 1.7e9, 1, demand))


class TestHostileReply:
    @pytest.mark.parametrize(
        ("fields", "message"),
        [
            ({"workloads": {"a b": "jobs/pi"}}, "the UID of a pod"),
            ({"workloads": {"": "jobs/pi"}}, "the UID of a pod"),
            ({"workloads": {"uid-1": ""}}, "the name of a workload"),
            ({"workloads": {"uid-1": "jobs/\t"}}, "the name of a workload"),
            ({"workloads": {f"uid-{number}": "a" for number in range(1001)}}, "at most 1000 pods, got 1001"),
            ({"version": "1" * 65}, "at most 64 printable characters"),
        ],
    )
    def test_the_reason_is_given(self, fields, message):
        with pytest.raises(InvalidInput, match=message):
            read_report_reply(capacity_pb2.ReportReply(**fields).SerializeToString())

    def test_what_does_not_fit_is_not_sent(self):
        with pytest.raises(InvalidInput, match="cannot be sent"):
            write_report_reply(ReportReply({"uid-1": "\ud800"}, ""))


def test_a_view_of_more_nodes_than_any_cluster_has():
    own = Subspace(np.eye(2), [2.0, 1.0])
    with pytest.raises(InvalidInput, match="nodes must be at most"):
        read_view(write_view(ReplicaView("replica-1", 2**32 - 1, own)), 2)


def test_stacks_of_nodes_are_not_sent():
    with pytest.raises(InvalidInput, match="one node's subspace is sent at a time"):
        write_reply(Subspace.from_batch(np.ones((4, 2, 10))))


@pytest.mark.parametrize("name", ["a", "node-1", "ip-10-0-0-1.ec2.internal", "0", ".".join(["a" * 63] * 3)])
def test_names_that_kubernetes_gives_nodes(name):
    assert node_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "-a", "a-", "a..b", ".a", "A", "a_b", "a b", "a\n", "ä", "a" * 64, ".".join(["a" * 63] * 4), "a/../b"]
)
def test_names_that_no_node_has(name):
    with pytest.raises(InvalidInput, match="DNS-1123"):
        node_name(name)
