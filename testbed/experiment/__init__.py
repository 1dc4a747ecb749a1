"""Experiments: scenario × schedulers × repetitions, on any provider.

`provider` is the protocol that every kind of cluster implements. Nothing here knows a kind of cluster, or pytest.
"""
