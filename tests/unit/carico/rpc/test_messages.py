"""Whatever comes over the wire is a sound value or refused, and what is sent comes back as it was."""

import dataclasses
import math
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from carico.errors import InvalidInput
from carico.model.aggregator import Aggregator, ReplicaView, largest_singular_value
from carico.model.subspace import Subspace
from carico.rpc import aggregation_pb2, capacity_pb2
from carico.rpc.identity import node_name
from carico.rpc.messages import (
    MAX_MESSAGE_BYTES,
    read_exchange,
    read_reply,
    read_report,
    read_subspace,
    read_view,
    write_exchange,
    write_reply,
    write_report,
    write_view,
)
from carico.scheduling.report import CapacityReport

telemetry = st.integers(1, 5).flatmap(
    lambda d: arrays(np.float64, (d, 10), elements=st.floats(0, 1)).map(Subspace.from_batch)
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

    def test_the_largest_sound_message_fits(self):
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
            assert 0 <= read.singular_values.min() <= read.singular_values.max() <= largest_singular_value(2)
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
            ({"singular_values": [14.2, 1]}, r"must descend within \[0, 14.1421\]"),
            ({"singular_values": [math.nan, 1]}, "must descend"),
            ({"singular_values": [1, math.nan]}, "must descend"),
            ({"singular_values": [math.inf, 1]}, "must descend"),
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
