"""Columns of nodes by name."""

from hypothesis import given
from hypothesis import strategies as st

from carico.scheduling.rows import NodeRows

names = st.sampled_from([f"node-{number}" for number in range(8)])


@given(st.dictionaries(names, st.integers(0, 100)), st.lists(names, max_size=20))
def test_every_node_has_its_column_or_none(known, nodes):
    rows = NodeRows(known)
    found = rows.of(nodes)
    assert found.tolist() == [known.get(node, -1) for node in nodes]
    assert rows == known, "to look a node up adds none"
